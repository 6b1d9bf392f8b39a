"""An agent of another process, found by its id and read over the socket of that process."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from greenroom.cli.command_options import WatchOptions
from greenroom.cli.diagnostics import LiveTree, read_tree
from greenroom.cli.stored_sessions import open_configured_store
from greenroom.core import Message, SessionError, SessionNotFoundError
from greenroom.core._internal import InvalidJSONError, serde
from greenroom.interop._internal import write_snapshot
from greenroom.session import AgentSession

_INTERVAL = 1.0  # seconds between two looks at the tree
_MAX_LINE = 16 * 1024 * 1024  # bytes of a chunk
_EVENTS = 64  # that wait for a page
_FIRST = 0.5  # seconds for a process to send what its agent has said, if it has said anything


def find_agent(text: str, processes: list[LiveTree]) -> tuple[str, Path]:
    """Return the id of the running agent that is meant, and the socket of its process.

    Raises:
        SessionError: no running agent, or more than one, has such an id.
    """
    found = {id_: each.path for each in processes for id_ in _nodes(each.tree)}
    matches = [text] if text in found else [id_ for id_ in found if id_.startswith(text)]
    if len(matches) == 1:
        return matches[0], found[matches[0]]
    if matches:
        raise SessionError(
            f"{len(matches)} running agents begin with {text}",
            hint=f"write more of the id: {', '.join(matches[:5])}",
        )
    raise SessionNotFoundError(
        f"no running agent has the session {text}",
        session_id=text,
        hint="`greenroom tree` lists those that run",
    )


def _nodes(tree: object) -> dict[str, Mapping[str, object]]:
    """Return the agents of a tree, as a process has described it, by their sessions."""
    return {id_: node for node in _walk(tree) if isinstance(id_ := node.get("session_id"), str)}


def _walk(tree: object) -> Iterator[Mapping[str, object]]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            waiting += [*(node.get("agents") or ()), *(node.get("children") or ())]
            yield node


async def read_lines(stream: trio.SocketStream, take: Callable[[bytes], Awaitable[object]]) -> None:
    """Pass on the lines that a process sends.

    Raises:
        SessionError: one of them is too long.
    """
    left = b""
    async for piece in stream:
        *lines, left = (left + piece).split(b"\n")
        for line in filter(None, lines):
            await take(line)
        if len(left) > _MAX_LINE:
            raise SessionError(f"the agent sent a line of more than {_MAX_LINE:,} bytes")


class WatchedAgent:
    """An agent of another process, as the page in a browser shows it."""

    def __init__(self, session_id: str, path: Path, options: WatchOptions) -> None:
        """Read an agent over a socket, and what it said before from the store of the options."""
        self.session_id = session_id
        self._path = path
        self._options = options
        self._node: Mapping[str, object] = {}
        self._readers = 0
        self._has_no_reader = trio.Event()

    def describe(self) -> Mapping[str, object]:
        """Return what the list of sessions says of it."""
        node = self._node
        name = str(node.get("name") or node.get("agent_type") or "")
        state = node.get("state", {"kind": "idle"})
        return {"id": self.session_id, "agent": name, "title": name, "state": state}

    @asynccontextmanager
    async def open(self) -> AsyncIterator["trio.MemoryReceiveChannel[tuple[str, bytes]]"]:
        """Give the block what it said before, and then what it says, as events."""
        self._readers += 1
        try:
            async with await trio.open_unix_socket(os.fspath(self._path)) as stream:
                await stream.send_all(self.session_id.encode() + b"\n")
                told, events = trio.open_memory_channel[tuple[str, bytes]](_EVENTS)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._tell, stream, told)
                    yield events
                    nursery.cancel_scope.cancel()
        finally:
            self._readers -= 1
            if not self._readers:
                self._has_no_reader.set()

    async def wait_until_read(self) -> None:
        """Wait until every reader has read to the end and has gone."""
        while self._readers:
            self._has_no_reader = trio.Event()
            await self._has_no_reader.wait()

    async def _tell(
        self, stream: trio.SocketStream, told: "trio.MemorySendChannel[tuple[str, bytes]]"
    ) -> None:
        sent, lines = trio.open_memory_channel[bytes](_EVENTS)
        async with told, trio.open_nursery() as nursery:
            nursery.start_soon(_read_to, stream, sent)
            first = b""
            with trio.move_on_after(_FIRST):
                first = await anext(aiter(lines), b"")
            await told.send(("gap", b'{"missed":null}'))
            await told.send(("snapshot", await self._read_snapshot(first)))
            nursery.start_soon(self._tell_tree, told.clone())
            if first:
                await told.send(("", first))
            async for line in lines:
                await told.send(("", line))
            nursery.cancel_scope.cancel()

    async def _tell_tree(self, told: "trio.MemorySendChannel[tuple[str, bytes]]") -> None:
        last: Mapping[str, object] | None = None
        async with told:
            while True:
                found = await read_tree(self._path)
                node = _nodes(found.tree).get(self.session_id) if found else None
                if node is not None and node != last:
                    self._node = last = node
                    await told.send(("tree", serde.encode({"tree": node})))
                await trio.sleep(_INTERVAL)

    async def _read_snapshot(self, first: bytes) -> bytes:
        """Return what was said before the turn that the stream begins with."""
        found = await read_tree(self._path)
        self._node = _nodes(found.tree).get(self.session_id, {}) if found else {}
        title, messages = "", tuple[Message, ...]()
        try:
            store = open_configured_store(self._options)
            session = await AgentSession.load(self.session_id, store=store, keep_open=True)
        except SessionError:
            pass  # it is kept elsewhere, or nowhere
        else:
            title = str(session.get_metadata("title") or "")
            messages = _before(session.history, first)
        about = self.describe()
        return write_snapshot(
            self.session_id,
            str(about["agent"]),
            title=title or str(about["title"]),
            messages=messages,
            state=about["state"],
        )


def _before(messages: tuple[Message, ...], first: bytes) -> tuple[Message, ...]:
    """Return the messages before the turn that begins with a chunk."""
    try:
        chunk = serde.loads(first) if first else None
    except InvalidJSONError:
        chunk = None
    input_id = chunk.get("input_id") if isinstance(chunk, dict) else None
    at = next((at for at, each in enumerate(messages) if input_id and each.id == input_id), None)
    return messages[:at]


async def _read_to(stream: trio.SocketStream, sent: "trio.MemorySendChannel[bytes]") -> None:
    async with sent:
        try:
            await read_lines(stream, sent.send)
        except (trio.BrokenResourceError, SessionError):
            return  # its process has ended, or speaks another language
