"""Replaying messages that exist already, as if a model were just saying them."""

import re
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager

import trio
from msgspec.structs import replace

from greenroom.core import (
    ContentBlock,
    Message,
    ModelStreamError,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    serde,
)
from greenroom.llm.events import (
    BlockDelta,
    BlockEnd,
    BlockStart,
    StreamEnd,
    StreamEvent,
    StreamStart,
    UsageUpdate,
)
from greenroom.llm.stream import ModelStream

_WORDS = re.compile(r"\s*\S+|\s+")


class ReplayStream(ModelStream):
    """A stream of events that are known before; each is given after a checkpoint.

    Events that end without a `StreamEnd` make a stream that breaks off.
    """

    def __init__(self, provider: str, events: Iterable[StreamEvent]) -> None:
        """Take the events, and the provider's name for partial messages and errors."""
        super().__init__(provider)
        self._provider = provider
        self._events = iter(events)

    async def receive(self) -> Iterable[StreamEvent]:
        """Give the next event.

        Raises:
            ModelStreamError: the events have ended without a `StreamEnd`.
        """
        await trio.lowlevel.checkpoint()
        for event in self._events:
            return (event,)
        raise ModelStreamError("the events ended before the reply", provider=self._provider)


@asynccontextmanager
async def replay(message: Message) -> AsyncIterator[ModelStream]:
    """Open a stream that says this message, its text word by word."""
    await trio.lowlevel.checkpoint()
    yield ReplayStream(message.provider, events_of(message))


def events_of(message: Message) -> Iterator[StreamEvent]:
    """List the events of a model saying this message; text comes word by word.

    Example:
        >>> [event.text for event in events_of(Message.assistant("a b")) if hasattr(event, "text")]
        ['a', ' b']
    """
    yield StreamStart(message.model, message.response_id)
    for index, block in enumerate(message.content):
        yield from _events_of_block(index, block)
    if message.usage is not None:
        yield UsageUpdate(message.usage)
    yield StreamEnd(replace(message, id="", created_at=None))  # it is said anew


def _events_of_block(index: int, block: ContentBlock) -> Iterator[StreamEvent]:
    yield BlockStart(index, str(type(block).__struct_config__.tag))
    match block:
        case TextBlock(text=text):
            yield from (BlockDelta(index, "text", word) for word in _WORDS.findall(text))
        case ThinkingBlock(thinking=text):
            yield from (BlockDelta(index, "thinking", word) for word in _WORDS.findall(text))
        case ToolUseBlock():
            arguments = block.raw_input or serde.dumps(block.input).decode()
            yield BlockDelta(index, "tool_input", arguments)
        case _:
            pass
    yield BlockEnd(index, block)
