"""The contents of files in a workspace: read, kept in packs, and put back.

`look_at` reads the state of a path, `Packs` keeps contents, `put_back` undoes one change. Every
function here blocks: call it in a thread of trio.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from greenroom.core import ToolError
from greenroom.core._internal import FileState, compile_later
from greenroom.fs._internal import (
    NotRegularError,
    open_parent,
    open_regular_in,
    replace_in,
    sync_open_folder,
    write_new,
)
from greenroom.tools.builtin.file_access import read_pieces
from greenroom.tools.pack_places import PackFolder, PackPlace

MAX_FILE_BYTES = 10_000_000
"""Longer files are neither kept nor compared by their content."""

ABSENT = FileState("absent")

_KINDS = {
    stat.S_IFDIR: "it is a folder",
    stat.S_IFIFO: "it is a pipe",
    stat.S_IFSOCK: "it is a socket",
}


class StatusStamp(NamedTuple):
    """The status of a file, by which a change shows without reading it."""

    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


class Look(NamedTuple):
    """One path at the moment of a look; the content only if the file was read."""

    state: FileState
    stamp: StatusStamp | None = None
    content: bytes | None = None


def take_stamp(status: os.stat_result) -> StatusStamp:
    """Take the stamp from a file's status."""
    return StatusStamp(
        status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
    )


def look_at(path: Path) -> Look:
    """Look at a real path; no folder on the way is entered through a link.

    Never waits for a pipe, and never reads a device or a file of more than 10 MB.
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
    stamp, kind = take_stamp(status), stat.S_IFMT(status.st_mode)
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
    try:
        file = open_regular_in(folder, name)
    except NotRegularError:
        return Look(FileState("other", problem="it changes all the time"))
    with file:
        status = os.fstat(file.fileno())
        content = read_pieces(file, MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        return Look(_with(unread, "it grew while it was read"), take_stamp(status))
    mode, digest = stat.S_IMODE(status.st_mode), hashlib.sha256(content).hexdigest()
    return Look(FileState("file", mode, len(content), digest), take_stamp(status), content)


def _link(target: str) -> FileState:
    if not is_unicode(target):
        return FileState("other", problem="it is a link to a name that is not Unicode")
    return FileState("link", target=target)


def is_unicode(text: str) -> bool:
    """Whether JSON can hold a name: not if it is not UTF-8 on the disk."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _with(state: FileState, problem: str) -> FileState:
    return FileState(state.kind, state.mode, state.size, problem=problem)


def _words(error: OSError) -> str:
    return f"it can't be read: {error.strerror or error}"


# A pack has no index: for each content a line `<sha256> <size>`, then the bytes. It appears under
# its name when it is complete, and never changes.

MAX_PACK_BYTES = 32_000_000
"""Bytes of contents in one pack, which is for the calls of one reply."""
MAX_KEPT_BYTES = 256_000_000
"""Bytes in all packs of one folder; the oldest pack goes first."""

_LINE = compile_later(rb"([0-9a-f]{64}) (\d{1,9})\n")
_LONGEST_LINE = 128


class _Location(NamedTuple):
    pack: str
    offset: int
    size: int


