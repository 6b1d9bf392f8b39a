"""Stamps: what an agent has seen of a file, so that it changes nothing that it has not seen."""

import hashlib
import io
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from greenroom.core import AgentContext, ToolError
from greenroom.tools.builtin.atomic_file import read_pieces

_HASHED_BYTES = 10_000_000
_MAX_STAMPS = 10_000


@dataclass(frozen=True)
class Stamp:
    """How a file was when it was read: time, size and, of a file up to 10 MB, a digest."""

    mtime_ns: int
    size: int
    digest: bytes = b""

    @classmethod
    def of(cls, status: os.stat_result, content: bytes) -> "Stamp":
        """Take the stamp of a file from its status and all that it holds."""
        digest = b""
        if len(content) <= _HASHED_BYTES:
            digest = hashlib.blake2b(content, digest_size=16).digest()
        return cls(status.st_mtime_ns, len(content), digest)

    @classmethod
    def read(cls, file: BinaryIO) -> tuple["Stamp", BinaryIO]:
        """Take the stamp of an open file, and return it with what to read the content from.

        Of a file up to 10 MB that is the very bytes which the stamp is of. Call it in a thread.
        """
        status = os.fstat(file.fileno())
        if status.st_size > _HASHED_BYTES:
            return cls(status.st_mtime_ns, status.st_size), file
        content = read_pieces(file, _HASHED_BYTES + 1)
        return cls.of(status, content), io.BytesIO(content)

    def same_content(self, other: "Stamp") -> bool:
        """Whether both show the same content; a file that was only touched has not changed."""
        if self.digest and other.digest:
            return self.digest == other.digest
        return (self.mtime_ns, self.size) == (other.mtime_ns, other.size)


class FileStamps:
    """The stamps of the files that one agent has read or written, by real path. A resource.

    It holds the 10,000 used last; a file that dropped out has to be read again before a change.
    Threads may share it.
    """

    def __init__(self) -> None:
        """Start with no file seen."""
        self._stamps: OrderedDict[Path, Stamp] = OrderedDict()
        self._lock = threading.Lock()

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
        with self._lock:
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

    def read_seen(self, path: Path, file: BinaryIO, label: str) -> BinaryIO:
        """Make sure as `check` does, and return what to read the content from. Call it in a thread.

        Raises:
            ToolError: as `check`.
        """
        present, content = Stamp.read(file)
        self.check(path, present, label)
        return content
