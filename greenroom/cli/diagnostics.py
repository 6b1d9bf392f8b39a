"""Diagnostics of a run: its log, its dump on SIGUSR1, its agents for `greenroom tree` and `watch`.

For each of its runtimes a process listens at a socket that only its user can reach. A client that
connects and says nothing gets one JSON object, `runtime.tree()`, with names and states but nothing
of any conversation; then the connection ends. One that writes a line with the id of a session gets
the chunks of its agent, those of the last turn first, each as a line of JSON, until the agent ends.
It is a reader as any other: nobody waits for it, and it can't answer.
"""

import io
import itertools
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import trio

from greenroom.cli.options import Options
from greenroom.cli.stdio import OutputWriter, tell
from greenroom.cli.stored_sessions import sessions_folder
from greenroom.core import OutputChunk
from greenroom.core._internal import InvalidJSONError, serde, visible
from greenroom.runtime import AgentHandle, AgentRuntime, Subscription


@contextmanager
def log_to_file(path: str) -> Iterator[None]:
    """Write everything that Greenroom logs within the block to this file: one JSON object a line.

    The file is readable by its owner alone; at 5 MB it is renamed, and three older ones are kept.
    Lines that the disk refuses are missing from it; at the end the user is told why.

    Raises:
        ConfigurationError: the file can't be written.
    """
    from greenroom.cli.log_file import open_log  # few runs write one

    handler = open_log(path)
    logger = logging.getLogger("greenroom")
    before = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        handler.close()
        if handler.refusal:
            tell(f"lines are missing from the log {path}: {handler.refusal}")


logger = logging.getLogger("greenroom.cli")


def open_dump_target(options: Options, *, owns_terminal: bool) -> io.TextIOBase | None:
    """Return where dumps are written: the log if there is one, else None for standard error.

    Where the program owns the screen that the standard error would write to, it is the file
    `dump.txt` beside the user's sessions; each dump replaces the one before it.
    """
    if options.log:
        return _Writer(partial(logger.info, "%s"))
    if owns_terminal and sys.stderr.isatty():
        return _Writer(partial(_write_private, sessions_folder().parent / "dump.txt"))
    return None


class _Writer(io.TextIOBase):
    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def write(self, text: str, /) -> int:
        self._write(text)
        return len(text)


def _write_private(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # For this user alone, as the sessions are.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


_tree_logger = logging.getLogger("greenroom.tree")

_numbers = itertools.count(1)  # of the runtimes that this process serves

_TIMEOUT = 2.0
_MAX_ANSWER = 16 * 1024 * 1024  # bytes of an answer; a tree describes 1,000 agents
_PATIENCE = 0.25  # seconds for a client to say what it wants
_FAREWELL = 1.0  # seconds for a client to take what was said last
_PIECE = 65_536  # bytes that are sent at once
_MAX_WISH = 1_024  # bytes of that
_MAX_WATCHERS = 16  # of the agents of one runtime
_MAX_PATH = 100  # bytes of a socket's path: macOS takes 103, Linux 107


class LiveTree(NamedTuple):
    """What a process says about its agents.

    Attributes:
        pid: the process.
        text: its tree, for people; empty if it did not answer in time.
        tree: its tree, for programs.
        path: its socket.
    """

    pid: int
    text: str
    tree: object
    path: Path


def live_folder(env: Mapping[str, str] | None = None) -> Path:
    """Return the folder of this user's sockets; it need not exist.

    Example:
        >>> live_folder({"XDG_RUNTIME_DIR": "/run/user/1"}).as_posix()
        '/run/user/1/greenroom'
    """
    env = os.environ if env is None else env
    base = env.get("XDG_RUNTIME_DIR", "")
    return Path(base, "greenroom") if os.path.isabs(base) else sessions_folder().parent / "live"


async def serve_tree(runtime: AgentRuntime) -> None:
    """Serve a runtime's agents to `greenroom tree` and `watch` until it is cancelled.

    Start it in a nursery.

    If no socket can be opened it returns at once and logs why.

    Example:
        ```python
        async with AgentRuntime() as runtime, trio.open_nursery() as nursery:
            nursery.start_soon(serve_tree, runtime)
            ...
            nursery.cancel_scope.cancel()
        ```
    """
    path = live_folder() / f"{os.getpid()}-{next(_numbers)}.sock"
    try:
        listener = _listen(path)
    except OSError as error:
        _tree_logger.info("greenroom tree can't list these agents: %s", error)
        return
    try:
        seats = trio.CapacityLimiter(_MAX_WATCHERS)
        await trio.serve_listeners(partial(_answer, runtime, seats), [listener])
    finally:
        _remove(path)


def _listen(path: Path) -> trio.SocketListener:
    if len(os.fsencode(path)) > _MAX_PATH:
        raise OSError(f"the path {path} is too long for a socket")
    path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if not _is_own(path.parent):
        raise OSError(f"others may write to {path.parent}")
    # A client that finds the socket before it listens would remove it.
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)  # left by an earlier process with this id
    own = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        own.bind(os.fspath(new))
        new.chmod(0o600)
        own.listen()
        new.replace(path)
    except OSError:
        own.close()
        _remove(new)
        raise
    return trio.SocketListener(trio.socket.from_stdlib_socket(own))


