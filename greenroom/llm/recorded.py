"""Replays: messages streamed as by a model, and a provider that replays a session."""

from collections.abc import Iterable, Iterator

import trio
from msgspec.structs import replace

from greenroom.core import (
    ContentBlock,
    Message,
    ModelRequest,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from greenroom.core._internal import compile_later, serde
from greenroom.llm.model_errors import ModelBadRequestError, ModelStreamError
from greenroom.llm.stream import (
    BlockDelta,
    BlockEnd,
    BlockStart,
    ModelStream,
    StreamEnd,
    StreamEvent,
    StreamStart,
    UsageUpdate,
    collect,
)

_WORDS = compile_later(r"\s*\S+|\s+")


class ReplayStream(ModelStream):
    """A stream of known events; each is returned after a checkpoint.

    If the events end without a `StreamEnd`, the stream breaks off.
    """

    def __init__(self, provider: str, events: Iterable[StreamEvent]) -> None:
        """Take the events, and the provider's name for partial messages and errors."""
        super().__init__(provider)
        self._provider = provider
        self._events = iter(events)

    async def receive(self) -> Iterable[StreamEvent]:
        """Return the next event.

        Raises:
            ModelStreamError: the events have ended without a `StreamEnd`.
        """
        await trio.lowlevel.checkpoint()
        for event in self._events:
            return (event,)
        raise ModelStreamError("the events ended before the reply", provider=self._provider)


def replay(message: Message) -> ModelStream:
    """Return a stream of this message, its text word by word."""
    return ReplayStream(message.provider, events_of(message))


def events_of(message: Message) -> Iterator[StreamEvent]:
    """Yield the events of a reply that is this message, its text word by word.

    Example:
        >>> [event.text for event in events_of(Message.assistant("a b")) if hasattr(event, "text")]
        ['a', ' b']
    """
    yield StreamStart(message.model, message.response_id, message.api, message.extra)
    for index, block in enumerate(message.content):
        yield from _events_of_block(index, block)
    if message.usage is not None:
        yield UsageUpdate(message.usage)
    yield StreamEnd(replace(message, id="", created_at=None))  # it is a new message


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


class RecordedProvider:
    """Replays the assistant's messages of a session, one for each request, in their order.

    Example:
        >>> import trio
        >>> model = RecordedProvider([Message.user("hi"), Message.assistant("hello")])
        >>> trio.run(model.generate, ModelRequest(messages=[Message.user("anything")])).text
        'hello'
    """

    name = "recorded"

    def __init__(self, messages: Iterable[Message]) -> None:
        """Use the assistant's messages of a session's history; those of the user are ignored."""
        replies = [message for message in messages if message.role == "assistant"]
        self.model = next((reply.model for reply in replies if reply.model), "recording")
        self._count = len(replies)
        self._replies = iter(replies)

    def __repr__(self) -> str:
        return f"RecordedProvider(<{self._count} replies>)"

    def stream(self, request: ModelRequest) -> ModelStream:
        """Replay the next reply, whatever the request.

        Raises:
            ModelBadRequestError: all replies have been replayed.
        """
        reply = next(self._replies, None)
        if reply is None:
            raise ModelBadRequestError(
                f"the recording has ended after {self._count} replies",
                provider=self.name,
                hint="the session asked for more than was recorded; use a model to go on",
            )
        return replay(reply)

    async def generate(self, request: ModelRequest) -> Message:
        """Return the next reply, whatever the request.

        Raises:
            ModelBadRequestError: all replies have been replayed.
        """
        return await collect(self.stream(request))

    async def aclose(self) -> None:
        """Do nothing: it has no connection."""
