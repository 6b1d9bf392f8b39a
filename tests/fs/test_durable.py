"""Durable files on their own, without a session."""

import errno
import os
import sys
from multiprocessing import get_context

import pytest

from greenroom.fs._internal import durable


def fail(number):
    def call(*_args, **_options):
        raise OSError(number, os.strerror(number))

    return call


def test_a_file_in_the_working_directory_is_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for data in (b"one", b"two"):
        durable.write_file("rules.json", data)
    assert (tmp_path / "rules.json").read_bytes() == b"two"
    assert [each.name for each in tmp_path.iterdir()] == ["rules.json"]


@pytest.mark.parametrize("name", ["notes.md", "n" * 252 + ".md", "\N{OWL}" * 60 + ".md"])
def test_a_file_in_a_user_s_folder_is_written_and_no_other_is_touched(tmp_path, name):
    (tmp_path / "notes.md.tmp").write_bytes(b"a draft")
    durable.write_file(str(tmp_path / name), b"new")
    assert (tmp_path / name).read_bytes() == b"new"
    assert (tmp_path / "notes.md.tmp").read_bytes() == b"a draft"
    assert {each.name for each in tmp_path.iterdir()} == {name, "notes.md.tmp"}


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EACCES])
def test_a_folder_that_can_t_be_flushed_fails_no_file_of_a_user(tmp_path, monkeypatch, number):
    path = tmp_path / "notes.md"
    monkeypatch.setattr(os, "fsync", fail(number))
    durable.write_file(str(path), b"new")
    assert path.read_bytes() == b"new"
    with pytest.raises(durable.SyncError):
        durable.replace(str(path), b"newer")


@pytest.mark.parametrize("write", [durable.replace, durable.write_file])
def test_an_interrupt_leaves_no_temporary_file(tmp_path, monkeypatch, write):
    def interrupt(_fd):
        raise KeyboardInterrupt

    monkeypatch.setattr(durable, "sync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(str(tmp_path / "notes.md"), b"new")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(sys.platform != "linux", reason="flushes by fdatasync")
@pytest.mark.parametrize("step", ["write", "fsync", "fdatasync", "rename"])
def test_a_replacement_that_fails_leaves_one_whole_file(tmp_path, monkeypatch, step):
    path = tmp_path / "metadata.json"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, step, fail(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left") as failed:
        durable.replace(str(path), b"new")
    monkeypatch.undo()
    assert isinstance(failed.value, durable.SyncError) == (step in ("fsync", "fdatasync"))
    assert os.listdir(tmp_path) == ["metadata.json"]
    assert path.read_bytes() == (b"new" if step == "fsync" else b"old")


def test_a_left_over_temporary_file_is_not_written_through(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"kept")
    (tmp_path / "new.tmp").symlink_to(victim)
    durable.replace(str(tmp_path / "new"), b"data")
    assert victim.read_bytes() == b"kept"
    assert (tmp_path / "new").read_bytes() == b"data"
    assert not (tmp_path / "new").is_symlink()


def test_an_append_that_the_disk_takes_piece_by_piece_is_whole(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:3]))
    with (tmp_path / "log").open("ab") as file:
        durable.append(file.fileno(), b"one two three\n", 0, flush=False)
    assert (tmp_path / "log").read_bytes() == b"one two three\n"


def test_a_disk_that_is_full_half_way_leaves_nothing_of_an_append(tmp_path, monkeypatch):
    path, write = tmp_path / "log", os.write
    path.write_bytes(b"one\n")

    def fill(fd, data):
        monkeypatch.setattr(os, "write", fail(errno.ENOSPC))
        return write(fd, data[:2])

    monkeypatch.setattr(os, "write", fill)
    with path.open("ab") as file:
        with pytest.raises(OSError, match="No space left"):
            durable.append(file.fileno(), b"two\n", 4)
    assert path.read_bytes() == b"one\n"


def test_what_can_not_be_rolled_back_is_uncertain(tmp_path, monkeypatch):
    monkeypatch.setattr(durable, "sync", fail(errno.EIO))
    monkeypatch.setattr(os, "ftruncate", fail(errno.EIO))
    with (tmp_path / "log").open("ab") as file:
        with pytest.raises(durable.SyncError):
            durable.append(file.fileno(), b"one\n", 0)


