"""Files read and replaced by their real paths, on a real disk."""

import errno
import os
import socket
import stat

import pytest

from greenroom.fs import real_file
from greenroom.fs._internal import (
    NotRegularError,
    open_parent,
    open_regular,
    read_beginning,
    replace_file,
)


@pytest.fixture
def root(tmp_path):
    return tmp_path.resolve()


def accept(_file):
    """Replace whatever is there."""


def test_the_beginning_of_a_file_is_read_and_a_pipe_is_not_waited_for(root):
    (root / "file").write_bytes(b"one two")
    (root / "link").symlink_to("file")
    os.mkfifo(root / "pipe")
    assert read_beginning(root / "file", 3) == b"one"
    assert read_beginning(root / "link", 3) == b"one"
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        read_beginning(root / "link", 3, follow=False)
    with pytest.raises(OSError, match="not a regular file"):
        read_beginning(root / "pipe", 3)


def test_only_a_regular_file_is_opened_and_through_no_link(root):
    (root / "folder").mkdir()
    (root / "folder" / "file").write_bytes(b"one")
    (root / "link").symlink_to("folder")
    os.mkfifo(root / "pipe")
    with open_regular(root / "folder" / "file") as file:
        assert file.read() == b"one"
    with pytest.raises(NotRegularError, match="a folder"):
        open_regular(root / "folder")
    with pytest.raises(NotRegularError, match="a pipe, socket or device"):
        open_regular(root / "pipe")
    with pytest.raises(NotADirectoryError):
        open_regular(root / "link" / "file")
    with pytest.raises(FileNotFoundError):
        open_regular(root / "missing" / "file")


def test_a_file_is_made_with_its_folders_and_the_user_s_mask(root):
    before = os.umask(0o027)
    try:
        status = replace_file(root / "a" / "b" / "file", b"one", accept)
    finally:
        os.umask(before)
    assert (root / "a" / "b" / "file").read_bytes() == b"one"
    assert stat.S_IMODE(status.st_mode) == 0o640
    assert status.st_ino == (root / "a" / "b" / "file").stat().st_ino


def test_a_file_that_is_replaced_keeps_its_mode_and_its_other_names_the_old_content(root):
    (root / "file").write_bytes(b"old")
    (root / "file").chmod(0o750)
    (root / "other").hardlink_to(root / "file")
    seen = []
    replace_file(root / "file", b"new", lambda file: seen.append(file.read()))
    assert seen == [b"old"]
    assert (root / "file").read_bytes() == b"new"
    assert (root / "other").read_bytes() == b"old"
    assert stat.S_IMODE((root / "file").stat().st_mode) == 0o750


def test_a_check_that_raises_spares_the_file_and_leaves_no_other(root):
    (root / "file").write_bytes(b"old")

    def refuse(_file):
        raise ValueError("it was changed")

    with pytest.raises(ValueError, match="it was changed"):
        replace_file(root / "file", b"new", refuse)
    assert os.listdir(root) == ["file"]
    assert (root / "file").read_bytes() == b"old"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_disk_that_fails_leaves_the_old_file_alone(root, monkeypatch, step):
    (root / "file").write_bytes(b"old")

    def fail(*_arguments, **_options):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        replace_file(root / "file", b"new", accept)
    monkeypatch.undo()
    assert os.listdir(root) == ["file"]
    assert (root / "file").read_bytes() == b"old"


def test_a_socket_is_not_replaced(root, monkeypatch):
    monkeypatch.chdir(root)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        with pytest.raises(OSError):  # noqa: PT011  (each system says so in words of its own)
            replace_file(root / "socket", b"new", accept)
    assert os.listdir(root) == ["socket"]
    assert stat.S_ISSOCK((root / "socket").stat().st_mode)


def test_a_file_that_may_not_be_written_is_not_replaced(root, monkeypatch):
    (root / "file").write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    with pytest.raises(PermissionError, match="read-only"):
        replace_file(root / "file", b"new", accept)
    assert (root / "file").read_bytes() == b"old"


def test_a_folder_that_another_program_makes_first_is_used(root, monkeypatch):
    mkdir = os.mkdir

    def race(name, *, dir_fd):
        mkdir(name, dir_fd=dir_fd)
        raise FileExistsError(name)

    monkeypatch.setattr(os, "mkdir", race)
    replace_file(root / "folder" / "file", b"one", accept)
    assert (root / "folder" / "file").read_bytes() == b"one"


@pytest.mark.parametrize("may_give", [True, False])
def test_an_owner_is_kept_or_else_no_right_of_ours_is_given_away(root, monkeypatch, may_give):
    given = []

    def chown(_fd, *owner):
        if not may_give:
            raise PermissionError
        given.append(owner)

    monkeypatch.setattr(os, "fchown", chown)
    before = list(root.stat())
    before[stat.ST_MODE], before[stat.ST_UID], before[stat.ST_GID] = 0o104755, 12345, 54321
    with (root / "file").open("wb") as file:
        real_file._copy_attributes(file.fileno(), os.stat_result(before))
    assert given == ([(12345, 54321)] if may_give else [])
    assert stat.S_IMODE((root / "file").stat().st_mode) == (0o4755 if may_give else 0o755)


class Status:
    """The status of something that another user than root owns."""

    st_uid, st_gid = 12345, 54321


def test_what_root_makes_for_another_user_is_given_to_that_user(root, monkeypatch):
    """As root sees it, whoever runs the tests."""
    given, fstat = [], os.fstat
    with open_parent(root / "file") as folder:
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        monkeypatch.setattr(os, "fchown", lambda fd, *owner: given.append((fd, owner)))
        monkeypatch.setattr(os, "fstat", lambda fd: Status if fd == folder else fstat(fd))
        real_file._give_to_owner(folder, -1)
    assert given == [(-1, (12345, 54321))]


def test_only_an_empty_folder_of_root_is_given_away(root, monkeypatch):
    given, fstat = [], os.fstat
    monkeypatch.setattr(real_file, "_give_to_owner", lambda _, new: given.append(fstat(new)))
    for name in ("empty", "full/below"):
        (root / name).mkdir(parents=True)
    (root / "link").symlink_to("empty")
    monkeypatch.setattr(
        os, "fstat", lambda fd: os.stat_result([*fstat(fd)[:4], 0, *fstat(fd)[5:10]])
    )
    with open_parent(root / "x") as folder:
        for name in ("full", "link", "missing"):
            real_file._give_new_folder(folder, name)
        assert given == []
        real_file._give_new_folder(folder, "empty")
    assert [each.st_ino for each in given] == [(root / "empty").stat().st_ino]
