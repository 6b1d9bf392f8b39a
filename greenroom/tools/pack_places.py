"""Where packs of file contents are kept: in a folder, or in any other place that keeps files."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import BinaryIO, Protocol

from greenroom.core._internal import compile_later
from greenroom.fs._internal import durable

_NAME = compile_later(r"\d{6,}\.pack")


class PackPlace(Protocol):
    """Keeps packs, which are files with a name; one that is kept never changes.

    Every method blocks, and is called in a thread of trio. It raises an `OSError` if it can't do
    what it is asked for.
    """

    @property
    def longest(self) -> int | None:
        """The most bytes that one pack may have; None without a bound."""

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each pack, by its name."""

    def open(self, name: str) -> BinaryIO:
        """Open a pack to read."""

    def create(self, name: str, *, flush: bool) -> AbstractContextManager[BinaryIO]:
        """Yield a file that becomes a pack at the end of the block, durable with `flush`.

        It becomes none if the block raises, or writes nothing.
        """

    def remove(self, name: str) -> None:
        """Remove a pack, if it is there."""


class PackFolder:
    """Keeps packs in a folder that only this user can read; the first one makes the folder."""

    longest = None

    def __init__(self, folder: str) -> None:
        """Name the folder; nothing is read or made yet."""
        self._folder = folder

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each pack, by its name."""
        try:
            with os.scandir(self._folder) as entries:
                return {each.name: each.stat().st_size for each in entries if _is_pack(each)}
        except (FileNotFoundError, NotADirectoryError):
            return {}

    def open(self, name: str) -> BinaryIO:
        """Open a pack to read."""
        return open(os.path.join(self._folder, name), "rb")

    @contextmanager
    def create(self, name: str, *, flush: bool) -> Iterator[BinaryIO]:
        """Write a pack under another name first."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        path = os.path.join(self._folder, name)
        temporary = f"{path}.tmp"
        with suppress(FileNotFoundError):  # left by a crash, or a pipe or link that is not ours
            os.unlink(temporary)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                yield file
                is_empty = not file.tell()
                file.flush()
                if flush and not is_empty:
                    os.fsync(fd)
            if not is_empty:
                os.rename(temporary, path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        if flush and not is_empty:
            durable.sync_folder(os.path.dirname(self._folder))
            durable.sync_folder(self._folder)

    def remove(self, name: str) -> None:
        """Remove a pack, if it is there."""
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self._folder, name))


def _is_pack(entry: "os.DirEntry[str]") -> bool:
    """Whether it is a regular file with a pack's name, and not a pipe or a link."""
    return bool(_NAME.fullmatch(entry.name)) and entry.is_file(follow_symlinks=False)
