"""The streams that a connection speaks on, and what passes through them.

The SDK takes any pair of streams. For a local program they are ours (`open_stdio`): its own reader
takes time that grows with the square of a message's length, and its servers outlive a killed
parent. `screen` lets every list of tools through with what is unusable taken out, since the SDK
refuses a list as a whole; the definitions themselves are kept as they were sent.
"""

import logging
import os
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import anyio
import mcp_types as types
import trio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import ReadStream, WriteStream
from mcp.shared.message import SessionMessage

from greenroom.core._internal import conceal_secrets, visible
from greenroom.interop.line_reader import MAX_MESSAGE, LineReader, find_answered
from greenroom.interop.mcp.lines import UnreadableError, read_line
from greenroom.interop.mcp.server import MCPServer
from greenroom.sandbox._internal import ContainedProcess, clean_environment

Incoming: TypeAlias = SessionMessage | Exception
Streams: TypeAlias = tuple[ReadStream[Incoming], WriteStream[SessionMessage]]
"""What a connection reads from, and what it writes to."""

_CHUNK = 1 << 16
_LAST_WORDS = 2_000  # characters
_END_GRACE = 1.0  # seconds between the end of the input and a signal, and between that and a kill
_MOST_LISTS = 100
_TOO_LONG = f"the server's answer is longer than {MAX_MESSAGE >> 20} MB, so it was not read"

_log = logging.getLogger("greenroom.interop")


class LastWords:
    """What a server has last written to its error output, for the error that it has ended."""

    def __init__(self, server: MCPServer) -> None:
        """Hide the values that the server was given."""
        self._lines: deque[str] = deque(maxlen=20)
        self._secrets = [each for each in server.env.values() if len(each) > 3]

    def add(self, line: str) -> None:
        """Keep a line, without secrets and without characters that hide something."""
        for secret in self._secrets:
            line = line.replace(secret, "***")
        self._lines.append(conceal_secrets(visible(line[:_LAST_WORDS])))

    def __str__(self) -> str:
        return "\n".join(self._lines)[-_LAST_WORDS:]


