"""Reading how one path is. Every function here blocks: call them in a thread of trio's."""

import hashlib
import os
import stat
from pathlib import Path
from typing import NamedTuple

from greenroom.core import FileState
from greenroom.tools.builtin.atomic_file import open_parent, read_pieces

MAX_FILE_BYTES = 10_000_000
"""What is longer is neither kept nor compared by its content."""

ABSENT = FileState("absent")

_KINDS = {
    stat.S_IFDIR: "it is a folder",
    stat.S_IFIFO: "it is a pipe",
    stat.S_IFSOCK: "it is a socket",
}


class Stamp(NamedTuple):
    """What tells without reading it that a file was changed."""

    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


class Look(NamedTuple):
    """One path as it was when it was looked at; the content only of a file that was read."""

    state: FileState
    stamp: Stamp | None = None
    content: bytes | None = None


def stamp_of(status: os.stat_result) -> Stamp:
    """Take the stamp from a file's status."""
    return Stamp(
        status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
    )


def look_at(path: Path) -> Look:
    """Look at a real path; no folder on the way is entered through a link.

    Never blocks on a pipe, never reads a device, nor a file of more than 10 MB.
    """
    try:
        with open_parent(path) as folder:
            return _look_in(folder, path.name)
    except (FileNotFoundError, NotADirectoryError):
        return Look(ABSENT)
    except OSError as error:
        return Look(FileState("other", problem=_words(error)))


def _look_in(folder: int, name: str) -> Look:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    stamp, kind = stamp_of(status), stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFLNK:
        return Look(_link(os.readlink(name, dir_fd=folder)), stamp)
    if kind != stat.S_IFREG:
        return Look(FileState("other", problem=_KINDS.get(kind, "it is a device")), stamp)
    mode = stat.S_IMODE(status.st_mode)
    unread = FileState("file", mode, status.st_size)
    if status.st_size > MAX_FILE_BYTES:
        return Look(_with(unread, f"it is larger than {MAX_FILE_BYTES:,} bytes"), stamp)
    try:
        return _read(folder, name, unread)
    except PermissionError as error:
        return Look(_with(unread, _words(error)), stamp)


def _read(folder: int, name: str, unread: FileState) -> Look:
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return Look(FileState("other", problem="it changes all the time"))
        content = read_pieces(file, MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        return Look(_with(unread, "it grew while it was read"), stamp_of(status))
    mode, digest = stat.S_IMODE(status.st_mode), hashlib.sha256(content).hexdigest()
    return Look(FileState("file", mode, len(content), digest), stamp_of(status), content)


def _link(target: str) -> FileState:
    if not is_unicode(target):
        return FileState("other", problem="it is a link to a name that is no Unicode")
    return FileState("link", target=target)


def is_unicode(text: str) -> bool:
    """Whether a name can stand in JSON: one that is no UTF-8 on the disk can't."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _with(state: FileState, problem: str) -> FileState:
    return FileState(state.kind, state.mode, state.size, problem=problem)


def _words(error: OSError) -> str:
    return f"it can't be read: {error.strerror or error}"
