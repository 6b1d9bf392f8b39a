"""Diagnostics of a run: its log, its dump on SIGUSR1, its tree for `greenroom tree`.

For each of its runtimes a process listens at a socket that only its user can reach. A client that
connects gets one JSON object, `runtime.tree()`, with names and states but nothing of any
conversation; then the connection ends.
"""

import io
import itertools
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import NamedTuple, TextIO

import trio

from greenroom.cli.options import Options
from greenroom.cli.stdio import OutputWriter
from greenroom.cli.stored_sessions import sessions_folder
from greenroom.core import ConfigurationError, conceal_secrets
from greenroom.core._internal import InvalidJSONError, serde, timestamp, visible
from greenroom.runtime import AgentRuntime

_BYTES = 5_000_000  # of one file; with the three older ones a log takes at most 20 MB
_BACKUPS = 3


@contextmanager
def log_to_file(path: str) -> Iterator[None]:
    """Write everything that Greenroom logs within the block to this file: one JSON object a line.

    The file is readable by its owner alone; at 5 MB it is renamed, and three older ones are kept.

    Raises:
        ConfigurationError: the file can't be written.
    """
    handler = _open(path)
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


def _open(path: str) -> logging.Handler:
    try:
        handler = _PrivateFile(path, maxBytes=_BYTES, backupCount=_BACKUPS, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or error
        raise ConfigurationError(
            f"the log {path} can't be written: {reason}", hint="name another file with --log"
        ) from error
    handler.setFormatter(_JsonLines())
    return handler


class _PrivateFile(RotatingFileHandler):
    def _open(self) -> TextIO:  # type: ignore[override]  # the stub's wrapper is a TextIO
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return os.fdopen(descriptor, "a", encoding="utf-8")


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": timestamp(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": conceal_secrets(record.getMessage()),
        }
        if record.exc_info:
            entry["error"] = conceal_secrets(self.formatException(record.exc_info))
        return serde.dumps(entry).decode()


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
_MAX_PATH = 100  # bytes of a socket's path: macOS takes 103, Linux 107


class LiveTree(NamedTuple):
    """What a process says about its agents.

    Attributes:
        pid: the process.
        text: its tree, for people; empty if it did not answer in time.
        tree: its tree, for programs.
    """

    pid: int
    text: str
    tree: object


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
    """Serve a runtime's agents to `greenroom tree` until it is cancelled; start it in a nursery.

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
        await trio.serve_listeners(partial(_answer, runtime), [listener])
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


async def _answer(runtime: AgentRuntime, stream: trio.SocketStream) -> None:
    tree = runtime.tree()
    answer = {"text": str(tree), "tree": serde.loads(tree.to_json().encode())}
    async with stream:
        with trio.move_on_after(_TIMEOUT), suppress(trio.BrokenResourceError):
            await stream.send_all(serde.dumps(answer))


async def read_trees() -> list[LiveTree]:
    """Ask every process of this user that serves its tree; remove the sockets of ended ones."""
    folder = live_folder()
    try:
        paths = sorted(folder.glob("*.sock")) if _is_own(folder) else []
    except OSError:
        return []
    trees: dict[Path, LiveTree | None] = dict.fromkeys(paths)

    async def read(path: Path) -> None:
        trees[path] = await _read(path)

    async with trio.open_nursery() as nursery:
        for path in paths:
            nursery.start_soon(read, path)
    return [each for each in trees.values() if each is not None]


async def _read(path: Path) -> LiveTree | None:
    pid = path.stem.partition("-")[0]
    if not pid.isdecimal():
        return None
    answer = bytearray()
    try:
        with trio.move_on_after(_TIMEOUT):
            async with await trio.open_unix_socket(os.fspath(path)) as stream:
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
    return LiveTree(int(pid), str(fields.get("text", "")), fields.get("tree"))


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
