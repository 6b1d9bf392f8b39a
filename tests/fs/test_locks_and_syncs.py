"""Locks of folders and failing flushes, without a session."""

import errno
import os
import subprocess
import sys

import pytest

from greenroom.fs._internal import durable

HOLDER = (
    "import sys; from greenroom.fs._internal import durable;"
    "durable.lock(sys.argv[1]); print(); input()"
)


def test_a_folder_has_one_holder_and_a_second_learns_who_it_is(tmp_path):
    folder = str(tmp_path / "session")
    fd = durable.lock(folder)
    with pytest.raises(durable.FolderLockedError) as held:
        durable.lock(folder)
    assert held.value.args == (os.getpid(),)
    durable.check_lock(fd, folder)
    durable.unlock(fd, folder)
    assert os.listdir(folder) == []
    durable.unlock(durable.lock(folder), folder)


def test_a_lock_whose_file_was_removed_is_no_longer_ours(tmp_path):
    folder = str(tmp_path)
    fd = durable.lock(folder)
    (tmp_path / "lock").unlink()
    with pytest.raises(durable.FolderLockedError):
        durable.check_lock(fd, folder)
    assert not durable.is_locked(folder)
    durable.unlock(fd, folder)


def test_a_killed_holder_s_lock_is_taken_over(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline()
        assert durable.is_locked(str(tmp_path))
        with pytest.raises(durable.FolderLockedError) as held:
            durable.lock(str(tmp_path))
        assert held.value.args == (holder.pid,)
        holder.kill()
        holder.wait()
        assert not durable.is_alive(holder.pid)
        durable.unlock(durable.lock(str(tmp_path)), str(tmp_path))


@pytest.mark.parametrize("pid", [0, 2**70])
def test_what_can_not_be_asked_counts_as_alive(pid):
    assert durable.is_alive(pid)


def fail(number):
    def call(*_args):
        raise OSError(number, os.strerror(number))

    return call


@pytest.mark.skipif(sys.platform != "linux", reason="flushes by fdatasync")
def test_a_flush_that_fails_is_an_error_of_its_own_and_the_file_is_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "log"
    path.write_bytes(b"one\n")
    with path.open("ab") as file:
        monkeypatch.setattr(os, "fdatasync", fail(errno.EIO))
        with pytest.raises(durable.SyncError):
            durable.append(file.fileno(), b"two\n", 4)
    assert path.read_bytes() == b"one\n"


def test_an_append_behind_another_program_s_back_writes_nothing(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"one\n")
    with path.open("ab") as file:
        with pytest.raises(OSError, match="changed or removed by another program"):
            durable.append(file.fileno(), b"two\n", 9)
    assert path.read_bytes() == b"one\n"


def test_folders_above_that_are_not_ours_are_passed_over_and_others_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", fail(errno.EINVAL))
    durable.sync_folders_above(str(tmp_path / "a"))
    monkeypatch.setattr(os, "fsync", fail(errno.EIO))
    with pytest.raises(durable.SyncError):
        durable.sync_folders_above(str(tmp_path / "a"))


def test_a_line_is_written_over_in_its_place(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\n")
    durable.rewrite(str(path), 4, 8)
    assert path.read_bytes() == b"one\ntwo\n"
    with pytest.raises(OSError, match="changed by another program"):
        durable.rewrite(str(path), 8, 12)