def test_what_could_not_be_read_again_is_not_appended(tmp_path, monkeypatch):
    monkeypatch.setattr(durable, "_MAX_BYTES", 7)
    with (tmp_path / "log").open("ab") as file:
        durable.append(file.fileno(), b"one\n", 0)
        with pytest.raises(OSError, match="too large"):
            durable.append(file.fileno(), b"two\n", 4)
    assert (tmp_path / "log").read_bytes() == b"one\n"


def test_where_there_is_a_full_sync_it_is_taken(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(durable.fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(durable.fcntl, "fcntl", lambda *call: calls.append(call))
    with (tmp_path / "log").open("ab") as file:
        durable.sync(file.fileno())
        assert calls == [(file.fileno(), 51)]


def test_a_file_is_cut_off(tmp_path):
    (tmp_path / "log").write_bytes(b"one\ntwo\n")
    durable.truncate(str(tmp_path / "log"), 4)
    assert (tmp_path / "log").read_bytes() == b"one\n"
    (tmp_path / "link").symlink_to("log")
    with pytest.raises(OSError):  # noqa: PT011  (each system says so in words of its own)
        durable.truncate(str(tmp_path / "link"), 0)
    assert (tmp_path / "log").read_bytes() == b"one\n"


def test_folders_are_made_with_their_parents_for_this_user_alone(tmp_path):
    path = tmp_path / "a" / "b"
    durable.make_folder(str(path))
    durable.make_folder(str(path))
    assert path.stat().st_mode & 0o777 == 0o700
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_another_process_makes_first_is_fine(tmp_path, monkeypatch):
    path, mkdir = tmp_path / "a" / "b", os.mkdir

    def race(name, mode):
        mkdir(name, mode)
        if name == str(path):
            raise FileExistsError(name)

    monkeypatch.setattr(os, "mkdir", race)
    durable.make_folder(str(path))
    assert path.is_dir()


def test_a_file_is_read_from_an_offset_on_and_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(durable, "_CHUNK", 3)
    path = tmp_path / "log"
    path.write_bytes(b"one two three")
    assert durable.read_bytes(str(path)) == b"one two three"
    assert durable.read_bytes(str(path), 4) == b"two three"
    assert durable.read_bytes(str(tmp_path / "missing")) is None
    with durable.open_to_read(str(path)) as (fd, size):
        assert size == 13
        pread = os.pread
        monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, min(size, 2), at))
        assert durable.read_between(fd, 4, 7) == b"two"
        with pytest.raises(OSError, match="changed by another program"):
            durable.read_between(fd, 8, 20)