@asynccontextmanager
async def open_stdio(server: MCPServer, words: LastWords) -> AsyncIterator[Streams]:
    """Start a server's program, and yield the streams that lead to it.

    When the block is left, its input ends; then it has a second, a signal, another second; and then
    it and all that it has started are killed. The kill of this process has the same effect at once.

    Raises:
        ToolError: the program can't be started.
    """
    process = await ContainedProcess.start(
        [server.command, *server.args],
        cwd=server.cwd,
        environment={**clean_environment(os.environ), **server.env},
        has_pipes=True,
    )
    incoming, read = anyio.create_memory_object_stream[Incoming](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with incoming, read, write, outgoing, trio.open_nursery() as nursery:
            nursery.start_soon(_receive, process, incoming)
            nursery.start_soon(_send, process, outgoing)
            nursery.start_soon(_listen, process, words)
            yield read, write
            nursery.cancel_scope.cancel()
    finally:
        assert process.input is not None  # it was started with pipes
        process.input.close()
        with trio.move_on_after(_END_GRACE, shield=True):
            await process.wait()
        await process.aclose(notice=_END_GRACE)


async def _receive(process: ContainedProcess, incoming: MemoryObjectSendStream[Incoming]) -> None:
    """Pass on the server's messages until its output ends."""
    reader = LineReader()
    with suppress(trio.ClosedResourceError, anyio.BrokenResourceError):
        async with incoming:
            while data := await process.output.receive_some(_CHUNK):
                for line in reader.feed(data):
                    message = _complain(reader) if line is None else _parse(line)
                    if message is not None:
                        await incoming.send(SessionMessage(message))


def _parse(line: bytes) -> types.JSONRPCMessage | None:
    """Read a message; an answer that can't be read fails its call, which would wait for it."""
    if not line.strip():
        return None
    try:
        return read_line(line)
    except UnreadableError as error:
        id_ = find_answered(line)
        if id_ is not None:
            return _fail(id_, f"the server's answer can't be read: {error}")
        _log.debug("an MCP server wrote something that is not a message: %.200r", line)
        return None


def _complain(reader: LineReader) -> types.JSONRPCMessage | None:
    """Answer in place of a message that was too long, so that its call does not wait for it."""
    id_ = reader.skipped_id if reader.skipped_answer else None
    if id_ is None:  # a notification has none either, though what it tells may
        _log.warning("a message of an MCP server was too long, and left out")
        return None
    return _fail(id_, _TOO_LONG)


def _fail(id_: int | str, why: str) -> types.JSONRPCError:
    error = types.ErrorData(code=types.INTERNAL_ERROR, message=why)
    return types.JSONRPCError(jsonrpc="2.0", id=id_, error=error)


async def _send(
    process: ContainedProcess, outgoing: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    """Write our messages until the server takes no more, which the end of its output will tell."""
    assert process.input is not None  # it was started with pipes
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        async for each in outgoing:
            text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            await process.input.send_all(text.encode() + b"\n")


async def _listen(process: ContainedProcess, words: LastWords) -> None:
    """Keep the end of what the server says on its error output."""
    assert process.errors is not None  # it was started with pipes
    reader = LineReader(limit=_CHUNK)
    with suppress(trio.ClosedResourceError):
        while data := await process.errors.receive_some(_CHUNK):
            for line in reader.feed(data):
                if line is not None:
                    words.add(line.decode(errors="replace"))


class Screen:
    """Takes what is unusable out of lists of tools, and keeps what was said of the others."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._asked: dict[int | str, None] = {}
        self.definitions: dict[str, dict[str, object]] = {}
        """What was said of the tools of the last lists, by their names."""
        self.left_out: list[tuple[str, str]] = []
        """The names of those that are unusable, and why."""

    def forget(self) -> None:
        """Begin a new list."""
        self.definitions.clear()
        self.left_out.clear()

    def note(self, message: types.JSONRPCMessage) -> None:
        """Look at a message to the server: it may ask for a list."""
        if isinstance(message, types.JSONRPCRequest) and message.method == "tools/list":
            self._asked[message.id] = None
            while len(self._asked) > _MOST_LISTS:
                del self._asked[next(iter(self._asked))]

    def filter(self, message: types.JSONRPCMessage) -> types.JSONRPCMessage:
        """Look at a message of the server: it may be a list."""
        if not isinstance(message, types.JSONRPCResponse) or message.id not in self._asked:
            return message
        del self._asked[message.id]
        tools: object = message.result.get("tools")
        if not isinstance(tools, list):
            return message
        usable = [each for each in map(self._read, tools) if each is not None]
        return message.model_copy(update={"result": {**message.result, "tools": usable}})

    def _read(self, tool: object) -> dict[str, object] | None:
        """Return a definition that the SDK surely takes, which needs no more than a name."""
        name: object = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(tool, dict) or not isinstance(name, str):
            self.left_out.append((str(name)[:100], "it has no name"))
            return None
        if name in self.definitions:
            self.left_out.append((name, "another tool of the server has that name"))
            return None
        schema: object = tool.get("inputSchema")
        if not isinstance(schema, dict) or schema.get("type", "object") != "object":
            self.left_out.append((name, "its input schema is not one of an object"))
            return None
        self.definitions[name] = tool
        # Some annotations in properties say what a request over HTTP repeats in its headers.
        properties: object = schema.get("properties")
        known = properties if isinstance(properties, dict) else {}
        usable = {key: value for key, value in known.items() if isinstance(value, dict)}
        return {"name": name, "inputSchema": {"type": "object", "properties": usable}}


@asynccontextmanager
async def screen(streams: Streams, by: Screen, ended: trio.Event) -> AsyncIterator[Streams]:
    """Yield streams that lead through a screen; `ended` is set when the server says no more."""
    source, sink = streams
    incoming, read = anyio.create_memory_object_stream[Incoming](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)

    async def receive() -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with incoming:
                async for each in source:
                    if isinstance(each, SessionMessage):
                        each.message = by.filter(each.message)
                    await incoming.send(each)
        ended.set()

    async def send() -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for each in outgoing:
                by.note(each.message)
                await sink.send(each)

    async with incoming, read, write, outgoing, trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        nursery.start_soon(send)
        yield read, write
        nursery.cancel_scope.cancel()
