"""The rules of file tools: where they may go, what they have seen, one change at a time."""

import hashlib
import io
import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec
import trio

from greenroom.core import AgentContext, ReadPath, ToolError
from greenroom.core._internal import compile_later
from greenroom.fs._internal import (
    NotRegularError,
    find_mark,
    is_binary,
    open_parent,
    open_regular,
    replace_file,
)
from greenroom.threads._internal import FileThreads
from greenroom.tools.builtin.plain_names import describe_name, find_named
from greenroom.tools.execution import SpillFolder
from greenroom.tools.file_system import FileSystem

FILE_PATH: dict[str, object] = {
    "type": "string",
    "description": "The file, absolute or relative to the working directory.",
}
"""The schema of the parameter `file_path`."""

_PIECE = 1 << 20
_MOVING = compile_later("[\0-\x1f\x7f-\x9f\u2028\u2029]")

in_thread = FileThreads("file tools", 8).run
"""Runs the work of file tools; function tools have other threads, which they may never return."""


def resolve(path: str, context: AgentContext, *, writes: bool = False) -> Path:
    """Return the real path that `path` means for this agent. Reads the disk: call it in a thread.

    If there is no such file, it may be the one whose name has this plain form (`find_named`).
    The files of long results can be read, but not written.

    Raises:
        ToolError: it leads out of the workspace (by itself, through `..` or a symbolic link) and is
            not allowed; or it is not a path.
    """
    try:
        real = Path(os.path.realpath(find_named(str(context.workspace.absolute(path)))))
    except (OSError, ValueError, RuntimeError) as error:
        raise ToolError(f"{path!r} is not usable as a path: {error}") from error
    if is_inside(real, context) or (not writes and _is_spilled(real, context)):
        return real
    raise ToolError(
        f"{path} is outside the workspace {context.workspace.root}",
        hint="work inside the workspace, or ask the user to allow this path",
    )


def resolve_and_show(path: str, context: AgentContext, *, writes: bool = False) -> tuple[Path, str]:
    """Return the path of `resolve`, and the same as `show_path` writes it. Call it in a thread.

    Raises:
        ToolError: as `resolve`.
    """
    real = resolve(path, context, writes=writes)
    return real, show_path(real, real_cwd(context))


def note_name(path: str, context: AgentContext) -> tuple[str, ...]:
    """Return a note if the disk spells a path otherwise. Reads the disk: call it in a thread."""
    given = str(context.workspace.absolute(path))
    found = find_named(given)
    cwd = str(context.workspace.cwd)
    note = describe_name(os.path.relpath(given, cwd), os.path.relpath(found, cwd))
    return (note,) if note else ()


def describe_broken_link(path: str, context: AgentContext) -> str:
    """Say which part of a path is a link that leads nowhere, if one is. Call it in a thread."""
    given = context.workspace.absolute(path)
    for part in (*reversed(given.parents), given):
        if part.is_symlink() and not os.path.exists(part):
            label = show_path(part, context.workspace.cwd)
            target = os.path.realpath(part)
            if os.path.islink(target):
                return f"{label} is a link that leads back to itself"
            return f"{label} is a link to {os.readlink(part)}, which does not exist"
    return ""


def is_inside(real: Path, context: AgentContext) -> bool:
    """Whether a real path is in the workspace or otherwise allowed."""
    root = Path(os.path.realpath(context.workspace.root))
    return any(real.is_relative_to(path) for path in (root, *context.allowed_paths))


def _is_spilled(real: Path, context: AgentContext) -> bool:
    spill = context.resources.get(SpillFolder)
    folders = (context.spill_folder, spill.path if spill else "")
    # A link in place of the folder would open up its target.
    ours = [os.path.realpath(each) for each in folders if each and not os.path.islink(each)]
    return any(real.is_relative_to(folder) for folder in ours)


def real_cwd(context: AgentContext) -> Path:
    """Return the agent's working directory, symbolic links resolved. Call it in a thread."""
    return Path(os.path.realpath(context.workspace.cwd))


def show_path(path: Path, cwd: Path) -> str:
    r"""Write a real path relative to the real working directory, if it lies below that.

    Characters that would break or move the line are escaped, as in `a\nb`.
    """
    shown = str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)
    return _MOVING.sub(lambda each: each[0].encode("unicode_escape").decode(), shown)


class Screen:
    """Leaves out the files that the permission rules keep from a search, and counts them.

    All in the folder count, whatever the search looks for in it: a number that depended on that
    would tell what is in them, or how they are called.

    Attributes:
        is_open: whether it lets every file through.
    """

    def __init__(self, folder: str, context: AgentContext, pattern: str = "") -> None:
        """Make the screen of a search in a folder, as the call names it. Call it in a thread.

        Of a search for a pattern such as `src/*.py`, only the files in `src` count.

        Raises:
            ToolError: it is not usable as a path.
        """
        try:
            self._find_objection = context.screen_reads(folder or ".")
        except ValueError as error:
            raise ToolError(str(error)) from error
        self.is_open = self._find_objection is None
        literal = "." if pattern[:1] == "!" else ReadPath.from_pattern(".", pattern).path
        self._inside = os.path.normpath(literal)
        self._left_out = Counter[str]()

    def admits(self, path: str) -> bool:
        """Whether a file may be shown; if not, it is counted."""
        objection = self._find_objection(path) if self._find_objection else ""
        if objection and (self._inside == "." or f"{path}/".startswith(f"{self._inside}/")):
            self._left_out[objection] += 1
        return not objection

    @property
    def notes(self) -> list[str]:
        """What the model reads about the files that were left out."""
        return [
            f"1 file left out: a rule {objection} reading it"
            if count == 1
            else f"{count} files left out: a rule {objection} reading them"
            for objection, count in sorted(self._left_out.items(), reverse=True)
        ]