def _is_own(folder: Path) -> bool:
    """Whether a folder belongs to this user, and no other user can write to it."""
    status = folder.stat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o022


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


async def _answer(
    runtime: AgentRuntime, seats: trio.CapacityLimiter, stream: trio.SocketStream
) -> None:
    async with stream:
        with suppress(trio.BrokenResourceError):
            wanted = await _read_wish(stream)
            if wanted:
                await _show_agent(runtime.get(wanted), seats, stream)
                return
            tree = runtime.tree()
            answer = {"text": str(tree), "tree": serde.loads(tree.to_json().encode())}
            with trio.move_on_after(_TIMEOUT):
                await stream.send_all(serde.dumps(answer))


async def _read_wish(stream: trio.SocketStream) -> str:
    """Return the session that a client wants to watch; empty if it wants the tree."""
    wish = bytearray()
    with trio.move_on_after(_PATIENCE):
        while len(wish) < _MAX_WISH and not wish.endswith(b"\n"):
            piece = await stream.receive_some()
            if not piece:
                break
            wish += piece
    return wish.decode("utf-8", "replace").strip()


async def _show_agent(
    handle: AgentHandle | None, seats: trio.CapacityLimiter, stream: trio.SocketStream
) -> None:
    """Send what an agent says until it ends or the client leaves."""
    try:
        seats.acquire_on_behalf_of_nowait(stream)
    except trio.WouldBlock:
        handle = None
    else:
        try:
            if handle is not None:
                async with trio.open_nursery() as nursery, handle.subscribe("turn") as chunks:
                    nursery.start_soon(_notice_end, stream, nursery.cancel_scope)
                    await _send_chunks(chunks, stream)
                    nursery.cancel_scope.cancel()
        finally:
            seats.release_on_behalf_of(stream)


async def _send_chunks(chunks: Subscription, stream: trio.SocketStream) -> None:
    """Send chunks until the agent ends, or the client no longer takes them."""
    unsent = bytearray()
    with suppress(OSError):  # here and not outside: a nursery would wrap it
        try:
            while batch := await chunks.take():
                unsent += _write_lines(batch)
                await _send(unsent, stream)
        except trio.Cancelled:
            # The runtime ends: what was said last is sent, if the client takes it.
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _FAREWELL):
                await _send(unsent, stream)
                while chunks.lag and (batch := await chunks.take()):
                    unsent += _write_lines(batch)
                    await _send(unsent, stream)
            raise


async def _send(unsent: bytearray, stream: trio.SocketStream) -> None:
    """Send these bytes; what a cancel leaves unsent is still there."""
    while unsent:
        count = await stream.socket.send(unsent[:_PIECE])
        del unsent[:count]


def _write_lines(chunks: Iterable[OutputChunk]) -> bytes:
    return b"".join(serde.encode(each) + b"\n" for each in chunks)


async def _notice_end(stream: trio.SocketStream, scope: trio.CancelScope) -> None:
    """Stop the block of this scope once the client has gone: an agent may say nothing for hours."""
    with suppress(trio.BrokenResourceError):
        while await stream.receive_some():
            pass
    scope.cancel()


async def read_trees() -> list[LiveTree]:
    """Ask every process of this user that serves its tree; remove the sockets of ended ones."""
    folder = live_folder()
    try:
        paths = sorted(folder.glob("*.sock")) if _is_own(folder) else []
    except OSError:
        return []
    trees: dict[Path, LiveTree | None] = dict.fromkeys(paths)

    async def read(path: Path) -> None:
        trees[path] = await read_tree(path)

    async with trio.open_nursery() as nursery:
        for path in paths:
            nursery.start_soon(read, path)
    return [each for each in trees.values() if each is not None]


async def read_tree(path: Path) -> LiveTree | None:
    """Ask the process behind a socket; None if it has ended, and then the socket is removed."""
    pid = path.stem.partition("-")[0]
    if not pid.isdecimal():
        return None
    answer = bytearray()
    try:
        with trio.move_on_after(_TIMEOUT):
            async with await trio.open_unix_socket(os.fspath(path)) as stream:
                await stream.send_eof()
                async for piece in stream:
                    answer += piece
                    if len(answer) > _MAX_ANSWER:
                        break
        data = serde.loads(bytes(answer)) if answer else None
    except (ConnectionRefusedError, FileNotFoundError):
        _remove(path)
        return None
    except (OSError, trio.BrokenResourceError, InvalidJSONError):
        data = None
    fields = data if isinstance(data, dict) else {}
    return LiveTree(int(pid), str(fields.get("text", "")), fields.get("tree"), path)


async def print_trees(options: Options) -> int:
    """Print the agents of each process of this user; the exit code is always 0."""
    page, processes = OutputWriter(), await read_trees()
    if options.json:
        trees = [{"pid": each.pid, "tree": each.tree} for each in processes]
        await page.line(serde.dumps(trees))
        return 0
    for each in processes:
        lines = [visible(line) for line in each.text.splitlines()] or ["it does not answer"]
        await page.text("\n".join([f"process {each.pid}", *lines]))
    if not processes:
        await page.text("no agents are running")
    return 0