def test_only_regular_files_of_a_sensible_size_are_read(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        durable.read_bytes(str(tmp_path / "pipe"))  # and it waits for no writer
    (tmp_path / "long").write_bytes(b"12345")
    monkeypatch.setattr(durable, "_MAX_BYTES", 4)
    with pytest.raises(OSError, match="too large"):
        durable.read_bytes(str(tmp_path / "long"))
    assert durable.read_bytes(str(tmp_path / "long"), 1) == b"2345"


def make_session(root, name):
    (root / name / "below").mkdir(parents=True)
    (root / name / "below" / "file").write_bytes(b"x")
    (root / name / "link").symlink_to(root / "outside")
    return str(root / name)


def test_a_folder_is_removed_with_all_in_it_and_nothing_outside(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(b"kept")
    make_session(tmp_path, ".deleted-old-1234")  # as a crash leaves it
    durable.remove_folder(make_session(tmp_path, "session"))
    assert os.listdir(tmp_path) == ["outside"]
    assert (tmp_path / "outside" / "file").read_bytes() == b"kept"


def test_a_left_over_that_can_not_be_removed_stops_nothing(tmp_path, monkeypatch):
    make_session(tmp_path, ".deleted-old-1234")
    folder, rmdir = make_session(tmp_path, "session"), os.rmdir

    def refuse(path):
        if "-old-" in path:
            raise PermissionError(path)
        rmdir(path)

    monkeypatch.setattr(os, "rmdir", refuse)
    durable.remove_folder(folder)
    assert os.listdir(tmp_path) == [".deleted-old-1234"]


def test_what_another_delete_removes_meanwhile_is_passed_over(tmp_path, monkeypatch):
    folder, unlink = make_session(tmp_path, "session"), os.unlink

    def race(path):
        unlink(path)
        unlink(path)

    monkeypatch.setattr(os, "unlink", race)
    durable.remove_folder(folder)
    assert os.listdir(tmp_path) == []


def take_lock(folder, answers):
    try:
        durable.lock(folder)
    except durable.FolderLockedError as held:
        answers.put(held.pid)


def test_a_child_of_the_holder_has_no_share_in_the_lock(tmp_path):
    """When the parent has released its lock, a child that lives on must not keep it."""
    fd = durable.lock(str(tmp_path))
    started, leave = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(started[1], b"1")
        os.close(leave[1])
        os.read(leave[0], 1)
        os._exit(0)
    try:
        assert os.read(started[0], 1) == b"1"
        durable.check_lock(fd, str(tmp_path))
        os.close(fd)  # the kernel would keep it for the child
        durable._lock_inodes.pop(fd)
        durable.unlock(durable.lock(str(tmp_path)), str(tmp_path))
    finally:
        os.close(leave[1])
        os.waitpid(child, 0)
        for each in (*started, leave[0]):
            os.close(each)


def test_a_child_gives_up_each_lock_and_no_other_file(tmp_path):
    """What runs in the child runs here, where it is measured."""
    fd = durable.lock(str(tmp_path / "a"))
    other = os.open(tmp_path, os.O_RDONLY)
    durable._lock_inodes[other] = 0, -1  # a number that was closed, and given to another file
    durable._lock_inodes[1_000_000] = 0, 0  # and one that is closed
    try:
        durable._release_in_child()
        assert os.path.samestat(os.fstat(fd), os.stat(os.devnull))
        assert os.path.samestat(os.fstat(other), os.stat(tmp_path))
        assert not durable._lock_inodes
        durable.unlock(durable.lock(str(tmp_path / "a")), str(tmp_path / "a"))
    finally:
        os.close(fd)
        os.close(other)


def test_another_process_can_not_take_the_lock_and_learns_whose_it_is(tmp_path):
    fd = durable.lock(str(tmp_path))
    context = get_context("spawn")
    answers = context.Queue()
    other = context.Process(target=take_lock, args=(str(tmp_path), answers))
    other.start()
    assert answers.get(timeout=60) == os.getpid()
    other.join()
    durable.unlock(fd, str(tmp_path))


def test_a_lock_whose_file_goes_while_it_is_taken_is_tried_again(tmp_path, monkeypatch):
    flock, opened = durable.fcntl.flock, []

    def race(fd, how):
        flock(fd, how)
        opened.append(fd)
        if len(opened) < 3:
            (tmp_path / "lock").unlink()  # as its last holder does

    monkeypatch.setattr(durable.fcntl, "flock", race)
    durable.unlock(durable.lock(str(tmp_path)), str(tmp_path))
    assert len(opened) == 3


def test_a_folder_that_always_goes_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(durable, "_ATTEMPTS", 3)
    mkdir = os.mkdir

    def vanish(path, mode):
        if path != str(tmp_path / "session"):
            mkdir(path, mode)

    monkeypatch.setattr(os, "mkdir", vanish)
    with pytest.raises(durable.FolderLockedError) as held:
        durable.lock(str(tmp_path / "session"))
    assert held.value.pid is None


def test_a_system_that_knows_no_locks_is_an_error_and_nothing_stays_open(tmp_path, monkeypatch):
    before = len(durable._lock_inodes)
    monkeypatch.setattr(durable.fcntl, "flock", fail(errno.ENOLCK))
    with pytest.raises(OSError, match=os.strerror(errno.ENOLCK)):
        durable.lock(str(tmp_path))
    assert len(durable._lock_inodes) == before


def test_a_full_disk_does_not_prevent_a_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "ftruncate", fail(errno.ENOSPC))
    fd = durable.lock(str(tmp_path))
    durable.check_lock(fd, str(tmp_path))
    assert (tmp_path / "lock").read_bytes() == b""
    assert not durable.is_locked(str(tmp_path))  # its content names no process
    durable.unlock(fd, str(tmp_path))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a folder can be read as a file")
def test_a_folder_in_the_place_of_a_lock_file_names_no_holder(tmp_path):
    (tmp_path / "lock").mkdir()
    assert not durable.is_locked(str(tmp_path))
    with pytest.raises(IsADirectoryError):
        durable.lock(str(tmp_path))


@pytest.mark.parametrize("write", [durable.write_file, durable.replace])
def test_an_error_names_the_file_and_not_the_temporary_one(tmp_path, write):
    path = str(tmp_path / "gone" / "a")
    with pytest.raises(FileNotFoundError) as caught:
        write(path, b"x")
    assert (caught.value.filename, caught.value.filename2) == (path, None)