@contextmanager
def os_errors(action: str, path: str) -> Iterator[None]:
    """Turn an error of the system into a `ToolError` that says what failed, where, and why."""
    try:
        yield
    except NotRegularError as error:
        raise ToolError(f"{path} {error}") from error
    except OSError as error:
        raise ToolError(f"can't {action} {path}: {error.strerror or error}") from error


def read_pieces(file: BinaryIO, limit: int) -> bytes:
    """Read up to `limit` bytes in a thread of trio; a cancel ends it at the next piece.

    Raises:
        OSError: the file can't be read.
    """
    content = bytearray()
    while piece := file.read(min(_PIECE, limit - len(content))):
        trio.from_thread.check_cancelled()
        content += piece
    return bytes(content)


_HASHED_BYTES = 10_000_000
_MAX_STAMPS = 10_000


class Stamp(msgspec.Struct, frozen=True):
    """The state of a file when it was read: time, size and, up to 10 MB, a digest."""

    mtime_ns: int
    size: int
    digest: bytes = b""

    @classmethod
    def of(cls, status: os.stat_result, content: bytes) -> "Stamp":
        """Take the stamp of a file from its status and its whole content."""
        digest = b""
        if len(content) <= _HASHED_BYTES:
            digest = hashlib.blake2b(content, digest_size=16).digest()
        return cls(status.st_mtime_ns, len(content), digest)

    @classmethod
    def of_held(cls, content: bytes) -> "Stamp":
        """Take the stamp of a file that an agent's file system has."""
        return cls(0, len(content), hashlib.blake2b(content, digest_size=16).digest())

    @classmethod
    def read(cls, file: BinaryIO) -> tuple["Stamp", BinaryIO]:
        """Take the stamp of an open file, and return it with a file to read the content from.

        Up to 10 MB, that holds the very bytes of the stamp. Call it in a thread.
        """
        if isinstance(file, io.BytesIO):
            return cls.of_held(file.getvalue()), file
        status = os.fstat(file.fileno())
        if status.st_size > _HASHED_BYTES:
            return cls(status.st_mtime_ns, status.st_size), file
        content = read_pieces(file, _HASHED_BYTES + 1)
        return cls.of(status, content), io.BytesIO(content)

    def same_content(self, other: "Stamp") -> bool:
        """Whether both are of the same content; a new time alone is not a change."""
        if self.digest and other.digest:
            return self.digest == other.digest
        return (self.mtime_ns, self.size) == (other.mtime_ns, other.size)


class FileStamps:
    """The stamps of the files that one agent has read or written, by real path: a resource.

    An agent changes no file that it has not seen. The map holds the 10,000 stamps used last; other
    files have to be read again before a change. Threads may share it.
    """

    def __init__(self) -> None:
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
        """Remember the state in which the agent has seen the file."""
        with self._lock:
            self._stamps[path] = stamp
            self._stamps.move_to_end(path)
            if len(self._stamps) > _MAX_STAMPS:
                self._stamps.popitem(last=False)

    def check(self, path: Path, present: Stamp, label: str) -> None:
        """Check that the agent has seen the file as it is now.

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
        """Check as `check` does, and return a file to read the content from. Call it in a thread.

        Raises:
            ToolError: as `check`.
        """
        present, content = Stamp.read(file)
        self.check(path, present, label)
        return content


@contextmanager
def open_seen(real: Path, context: AgentContext) -> Iterator[BinaryIO]:
    """Open a file as the agent's `FileSystem` has it, else as the disk has it; call it in a thread.

    What is not plain UTF-8 on the disk, and more than 10 MB, is the disk's: whoever holds a text
    does not say how it would be written.

    Raises:
        OSError: it can't be opened.
        ToolError: it can't be read.
    """
    with open_regular(real) as file:
        yield _find_held(real, file, context) or file


def _find_held(real: Path, file: BinaryIO, context: AgentContext) -> BinaryIO | None:
    files = context.resources.get(FileSystem)
    if files is None:
        return None
    content = read_pieces(file, _HASHED_BYTES + 1)
    file.seek(0)
    if len(content) > _HASHED_BYTES or not _is_plain(content):
        return None
    held = trio.from_thread.run(files.read, real, len(content))
    return None if held is None else io.BytesIO(held)


def _is_plain(content: bytes) -> bool:
    if is_binary(content) or find_mark(content) or content.startswith(b"%PDF-"):
        return False
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def replace_seen(
    real: Path, content: bytes, stamps: FileStamps, label: str, context: AgentContext
) -> None:
    """Replace a file that is as the agent has seen it, or make one, and note its stamp.

    It goes through the agent's `FileSystem`, if that takes it. Call it in a thread.

    Raises:
        ToolError: the file has changed since, or can't be written.
        OSError: the disk refuses.
    """
    files = context.resources.get(FileSystem)
    if files is not None and _is_plain(content):
        with open_parent(real, make=True):
            pass  # its folders are there
        if trio.from_thread.run(files.write, real, content):
            stamps.note(real, Stamp.of_held(content))
            return

    def check(now: BinaryIO) -> None:
        stamps.read_seen(real, _find_held(real, now, context) or now, label)

    status = replace_file(real, content, check)
    stamps.note(real, Stamp.of(status, content))


_locks = tuple(threading.Lock() for _ in range(256))


def path_lock(path: Path) -> threading.Lock:
    """Return the lock of a real path, for a thread to hold while it reads and replaces the file.

    All agents and event loops of this process share 256 locks, so hold only one, and only briefly.
    """
    return _locks[hash(path) % len(_locks)]
