"""Streams of chunks made from other streams: some kinds, the text alone, several agents in one.

Each is an iterator over a stream that stays yours: it starts no task, holds no chunk back, and has
nothing to close. Leave the block of the subscription or run that it reads to end both. `merged`
reads several streams at once, so it is a block itself.
"""

from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from enum import StrEnum
from typing import Generic, Self, TypeVar

import msgspec
import trio

from greenroom.core import (
    Custom,
    Done,
    Error,
    OutputChunk,
    TextComplete,
    TextDelta,
    ToolEnd,
    ToolStart,
    TurnStart,
    utc_now,
)
from greenroom.core._internal import freeze_fields
from greenroom.llm import ModelStreamError

T = TypeVar("T")
U = TypeVar("U")
Chunk = TypeVar("Chunk", bound=OutputChunk)


class _Mapped(Generic[T, U]):
    """The results of a function for the items of a stream."""

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
    """Iterate over the results of `function` for each item; a result of None is left out.

    An exception of the function reaches the reader.

    Example:
        ```python
        def count_tokens(chunk: OutputChunk) -> int | None:
            return chunk.total.total if isinstance(chunk, UsageReport) else None

        async with handle.subscribe() as chunks:
            async for tokens in mapped(chunks, count_tokens):
                print(tokens, "tokens so far")
        ```
    """
    return _Mapped(items, function)


def only(chunks: AsyncIterable[OutputChunk], *kinds: type[Chunk]) -> AsyncIterator[Chunk]:
    """Iterate over the chunks of these kinds.

    A subagent's chunks come as `SubAgentOutput`, whatever their kind. Name `Lagged` as well to
    learn about gaps.

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


def windowed(items: AsyncIterable[T], size: int) -> AsyncIterator[tuple[T, ...]]:
    """Iterate over windows: at each item, a tuple of the last `size` items, this one at its end.

    The first windows are shorter, so that no item waits for others.

    Raises:
        ValueError: `size` is below 1.

    Example:
        ```python
        async with handle.subscribe() as chunks:
            async for last in windowed(only(chunks, ToolEnd), 3):
                if len(last) == 3 and all(end.is_error for end in last):
                    await handle.interrupt()
        ```
    """
    if size < 1:
        raise ValueError(f"a window of {size} items holds nothing")
    window = deque[T](maxlen=size)

    def slide(item: T) -> tuple[T, ...]:
        window.append(item)
        return tuple(window)

    return mapped(items, slide)


def texts(chunks: AsyncIterable[OutputChunk]) -> AsyncIterator[str]:
    """Iterate over the text alone, piece by piece as the model writes it.

    A text that was not streamed, such as the answer of a team, is one piece.

    Raises:
        ModelStreamError: the reply whose pieces were handed out broke off, and the agent starts it
            over; read the chunks themselves to go on with the new one.

    Example:
        ```python
        async for piece in texts(handle.stream()):
            print(piece, end="", flush=True)
        ```
    """
    return mapped(chunks, _Pieces().take)


class _Whole:
    """Finds the texts that came in no pieces, such as the answer of a team."""

    def __init__(self) -> None:
        self._characters = 0  # of pieces whose text is not complete

    def read(self, chunk: OutputChunk) -> OutputChunk:
        """Return the chunk, or a single piece for such a text."""
        match chunk:
            case TextDelta(text=text):
                self._characters += len(text)
            case TextComplete(text=text) if text and not self._characters:
                return TextDelta(text)
            case TextComplete(text=text):
                self._characters = max(0, self._characters - len(text))
            case Custom(kind="reply.restarted"):
                self._characters = 0  # its pieces were taken back
            case _:
                pass
        return chunk


class _Pieces:
    """The pieces of text in a stream, as long as none is taken back."""

    def __init__(self) -> None:
        self._has_piece = False  # of the reply that is being written
        self._whole = _Whole()

    def take(self, chunk: OutputChunk) -> str | None:
        match self._whole.read(chunk):
            case TextDelta(text=text):
                self._has_piece = True
                return text
            case Custom(kind="reply.restarted") if self._has_piece:
                raise ModelStreamError(
                    "the reply broke off after some of its text was read, and starts over",
                    hint="read the chunks to go on: a Custom('reply.restarted') comes between",
                )
            case TurnStart() | ToolStart() | Done():
                self._has_piece = False
            case _:
                pass
        return None


@asynccontextmanager
async def merged(*streams: AsyncIterable[T]) -> AsyncIterator[AsyncIterator[T]]:
    """Read several streams as one, in the order in which their items arrive, until all have ended.

    The items of one stream keep their order. At most one item of each is fetched ahead, so a slow
    reader also reads the streams slowly: a subscription then reports with `Lagged` what it missed,
    and no agent waits. Leaving the block stops reading; an item that was fetched but not taken is
    lost.

    An exception in a stream cancels the block and is raised from it; the other streams are read no
    further. Async generators that have not ended are yours to close, such as with
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
        failure = group.exceptions[0]  # without the group, as it was raised
        raise failure from failure.__cause__


async def _forward(stream: AsyncIterable[T], sender: trio.MemorySendChannel[T]) -> None:
    async for item in stream:
        await sender.send(item)
    sender.close()  # not after an error: the reader would take it for the end


class StreamEventType(StrEnum):
    """What an event is about."""

    TOKEN = "token"  # noqa: S105 (a piece of text)
    TOOL_START = "tool_start"
    TOOL_END = "tool_end"
    AGENT_SWITCH = "agent_switch"
    ERROR = "error"


class StreamEvent(msgspec.Struct, frozen=True):
    """One event for a front end that needs only five kinds of them.

    Attributes:
        type: what it is about.
        data: the facts, as JSON: of a token its `text`; of a tool's start `id`, `name` and `input`;
            of its end `id`, `text` and `is_error`; of a switch `from` and `to`, the agents' names;
            of an error `message`, `kind` and `hint`. A reply that starts over is an error of the
            kind "reply.restarted": forget its tokens.
        timestamp: when it was read, in UTC, to the second.
    """

    type: StreamEventType
    data: dict[str, object]
    timestamp: datetime

    def __post_init__(self) -> None:
        freeze_fields(self, "data")


def stream_events(chunks: AsyncIterable[OutputChunk]) -> AsyncIterator[StreamEvent]:
    """Iterate over the events among the chunks; all other chunks are left out.

    The chunks of subagents are left out as well: to the reader they are part of a tool call.

    Example:
        ```python
        async for event in stream_events(handle.stream()):
            await websocket.send_text(msgspec.json.encode(event).decode())
        ```
    """
    whole = _Whole()
    return mapped(chunks, lambda chunk: _event(whole.read(chunk)))


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
        case Custom(kind="reply.restarted"):
            error, hint = StreamEventType.ERROR, "forget the tokens of this reply"
            return _make_event(error, message=chunk.text, kind=chunk.kind, hint=hint)
        case Error():
            error = StreamEventType.ERROR
            return _make_event(error, message=chunk.message, kind=chunk.kind, hint=chunk.hint)
        case _:
            return None


def _make_event(kind: StreamEventType, /, **data: object) -> StreamEvent:
    return StreamEvent(kind, data, utc_now())
