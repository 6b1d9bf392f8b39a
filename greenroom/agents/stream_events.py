"""Five kinds of events, for a front end that needs no more than these."""

from collections.abc import AsyncIterable, AsyncIterator
from datetime import datetime
from enum import StrEnum

import msgspec

from greenroom.agents.streams import mapped
from greenroom.core import Custom, Error, OutputChunk, TextDelta, ToolEnd, ToolStart, clock


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
        data: the facts, as JSON: of a token its `text`; of a tool's start `id`, `name` and `input`; of its
            end `id`, `text` and `is_error`; of a switch `from` and `to`, the agents' names; of an error
            `message`, `kind` and `hint`.
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
            return _made(StreamEventType.TOKEN, text=chunk.text)
        case ToolStart():
            start = StreamEventType.TOOL_START
            return _made(start, id=chunk.id, name=chunk.name, input=chunk.input)
        case ToolEnd():
            end = StreamEventType.TOOL_END
            return _made(end, id=chunk.id, text=chunk.result.text, is_error=chunk.is_error)
        case Custom(kind="handoff"):
            names = {end: chunk.data.get(end, "") for end in ("from", "to")}
            return _made(StreamEventType.AGENT_SWITCH, **names)
        case Error():
            error = StreamEventType.ERROR
            return _made(error, message=chunk.message, kind=chunk.kind, hint=chunk.hint)
        case _:
            return None


def _made(kind: StreamEventType, /, **data: object) -> StreamEvent:
    return StreamEvent(kind, data, clock.now())
