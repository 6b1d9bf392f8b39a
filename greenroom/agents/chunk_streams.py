"""Streams made of streams: the chunks of some kinds, the text alone, several agents in one.

Each is an iterator over another that stays yours: it starts no task, holds no chunk back, and has
nothing to close. Close the subscription or the run that it reads by that one's own block. `merged`
reads several at once, so it is a block itself.
"""

from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from enum import StrEnum
from typing import Generic, Self, TypeVar

import msgspec
import trio

from greenroom.core import Custom, Error, OutputChunk, TextDelta, ToolEnd, ToolStart, utc_now

T = TypeVar("T")
U = TypeVar("U")
Chunk = TypeVar("Chunk", bound=OutputChunk)


class _Mapped(Generic[T, U]):
    """What a function makes of the items of a stream."""

    def __init__(self, items: AsyncIterable[T], function: Callable[[T], U | None]) -> None:
        self._items = aiter(items)
        self._function = function

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> U:
        async for item in self._items:
            made = self._function(item)
            if made is not None:
                return made
        raise StopAsyncIteration


def mapped(items: AsyncIterable[T], function: Callable[[T], U | None]) -> AsyncIterator[U]:
    """Iterate over what `function` makes of each item; where it returns None, the item is left out.

    The others here are made of it. What the function raises reaches the reader.

    Example:
        ```python
        async with handle.subscribe() as chunks:
            async for tokens in mapped(chunks, lambda c: c.total.total if isinstance(c, UsageReport) else None):
                print(tokens, "tokens so far")
        ```
    """
    return _Mapped(items, function)


def only(chunks: AsyncIterable[OutputChunk], *kinds: type[Chunk]) -> AsyncIterator[Chunk]:
    """Iterate over the chunks of these kinds.

    What a subagent says is a `SubAgentOutput`, and in no other kind. A reader that wants to know of
    gaps names `Lagged`, too.

    Raises:
        TypeError: no kind is given, or one is not a class.

    Example:
        ```python
        async with handle.subscribe() as chunks:
            async for chunk in only(chunks, ToolStart, ToolEnd):
                print(chunk.id)
        ```
    """
    if not kinds or not all(isinstance(kind, type) for kind in kinds):
        raise TypeError("only() wants the classes of the chunks, such as only(chunks, ToolEnd)")
    return mapped(chunks, lambda chunk: chunk if isinstance(chunk, kinds) else None)


def texts(chunks: AsyncIterable[OutputChunk]) -> AsyncIterator[str]:
    """Iterate over the text alone, piece by piece as the model writes it.

    Example:
        ```python
        async for piece in texts(handle.stream()):
            print(piece, end="", flush=True)
        ```
    """
    return mapped(chunks, lambda chunk: chunk.text if isinstance(chunk, TextDelta) else None)


@asynccontextmanager
async def merged(*streams: AsyncIterable[T]) -> AsyncIterator[AsyncIterator[T]]:
    """Read several streams as one, in the order in which their items come; it ends after the last.

    The items of one stream keep their order. At most one item of each is fetched ahead, so a slow
    reader slows down what it reads: a subscription then tells it with `Lagged` what it missed, and
    no agent waits. Leaving the block stops reading; an item that was fetched and not taken is gone.

    What a stream raises cancels the block and comes out of it; the other streams are not read any
    further. An async generator that is left in its middle is yours to close, as by
    `contextlib.aclosing`.

    Example:
        ```python
        async with ann.subscribe() as a, ben.subscribe() as b, merged(a, b) as chunks:
            async for piece in texts(chunks):
                print(piece)
        ```
    """
    sender, receiver = trio.open_memory_channel[T](0)
    try:
        async with trio.open_nursery() as nursery, receiver:
            with sender:
                for stream in streams:
                    nursery.start_soon(_forward, stream, sender.clone())
            yield receiver
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if len(group.exceptions) > 1:
            raise
        failure = group.exceptions[0]  # bare, as it was raised
        raise failure from failure.__cause__


async def _forward(stream: AsyncIterable[T], sender: trio.MemorySendChannel[T]) -> None:
    async for item in stream:
        await sender.send(item)
    sender.close()  # not after an error, which the reader would take for the end


# ---- Five kinds of events, for a front end that needs no more than these.


class StreamEventType(StrEnum):
    """What an event is about."""

    TOKEN = "token"  # noqa: S105 (a piece of text)
    TOOL_START = "tool_start"
    TOOL_END = "tool_end"
    AGENT_SWITCH = "agent_switch"
    ERROR = "error"


class StreamEvent(msgspec.Struct, frozen=True):
    """One thing that happened, with when it was read.

    Attributes:
        type: what it is about.
        data: the facts, as JSON: of a token its `text`; of a tool's start `id`, `name` and `input`;
            of its end `id`, `text` and `is_error`; of a switch `from` and `to`, the agents' names;
            of an error `message`, `kind` and `hint`.
        timestamp: when it was read, in UTC, to the second.
    """

    type: StreamEventType
    data: dict[str, object]
    timestamp: datetime


def stream_events(chunks: AsyncIterable[OutputChunk]) -> AsyncIterator[StreamEvent]:
    """Iterate over the events among the chunks; all other chunks are left out.

    What subagents do is left out, too: to the reader it is part of a tool call.

    Example:
        ```python
        async for event in stream_events(handle.stream()):
            await websocket.send_text(msgspec.json.encode(event).decode())
        ```
    """
    return mapped(chunks, _event)


def _event(chunk: OutputChunk) -> StreamEvent | None:
    match chunk:
        case TextDelta():
            return _make_event(StreamEventType.TOKEN, text=chunk.text)
        case ToolStart():
            start = StreamEventType.TOOL_START
            return _make_event(start, id=chunk.id, name=chunk.name, input=chunk.input)
        case ToolEnd():
            end = StreamEventType.TOOL_END
            return _make_event(end, id=chunk.id, text=chunk.result.text, is_error=chunk.is_error)
        case Custom(kind="handoff"):
            names = {end: chunk.data.get(end, "") for end in ("from", "to")}
            return _make_event(StreamEventType.AGENT_SWITCH, **names)
        case Error():
            error = StreamEventType.ERROR
            return _make_event(error, message=chunk.message, kind=chunk.kind, hint=chunk.hint)
        case _:
            return None


def _make_event(kind: StreamEventType, /, **data: object) -> StreamEvent:
    return StreamEvent(kind, data, utc_now())
