"""Putting one path back as it was; blocks. Each is all or nothing."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from greenroom.core import FileState, ToolError
from greenroom.tools.builtin.atomic_file import open_parent
from greenroom.tools.workspace.file_state import look_at


def put_back(path: Path, present: FileState, wanted: FileState, content: bytes = b"") -> None:
    """Make a real path as `wanted`, if it still is as `present`; missing folders are made.

    No folder on the way is entered through a link. Other names of a file (hard links) stay as they
    are; an empty folder in its place is removed.

    Raises:
        ToolError: it has changed since.
        OSError: the disk refused, or a folder in its place holds something; it is as it was.
    """
    if not look_at(path).state.same(present):
        raise ToolError("it was changed this moment")
    with open_parent(path, make=wanted.kind != "absent") as folder:
        if wanted.kind == "absent":
            os.unlink(path.name, dir_fd=folder)
        else:
            _replace(folder, path.name, wanted, content)
        _sync(folder)


def _replace(folder: int, name: str, wanted: FileState, content: bytes) -> None:
    temporary = f".greenroom-{secrets.token_hex(8)}.tmp"
    try:
        if wanted.kind == "link":
            os.symlink(wanted.target, temporary, dir_fd=folder)
        else:
            _write(folder, temporary, content, wanted.mode)
        with suppress(FileNotFoundError, NotADirectoryError):
            os.rmdir(name, dir_fd=folder)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)


def _write(folder: int, name: str, content: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
        file.write(content)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


def _sync(folder: int) -> None:
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
