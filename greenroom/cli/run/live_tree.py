"""The tree of a runtime while it runs: told by its process, and asked for by `greenroom tree`.

A process listens at a socket of its user's, which is named after it. Whoever connects gets one JSON object,
and the connection ends. It holds what `runtime.tree()` does: names and states, and nothing that is talked about.
"""

import logging
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import trio

from greenroom.cli.run.folders import sessions_folder
from greenroom.core import InvalidJSONError, serde
from greenroom.runtime import AgentRuntime

__all__ = ["LiveTree", "live_folder", "read_trees", "tell_tree"]

logger = logging.getLogger("greenroom.tree")

_SECONDS = 2.0
_MOST = 16 * 1024 * 1024  # bytes of an answer; a tree describes 1,000 agents
_LONGEST = 100  # bytes of a socket's path: macOS takes 103, Linux 107


class LiveTree(NamedTuple):
    """What a process says of its agents.

    Attributes:
        pid: the process.
        text: its tree, for people; empty where it has not answered in time.
        tree: its tree, for programs.
    """

    pid: int
    text: str
    tree: object


def live_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of this user's sockets; it need not exist.

    Example:
        >>> live_folder({"XDG_RUNTIME_DIR": "/run/user/1"}).as_posix()
        '/run/user/1/greenroom'
    """
    base = env.get("XDG_RUNTIME_DIR", "")
    return Path(base, "greenroom") if os.path.isabs(base) else sessions_folder().parent / "live"


async def tell_tree(runtime: AgentRuntime) -> None:
    """Tell `greenroom tree` of a runtime's agents until it is cancelled; start it in a nursery.

    Where no socket can be made it returns at once, and the log says why.

    Example:
        ```python
        async with AgentRuntime() as runtime, trio.open_nursery() as nursery:
            nursery.start_soon(tell_tree, runtime)
            ...
            nursery.cancel_scope.cancel()
        ```
    """
    path = live_folder() / f"{os.getpid()}.sock"
    try:
        listener = _listen(path)
    except OSError as error:
        logger.info("greenroom tree can't be told of these agents: %s", error)
        return
    try:
        await trio.serve_listeners(partial(_answer, runtime), [listener])
    finally:
        _remove(path)


def _listen(path: Path) -> trio.SocketListener:
    if len(os.fsencode(path)) > _LONGEST:
        raise OSError(f"the path {path} is too long for a socket")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # of a process that had this id before
    own = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        own.bind(os.fspath(path))
        path.chmod(0o600)
        own.listen()
    except OSError:
        own.close()
        raise
    return trio.SocketListener(trio.socket.from_stdlib_socket(own))


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


async def _answer(runtime: AgentRuntime, stream: trio.SocketStream) -> None:
    tree = runtime.tree()
    told = {"text": str(tree), "tree": serde.loads(tree.to_json().encode())}
    async with stream:
        with trio.move_on_after(_SECONDS), suppress(trio.BrokenResourceError):
            await stream.send_all(serde.dumps(told))


async def read_trees() -> list[LiveTree]:
    """Ask every process of this user's that tells its tree; sockets of those that are gone are removed."""
    try:
        paths = sorted(live_folder().glob("*.sock"))
    except OSError:
        return []
    return [found for path in paths if (found := await _read(path)) is not None]


async def _read(path: Path) -> LiveTree | None:
    if not path.stem.isdecimal():
        return None
    answer = bytearray()
    try:
        with trio.move_on_after(_SECONDS):
            async with await trio.open_unix_socket(os.fspath(path)) as stream:
                async for piece in stream:
                    answer += piece
                    if len(answer) > _MOST:
                        break
        found = serde.loads(bytes(answer)) if answer else {}
    except OSError:
        _remove(path)
        return None
    except (trio.BrokenResourceError, InvalidJSONError):
        found = {}
    told = found if isinstance(found, dict) else {}
    return LiveTree(int(path.stem), str(told.get("text", "")), told.get("tree"))
