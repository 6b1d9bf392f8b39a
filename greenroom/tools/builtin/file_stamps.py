"""Stamps: what an agent has seen of a file, so that it changes nothing that it has not seen."""

import hashlib
import os
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from greenroom.core import AgentContext, ToolError

__all__ = ["FileStamps", "Stamp"]

_HASHED_BYTES = 10_000_000
_MAX_STAMPS = 10_000


@dataclass(frozen=True)
class Stamp:
    """How a file was when it was read: time, size and, of a file up to 10 MB, a digest."""

    mtime_ns: int
    size: int
    digest: bytes = b""

    @classmethod
    def of(cls, file: BinaryIO) -> "Stamp":
        """Take the stamp of an open file, whose position goes back to its beginning."""
        status = os.fstat(file.fileno())
        digest = b""
        if status.st_size <= _HASHED_BYTES:
            file.seek(0)
            digest = hashlib.blake2b(file.read(_HASHED_BYTES + 1), digest_size=16).digest()
        file.seek(0)
        return cls(status.st_mtime_ns, status.st_size, digest)

    def same_content(self, other: "Stamp") -> bool:
        """Whether both show the same content; a file that was only touched has not changed."""
        if self.digest and other.digest:
            return self.digest == other.digest
        return (self.mtime_ns, self.size) == (other.mtime_ns, other.size)


class FileStamps:
    """The stamps of the files that one agent has read or written, by real path. A resource.

    It holds the 10,000 used last; a file that dropped out has to be read again before a change.
    """

    def __init__(self) -> None:
        """Start with no file seen."""
        self._stamps: OrderedDict[Path, Stamp] = OrderedDict()

    @classmethod
    def of(cls, context: AgentContext) -> "FileStamps":
        """Return the agent's stamps, made at the first call."""
        found = context.resources.get(cls)
        if found is None:
            found = cls()
            context.resources.insert(found)
        return found

    def note(self, path: Path, stamp: Stamp) -> None:
        """Remember that the agent has seen the file so."""
        self._stamps[path] = stamp
        self._stamps.move_to_end(path)
        if len(self._stamps) > _MAX_STAMPS:
            self._stamps.popitem(last=False)

    def check(self, path: Path, present: Stamp, label: str) -> None:
        """Make sure that the agent has seen the file as it is now.

        Raises:
            ToolError: it was never read, or has changed since.
        """
        seen = self._stamps.get(path)
        if seen is None:
            raise ToolError(f"{label} was not read yet", hint="Read it first, then change it")
        if not seen.same_content(present):
            raise ToolError(
                f"{label} was changed by somebody else since it was read",
                hint="Read it again, then change it",
            )
