"""Private temporary folders: gone at the end, and those of the killed with the next process."""

import errno
import os
import stat
import time
from pathlib import Path

import pytest

from greenroom.sandbox import temporary_files as temporary
from greenroom.sandbox.temporary_files import TemporaryFolder, remove_stale


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def age(path: str | Path) -> None:
    before = time.time() - 120
    os.utime(path, (before, before))


def killed() -> str:
    """Make one in a process that is killed, with something in it; return its path."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        made = TemporaryFolder.make()
        Path(made.path, "left").write_text("left")
        os.write(tell, made.path.encode())
        os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    os.close(tell)
    path = os.read(told, 4096).decode()
    os.close(told)
    return path


def test_it_is_ours_alone_and_gone_at_the_end(place: Path) -> None:
    made = TemporaryFolder.make()
    Path(made.path, "file").touch()
    assert stat.S_IMODE(os.stat(made.path).st_mode) == 0o700
    made.remove()
    assert not list(place.iterdir())


def test_that_of_a_process_that_was_killed_is_removed_when_it_is_old() -> None:
    path = killed()
    remove_stale()
    assert os.path.isdir(path)
    age(path)
    remove_stale()
    assert not os.path.exists(path)


def test_one_that_is_in_use_stays_however_old() -> None:
    made = TemporaryFolder.make()
    age(made.path)
    remove_stale()
    assert os.path.isdir(made.path)
    made.remove()


def test_what_only_looks_like_one_stays(place: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    age(elsewhere)
    (place / "greenroom-sandbox-alink_to").symlink_to(elsewhere)
    (place / "greenroom-sandbox-filename").touch(mode=0o700)
    (place / "another").mkdir()
    for name in ("greenroom-sandbox-filename", "another"):
        age(place / name)
    remove_stale()
    assert len(list(place.iterdir())) == 3
    assert elsewhere.is_dir()


def test_that_of_another_user_stays_also_where_we_are_root(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place / "greenroom-sandbox-abcdef_1"
    path.mkdir(mode=0o700)
    age(path)
    owner = path.stat().st_uid
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 0 if owner else 7)
        remove_stale()
    assert path.exists()
    remove_stale()
    assert not path.exists()


@pytest.mark.parametrize(
    ("name", "mode"), [("greenroom-sandbox-mine", 0o700), ("greenroom-sandbox-abcdef_1", 0o755)]
)
def test_what_we_would_not_have_made_so_stays(place: Path, name: str, mode: int) -> None:
    (place / name).mkdir(mode=mode)
    age(place / name)
    remove_stale()
    assert (place / name).exists()


def test_a_folder_too_deep_to_be_removed_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(*_: object, **__: object) -> None:
        raise RecursionError

    made, stale = TemporaryFolder.make(), killed()
    age(stale)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", give_up)
        made.remove()
        remove_stale()
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(made._fd)
    assert os.path.isdir(stale)


def test_where_nothing_can_be_locked_it_is_made_and_removed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr("fcntl.flock", refuse)
    made = TemporaryFolder.make()
    age(made.path)
    remove_stale()
    assert os.path.isdir(made.path)
    made.remove()
    assert not list(place.iterdir())


def test_one_that_can_not_be_opened_is_not_left(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(OSError, match="too many"):
            TemporaryFolder.make()
    assert not list(place.iterdir())


def test_without_a_temporary_folder_there_is_nothing_to_remove(place: Path) -> None:
    place.rmdir()
    remove_stale()
    assert not place.exists()


def test_what_is_closed_is_opened_and_links_are_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, kept = tmp_path / "t" / "a", tmp_path / "kept"
    closed.mkdir(parents=True)
    kept.mkdir(mode=0o500)
    (tmp_path / "t" / "way").symlink_to(kept)
    closed.chmod(0)
    removed: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", lambda path, **_: removed.append(path))
        patch.setattr(os, "geteuid", lambda: 7)
        temporary._remove(str(tmp_path / "t"))
        assert removed == [str(tmp_path / "t")] * 2
        assert stat.S_IMODE(closed.stat().st_mode) == 0o700
        closed.chmod(0)
        patch.setattr(os, "geteuid", lambda: 0)
        temporary._remove(str(tmp_path / "t"))
        assert stat.S_IMODE(closed.stat().st_mode) == 0
    assert stat.S_IMODE(kept.stat().st_mode) == 0o500
    closed.chmod(0o700)
