"""The standard streams of this process as the streams of a server.

They are taken away from everybody else: what a tool prints goes to standard error, and what it
reads is at its end. Messages have bounds, and are read in a time that grows with their length.
"""

import logging
import os
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress

import anyio
import mcp_types as types
import trio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from greenroom.interop.line_reader import MAX_MESSAGE, LineReader, find_answered, find_asked
from greenroom.interop.mcp.lines import UnreadableError, read_line
from greenroom.interop.mcp.transport import Incoming, Streams

_CHUNK = 1 << 16
_TOO_LONG = f"a message has at most {MAX_MESSAGE >> 20} MB"
_log = logging.getLogger("greenroom.interop")


@asynccontextmanager
async def open_standard_streams() -> AsyncIterator[Streams]:
    """Yield the streams to whoever has started this process; the first one ends with its input."""
    incoming, read = anyio.create_memory_object_stream[Incoming](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    with _claim() as (source, sink):
        async with incoming, read, write, outgoing, trio.open_nursery() as nursery:
            nursery.start_soon(_receive, source, incoming, write)
            nursery.start_soon(_send, sink, outgoing)
            yield read, write
            nursery.cancel_scope.cancel()


@contextmanager
def _claim() -> Iterator[tuple[int, int]]:
    """Take the standard streams, and put the null device and standard error in their place."""
    source, sink = os.dup(0), os.dup(1)
    try:
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        yield source, sink
    finally:
        with suppress(OSError, ValueError):  # it may be closed
            sys.stdout.flush()  # what was printed and not written yet is not the protocol's
        os.dup2(source, 0)
        os.dup2(sink, 1)
        os.close(source)
        os.close(sink)


def _is_stream(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


async def _read(descriptor: int) -> bytes:
    if _is_stream(descriptor):
        await trio.lowlevel.wait_readable(descriptor)
        return os.read(descriptor, _CHUNK)
    return await trio.to_thread.run_sync(os.read, descriptor, _CHUNK)


async def _receive(
    source: int,
    incoming: MemoryObjectSendStream[Incoming],
    write: MemoryObjectSendStream[SessionMessage],
) -> None:
    reader = LineReader()
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        async with incoming:
            while data := await _read(source):
                for line in reader.feed(data):
                    if line is None and not reader.skipped_answer:
                        await write.send(_refuse(reader.skipped_id, _TOO_LONG))
                    elif line is None:  # who waits for it reads that it was refused
                        if (id_ := reader.skipped_id) is not None:
                            await incoming.send(_refuse(id_, _TOO_LONG))
                    elif line.strip():
                        await _take(line, incoming, write)


async def _take(
    line: bytes,
    incoming: MemoryObjectSendStream[Incoming],
    write: MemoryObjectSendStream[SessionMessage],
) -> None:
    """Pass on a message; of one that can't be read, who waits for it or its answer is told."""
    try:
        message = read_line(line)
    except UnreadableError as error:
        why = f"the message can't be read: {error}"
        if (id_ := find_answered(line)) is not None:
            await incoming.send(_refuse(id_, why))
        else:
            await write.send(_refuse(find_asked(line), why, types.PARSE_ERROR))
        return
    await incoming.send(SessionMessage(message))


def _refuse(id_: int | str | None, why: str, code: int = types.INVALID_REQUEST) -> SessionMessage:
    error = types.ErrorData(code=code, message=why)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=id_, error=error))


async def _send(sink: int, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
    """Write our messages, as fast as the client reads them."""
    async with AsyncExitStack() as stack:
        stream = None
        if _is_stream(sink):
            stream = await stack.enter_async_context(trio.lowlevel.FdStream(os.dup(sink)))
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for each in outgoing:
                text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                data = text.encode() + b"\n"
                if stream is not None:
                    await stream.send_all(data)
                else:
                    await trio.to_thread.run_sync(_write, sink, data)


def _write(sink: int, data: bytes) -> None:
    while data:
        data = data[os.write(sink, data) :]