class Packs:
    """Contents of files by their SHA-256, in packs in one place.

    One thread at a time may use it, and one process may write.
    """

    def __init__(self, place: str | PackPlace) -> None:
        """Name a folder, or another place; it is read at the first use."""
        self._place = PackFolder(place) if isinstance(place, str) else place
        self._locations: dict[str, _Location] | None = None
        self._sizes: dict[str, int] = {}  # of the packs, the oldest first

    def __contains__(self, digest: str) -> bool:
        return digest in self._index()

    def read(self, digest: str) -> bytes | None:
        """Return a content, or None if it is not kept or damaged.

        Raises:
            OSError: the pack can't be read.
        """
        location = self._index().get(digest)
        if location is None:
            return None
        with self._place.open(location.pack) as file:
            file.seek(location.offset)
            content = file.read(location.size)
        return content if hashlib.sha256(content).hexdigest() == digest else None

    @contextmanager
    def new_pack(self, *, flush: bool = True) -> Iterator["PackWriter"]:
        """Collect contents in a new pack; with `flush` it is on the disk at the end of the block.

        If the block raises or adds nothing, there is no new pack. This also notices packs that
        another process has added or removed.

        Raises:
            OSError: the disk refused; the packs are as they were.
        """
        if list(self._packs()) != list(self._sizes):
            self._locations = None
        index = self._index()
        name = f"{1 + max(map(_number, self._sizes), default=0):06d}.pack"
        with self._place.create(name, flush=flush) as file:
            pack = PackWriter(file, name, index, self._place.longest)
            yield pack
        if pack.locations:
            index.update(pack.locations)
            self._sizes[pack.name] = pack.size

    def trim(self) -> None:
        """Remove the oldest packs until the others take at most 256 MB.

        Raises:
            OSError: a pack can't be removed.
        """
        index = self._index()
        while sum(self._sizes.values()) > MAX_KEPT_BYTES:
            oldest = next(iter(self._sizes))
            del self._sizes[oldest]
            for digest in [each for each, location in index.items() if location.pack == oldest]:
                del index[digest]
            self._place.remove(oldest)

    def _index(self) -> dict[str, _Location]:
        if self._locations is None:
            locations: dict[str, _Location] = {}
            self._sizes = self._packs()
            for name in self._sizes:
                with self._place.open(name) as file:
                    locations.update(_scan(file, name))
            self._locations = locations
        return self._locations

    def _packs(self) -> dict[str, int]:
        """Return the sizes of the packs, the oldest first."""
        sizes = self._place.sizes()
        return {name: sizes[name] for name in sorted(sizes, key=_number)}


class PackWriter:
    """Writes contents into one pack, each once, up to 32 MB."""

    def __init__(
        self, file: BinaryIO, name: str, known: dict[str, _Location], longest: int | None = None
    ) -> None:
        """Use `Packs.new_pack`."""
        self._file = file
        self._known = known
        self._most = MAX_PACK_BYTES if longest is None else min(MAX_PACK_BYTES, longest)
        self.name = name
        self.size = 0
        self.locations: dict[str, _Location] = {}

    def add(self, digest: str, content: bytes) -> bool:
        """Keep a content under its digest; return whether it is kept now.

        Raises:
            OSError: the disk refused.
        """
        if digest in self._known or digest in self.locations:
            return True
        line = f"{digest} {len(content)}\n".encode()
        if self.size + len(line) + len(content) > self._most:
            return False
        self._file.write(line + content)
        self.locations[digest] = _Location(self.name, self.size + len(line), len(content))
        self.size += len(line) + len(content)
        return True


def _number(name: str) -> int:
    return int(name.partition(".")[0])


def _scan(file: BinaryIO, name: str) -> Iterator[tuple[str, _Location]]:
    """List the contents of a pack, up to the first damage."""
    while found := _LINE.fullmatch(file.readline(_LONGEST_LINE)):
        digest, size = found[1].decode(), int(found[2])
        yield digest, _Location(name, file.tell(), size)
        file.seek(size, os.SEEK_CUR)


def put_back(path: Path, present: FileState, former: FileState, content: bytes = b"") -> None:
    """Restore the former state of a real path if it is still as `present`: all or nothing.

    Missing folders are made; none on the way is entered through a link. Other names of a file (hard
    links) stay as they are; an empty folder in its place is removed.

    Raises:
        ToolError: it has changed since.
        OSError: the disk refused, or a folder in its place is not empty; nothing has changed.
    """
    if not look_at(path).state.same(present):
        raise ToolError("it was changed this moment")
    with open_parent(path, make=former.kind != "absent") as folder:
        if former.kind == "absent":
            os.unlink(path.name, dir_fd=folder)
            sync_open_folder(folder)
            return
        with replace_in(folder, path.name) as temporary:
            if former.kind == "link":
                os.symlink(former.target, temporary, dir_fd=folder)
            else:
                write_new(folder, temporary, content, 0o600, lambda fd: os.fchmod(fd, former.mode))
            with suppress(FileNotFoundError, NotADirectoryError):
                os.rmdir(path.name, dir_fd=folder)
