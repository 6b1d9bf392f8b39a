"""What file tools share: where they may go, what the agent has seen, one change at a time."""

import hashlib
import io
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import trio

from greenroom.core import AgentContext, ToolError
from greenroom.fs import NotRegularError
from greenroom.threads import FileThreads
from greenroom.tools.execution import SpillFolder

_PIECE = 1 << 20

in_thread = FileThreads("file tools", 8).run
"""Does the work of file tools, apart from function tools, which may keep threads for good."""


def resolve(path: str, context: AgentContext, *, writes: bool = False) -> Path:
    """Return the real path that `path` means for this agent. Reads the disk: call it in a thread.

    Where long results lie may be read, not written.

    Raises:
        ToolError: it leads out of the workspace (through `..`, a symbolic link, or as it is)
            and is not allowed; or it is not a path.
    """
    try:
        real = Path(os.path.realpath(context.workspace.absolute(path)))
    except (OSError, ValueError, RuntimeError) as error:
        raise ToolError(f"{path!r} is not usable as a path: {error}") from error
    if is_inside(real, context) or (not writes and _is_spilled(real, context)):
        return real
    raise ToolError(
        f"{path} is outside the workspace {context.workspace.root}",
        hint="work inside the workspace, or ask the user to allow this path",
    )


def resolve_and_show(path: str, context: AgentContext, *, writes: bool = False) -> tuple[Path, str]:
    """Return the real path as `resolve` does, and as `show_path` writes it. Call it in a thread.

    Raises:
        ToolError: as `resolve`.
    """
    real = resolve(path, context, writes=writes)
    return real, show_path(real, real_cwd(context))


def is_inside(real: Path, context: AgentContext) -> bool:
    """Whether a real path is in the workspace, or allowed beyond it."""
    root = Path(os.path.realpath(context.workspace.root))
    return any(real.is_relative_to(path) for path in (root, *context.allowed_paths))


def _is_spilled(real: Path, context: AgentContext) -> bool:
    spill = context.resources.get(SpillFolder)
    folders = (context.spill_folder, spill.path if spill else "")
    # A link in the place of the folder would open up wherever it leads.
    ours = [os.path.realpath(each) for each in folders if each and not os.path.islink(each)]
    return any(real.is_relative_to(folder) for folder in ours)


def real_cwd(context: AgentContext) -> Path:
    """Return the agent's working directory, symbolic links resolved. Call it in a thread."""
    return Path(os.path.realpath(context.workspace.cwd))


def show_path(path: Path, cwd: Path) -> str:
    """Write a real path as one would from the real working directory, where it lies below it."""
    return str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)


@contextmanager
def os_errors(action: str, path: str) -> Iterator[None]:
    """Turn what the system refuses into a `ToolError` that says what was tried, where, and why."""
    try:
        yield
    except NotRegularError as error:
        raise ToolError(f"{path} {error}") from error
    except OSError as error:
        raise ToolError(f"can't {action} {path}: {error.strerror or error}") from error


def read_pieces(file: BinaryIO, limit: int) -> bytes:
    """Read up to `limit` bytes in a thread of trio's; a cancel ends it at the next piece.

    Raises:
        OSError: it can't be read.
    """
    content = bytearray()
    while piece := file.read(min(_PIECE, limit - len(content))):
        trio.from_thread.check_cancelled()
        content += piece
    return bytes(content)


# ---- Stamps: what an agent has seen of a file, so that it changes nothing that it has not seen.

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
                f"{label} has changed since it was read",
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


# ---- One change at a time to each file, whichever agents and event loops of this process want it.

_locks = tuple(threading.Lock() for _ in range(256))


def path_lock(path: Path) -> threading.Lock:
    """Return the lock of a real path, to hold in a thread while the file is read and replaced.

    A few paths share one of 256 locks, so hold one at a time, and no longer than the change takes.
    """
    return _locks[hash(path) % len(_locks)]
