"""Packs: contents by their digest, whole or not there, bounded, for this user alone."""

import hashlib
import os
import stat

import pytest

from greenroom.tools import file_contents as packs
from greenroom.tools.file_contents import Packs


def digest(content):
    return hashlib.sha256(content).hexdigest()


def keep(store, *contents, **options):
    with store.new_pack(**options) as pack:
        return [pack.add(digest(content), content) for content in contents]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "checkpoints"


def test_what_was_kept_is_read_again_by_anybody(folder):
    keep(Packs(str(folder)), b"one", b"", b"two\n" * 1000)
    store = Packs(str(folder))
    for content in (b"one", b"", b"two\n" * 1000):
        assert digest(content) in store
        assert store.read(digest(content)) == content
    assert digest(b"three") not in store
    assert store.read(digest(b"three")) is None


def test_a_content_is_kept_once(folder):
    store = Packs(str(folder))
    keep(store, b"one", b"one")
    keep(store, b"one")
    assert [len((folder / name).read_bytes()) for name in os.listdir(folder)] == [64 + 3 + 3]


@pytest.mark.parametrize("flush", [True, False])
def test_it_is_for_this_user_alone(folder, flush):
    keep(Packs(str(folder)), b"one", flush=flush)
    (pack,) = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(pack.stat().st_mode) == 0o600


def test_nothing_to_keep_makes_no_pack(folder):
    keep(Packs(str(folder)))
    assert list(folder.iterdir()) == []


def test_a_block_that_raises_leaves_nothing(folder):
    store = Packs(str(folder))

    def fail():
        with store.new_pack() as pack:
            pack.add(digest(b"one"), b"one")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(folder.iterdir()) == []
    assert digest(b"one") not in store


def test_a_disk_that_refuses_leaves_what_there_was(folder, monkeypatch):
    store = Packs(str(folder))
    keep(store, b"one")

    def full(*_):
        raise OSError(28, "No space left on device")

    for call in ("fsync", "rename"):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, full)
            with pytest.raises(OSError, match="No space"):
                keep(store, b"two")
        assert len(list(folder.iterdir())) == 1
        assert digest(b"two") not in store
    assert store.read(digest(b"one")) == b"one"


def test_a_pack_that_was_not_finished_is_not_read(folder):
    folder.mkdir()
    (folder / "000001.pack.tmp").write_bytes(f"{digest(b'one')} 3\none".encode())
    store = Packs(str(folder))
    assert digest(b"one") not in store
    keep(store, b"two")
    assert sorted(os.listdir(folder)) == ["000001.pack"]


def test_a_damaged_content_is_not_returned(folder):
    keep(Packs(str(folder)), b"one", b"two")
    (pack,) = folder.iterdir()
    pack.write_bytes(pack.read_bytes().replace(b"one", b"onE"))
    store = Packs(str(folder))
    assert store.read(digest(b"one")) is None
    assert store.read(digest(b"two")) == b"two"
    pack.write_bytes(b"no pack at all")
    assert digest(b"two") not in Packs(str(folder))


def test_a_pack_takes_so_much_and_no_more(folder, monkeypatch):
    monkeypatch.setattr(packs, "MAX_PACK_BYTES", 100)
    store = Packs(str(folder))
    assert keep(store, b"o" * 30, b"t" * 90, b"o" * 30) == [True, False, True]


def test_the_oldest_go_first(folder, monkeypatch):
    monkeypatch.setattr(packs, "MAX_KEPT_BYTES", 250)
    store = Packs(str(folder))
    for content in (b"one", b"two", b"three", b"four"):
        keep(store, content)
        store.trim()
    assert sorted(os.listdir(folder)) == ["000002.pack", "000003.pack", "000004.pack"]
    assert [digest(content) in store for content in (b"one", b"two")] == [False, True]


def test_what_somebody_else_adds_is_noticed_and_not_overwritten(folder):
    mine, theirs = Packs(str(folder)), Packs(str(folder))
    keep(mine, b"one")
    keep(theirs, b"two")
    keep(mine, b"three")
    fresh = Packs(str(folder))
    for content in (b"one", b"two", b"three"):
        assert mine.read(digest(content)) == fresh.read(digest(content)) == content


def test_a_file_in_the_place_of_the_folder_is_an_error(folder):
    folder.write_text("no folder")
    store = Packs(str(folder))
    assert digest(b"one") not in store
    with pytest.raises(OSError, match="checkpoints"):
        keep(store, b"one")


def test_what_is_no_file_is_no_pack(folder):
    keep(Packs(str(folder)), b"one")
    os.mkfifo(folder / "000002.pack")
    (folder / "000003.pack").mkdir()
    (folder / "000004.pack").symlink_to("nowhere")
    store = Packs(str(folder))
    assert store.read(digest(b"one")) == b"one"
    keep(store, b"two")
    assert Packs(str(folder)).read(digest(b"two")) == b"two"


@pytest.mark.parametrize("kind", ["rest", "link", "pipe"])
def test_what_stands_where_a_pack_is_written_first_is_out_of_the_way(folder, tmp_path, kind):
    folder.mkdir()
    target, temporary = tmp_path / "target", folder / "000001.pack.tmp"
    target.write_text("precious")
    match kind:
        case "rest":
            temporary.write_text("half a pack of a process that died")
        case "link":
            temporary.symlink_to(target)
        case "pipe":
            os.mkfifo(temporary)
    keep(Packs(str(folder)), b"one")
    assert Packs(str(folder)).read(digest(b"one")) == b"one"
    assert target.read_text() == "precious"
    assert [each.name for each in folder.iterdir()] == ["000001.pack"]
