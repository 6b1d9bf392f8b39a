"""The stream of a reply: its events, the reply so far, and the complete message."""

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Literal, Self, TypeAlias

import msgspec
import trio

from greenroom.core import (
    ContentBlock,
    Message,
    Price,
    StopReason,
    TextBlock,
    ThinkingBlock,
    UnknownBlock,
    Usage,
)
from greenroom.core._internal import EMPTY, Wire, freeze_fields
from greenroom.llm.failure import too_large
from greenroom.llm.json_fields import as_text
from greenroom.llm.model_errors import ModelError, ModelStreamError
from greenroom.resilience._internal import current_meter


class StreamStart(Wire, frozen=True, tag="stream_start"):
    """The reply begins: the model that answers, and the provider's id of the reply.

    `api` and `extra` are what the message says of itself, so that one that breaks off says so too:
    without them, its blocks would be taken for those of another API or model.
    """

    model: str = ""
    response_id: str = ""
    api: str = ""
    extra: dict[str, object] = EMPTY

    def __post_init__(self) -> None:
        freeze_fields(self, "extra")


class BlockStart(Wire, frozen=True, tag="block_start"):
    """A block begins; its index orders it in the reply, its kind is the provider's word for it."""

    index: int
    kind: str


class BlockDelta(Wire, frozen=True, tag="block_delta"):
    """A piece of a block: of its text, of its thinking, or of a tool's argument text."""

    index: int
    kind: Literal["text", "thinking", "tool_input"]
    text: str


class BlockEnd(Wire, frozen=True, tag="block_end"):
    """A block is complete; `block` is authoritative, whatever its deltas were."""

    index: int
    block: ContentBlock


class UsageUpdate(Wire, frozen=True, tag="usage_update"):
    """The tokens used so far, as reported; each update replaces the one before."""

    usage: Usage


class Notice(Wire, frozen=True, tag="notice"):
    """Something that belongs to no block, such as a ping or an event of an unknown kind."""

    kind: str
    text: str = ""


class Announcement(Wire, frozen=True, tag="announcement"):
    """News for the readers of an agent, published as a `Custom` chunk.

    The fields are those of `Custom`: a dotted kind, the facts as JSON, and one line of text.
    """

    kind: str
    data: dict[str, object] = EMPTY
    text: str = ""

    def __post_init__(self) -> None:
        freeze_fields(self, "data")


class StreamRestart(Wire, frozen=True, tag="stream_restart"):
    """The reply starts over: the events before are not part of it.

    `partial` is the reply before, with its reported usage, which the usage of the new reply does
    not include.
    """

    partial: Message


class StreamEnd(Wire, frozen=True, tag="stream_end"):
    """The reply is complete: the provider said so; the connection did not merely end."""

    message: Message


StreamEvent: TypeAlias = (
    StreamStart
    | BlockStart
    | BlockDelta
    | BlockEnd
    | UsageUpdate
    | Notice
    | Announcement
    | StreamRestart
    | StreamEnd
)
"""An event of a model stream; the last one of a complete reply is its `StreamEnd`."""


_PIECES = 1024


class GrowingText:
    """Text that grows at its end, and takes little more memory than its characters do.

    A list of a million one-word pieces takes fifteen times the memory of their text, and so does
    `io.StringIO` before Python 3.12.

    Example:
        >>> text = GrowingText()
        >>> text.write("Hel")
        >>> text.write("lo")
        >>> text.getvalue()
        'Hello'
    """

    def __init__(self) -> None:
        self._text = ""
        self._pieces: list[str] = []

    def write(self, piece: str) -> None:
        """Add a piece at the end."""
        self._pieces.append(piece)
        if len(self._pieces) >= _PIECES:
            self._join()

    def getvalue(self) -> str:
        """Return the text so far."""
        self._join()
        return self._text

    def _join(self) -> None:
        # With no other reference to it, CPython lets a text grow where it is, without a copy.
        text, self._text = self._text, ""
        text += "".join(self._pieces)
        self._text = text
        self._pieces.clear()


TEXT_LIMIT = 128 * 1024 * 1024
"""The most characters of text, thinking and arguments together in one reply."""


class Draft:
    """The reply so far: add each event, and read the message at any time.

    Example:
        >>> draft = Draft("anthropic")
        >>> draft.add(BlockDelta(0, "text", "Hel"))
        >>> draft.partial().text
        'Hel'
    """

    def __init__(self, provider: str, price: Price | None = None) -> None:
        """Begin an empty reply of this provider, which charges this price."""
        self.prefix = ""
        """The `Message.prefix` of the reply."""
        self._provider = provider
        self._price = price
        self._start = StreamStart()
        self._usage: Usage | None = None
        self._texts = defaultdict[tuple[int, str], GrowingText](GrowingText)
        self._size = 0
        self._blocks: dict[int, ContentBlock] = {}
        self._message: Message | None = None

    def add(self, event: StreamEvent) -> None:
        """Add the next event.

        Raises:
            ModelStreamError: the text is longer than any model's can be.
        """
        match event:
            case BlockDelta(index, kind, text):  # first, since nearly all are
                self._size += len(text)
                if self._size > TEXT_LIMIT:
                    raise self._too_long()
                if kind != "tool_input":  # a call is kept only once it is complete
                    self._texts[index, kind].write(text)
            case StreamStart():
                self._start = event
            case BlockEnd(index, block):
                self._blocks[index] = block
                self._texts.pop((index, "text"), None)
                self._texts.pop((index, "thinking"), None)
            case UsageUpdate(usage):
                self._usage = usage if self._price is None else self._price.charge(usage)
            case StreamRestart():
                self._start, self._usage, self._size = StreamStart(), None, 0
                self._texts.clear()
                self._blocks.clear()
            case StreamEnd(message):
                self._message = self._complete(message).stamp()
            case _:
                pass

    def _too_long(self) -> ModelStreamError:
        return too_large(f"the reply is longer than {TEXT_LIMIT} characters", self._provider)

    def _complete(self, message: Message) -> Message:
        if self.prefix:
            message = msgspec.structs.replace(message, prefix=self.prefix)
        if self._price is None or message.usage is None:
            return message
        return msgspec.structs.replace(message, usage=self._price.charge(message.usage))

    @property
    def is_complete(self) -> bool:
        """Whether the reply is complete."""
        return self._message is not None

    @property
    def message(self) -> Message:
        """The complete message.

        Raises:
            ModelStreamError: the reply is not complete; `partial` has the reply so far.
        """
        if self._message is None:
            raise ModelStreamError("the reply is not complete", provider=self._provider)
        return self._message

    def partial(self) -> Message:
        """Return the reply so far as a message that a history may contain.

        It has the finished blocks and the text and thinking so far, without what can't be sent
        back: unfinished tool calls, and server tools without their result. Its stop reason is
        `interrupted`. If the reply is complete, the complete message is returned.
        """
        if self._message is not None:
            return self._message
        return Message(
            "assistant",
            _drop_unanswered([block for _, block in sorted(self._blocks_so_far().items())]),
            model=self._start.model,
            provider=self._provider,
            stop_reason=StopReason.INTERRUPTED,
            response_id=self._start.response_id,
            usage=self._usage,
            prefix=self.prefix,
            api=self._start.api,
            extra=self._start.extra,
        )

    def so_far(self) -> Message | None:
        """Return the same as `partial`, or None before the first event."""
        has_begun = self._texts or self._blocks or self._usage or self._start != StreamStart()
        return self.partial() if has_begun or self.is_complete else None

    def _blocks_so_far(self) -> dict[int, ContentBlock]:
        blocks: dict[int, ContentBlock] = {}
        for (index, kind), pieces in self._texts.items():
            text = pieces.getvalue()
            if text and kind == "text":
                blocks[index] = TextBlock(text)
            elif text and kind == "thinking":
                blocks[index] = ThinkingBlock(text)
        return blocks | self._blocks


def is_vendor_call(block: UnknownBlock) -> bool:
    """Whether it is a call of a tool that the vendor runs, whose result is a block as well."""
    return str(block.raw.get("type", "")).endswith("_tool_use")


def _drop_unanswered(blocks: list[ContentBlock]) -> tuple[ContentBlock, ...]:
    """Leave out calls of tools that the provider runs itself, unless it sent the result too."""
    results = (block.raw for block in blocks if isinstance(block, UnknownBlock))
    answered = {as_text(raw.get("tool_use_id")) for raw in results} - {""}
    return tuple(
        block
        for block in blocks
        if not isinstance(block, UnknownBlock)
        or not is_vendor_call(block)
        or as_text(block.raw.get("id")) in answered
    )


class ModelStream(ABC):
    """The events of one reply, up to its `StreamEnd`: an async iterator and context manager.

    The loop may be left at any time, and `partial` can be called at any time, even after an error
    or a cancellation. To write a stream, return its events from `receive`, and put everything that
    needs closing into `exit_stack`, which is closed when the block is left. A stream that changes
    the events of another one gets them by `await inner.take(self.wanted)`.
    """

    def __init__(self, provider: str, price: Price | None = None) -> None:
        """Begin a reply of the provider of this name, which charges this price."""
        self.exit_stack = AsyncExitStack()
        self.wanted = 1
        """How many events the reader takes at most; ask a stream inside for no more."""
        self._draft = Draft(provider, price)
        self._ready: deque[StreamEvent] = deque()
        self._late: ModelError | None = None  # that follows what is ready

    async def __aenter__(self) -> Self:
        """Begin the block."""
        await trio.lowlevel.checkpoint()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close what the stream has opened."""
        await self.exit_stack.__aexit__(kind, error, trace)

    @abstractmethod
    async def receive(self) -> Iterable[StreamEvent]:
        """Wait for the next events and return them in order; if there are none, it is called again.

        They are handed over at once if the reader takes as many; a partial reply never has more.

        Raises:
            ModelError: there are no more events, though the reply is not complete.
        """

    def __aiter__(self) -> "ModelStream":
        """Return the stream itself."""
        return self

    async def __anext__(self) -> StreamEvent:
        """Return the next event; each is a cancellation point.

        Raises:
            ModelError: the reply broke off; the subclass says why, and `partial` is the reply so
                far.
        """
        if events := await self.take(1):
            return events[0]
        raise StopAsyncIteration

    async def take(self, most: int = 256) -> list[StreamEvent]:
        """Wait for the next event, and return it with those behind it that have arrived.

        They are the same as one by one. An error that comes after some of them is raised by the
        next read, and a cancel loses none of them. Only the beginning is a cancellation point, if
        there is nothing to wait for.

        Args:
            most: return at most so many, 1 or more.

        Returns:
            The events; an empty list after the end.

        Raises:
            ModelError: the reply broke off, as above.
        """
        if most < 1:
            raise ValueError(f"most is {most}: take 1 or more")
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            while not self._ready:
                if self._late is not None:
                    late, self._late = self._late, None
                    raise late
                if self._draft.is_complete:
                    return []
                self.wanted = most
                self._ready.extend(await self.receive())
            return self._hand_over(most)
        except ModelError as error:
            error.hint = error.hint or error.remedy
            error.partial = error.partial or self._draft.so_far()  # an inner stream knows best
            raise

    def _hand_over(self, most: int) -> list[StreamEvent]:
        """Return events that are ready; from here on they are part of the reply so far."""
        events: list[StreamEvent] = []
        ready, draft = self._ready, self._draft
        try:
            while ready and len(events) < most:
                event = ready.popleft()
                draft.add(event)
                events.append(event)
        except ModelError as error:
            if not events:
                raise
            self._late = error
            ready.clear()
        return events

    def bind(self, prefix: str) -> None:
        """Give the reply this `Message.prefix`."""
        self._draft.prefix = prefix

    def announce(self, announcement: Announcement) -> None:
        """Return this announcement as the next event."""
        self._ready.appendleft(announcement)

    def partial(self) -> Message:
        """Return the reply so far as a message that a history may contain.

        It has the finished blocks, and the text and thinking so far; unfinished tool calls are left
        out. The stop reason is `interrupted` until the end.
        """
        return self._draft.partial()

    @property
    def message(self) -> Message:
        """The complete message, after the end of the stream.

        Raises:
            ModelStreamError: the stream has not been read to its end.
        """
        return self._draft.message


async def collect(opening: AbstractAsyncContextManager[ModelStream]) -> Message:
    """Read a stream to its end and return the message, as `generate` does.

    The usage of what is thrown away on the way is counted by the meter of the running work.

    Raises:
        ModelError: the request failed or the reply broke off; the subclass says why, and `partial`
            is the reply so far.
    """
    meter = current_meter()
    async with opening as stream:
        try:
            while events := await stream.take():
                for event in events:
                    if isinstance(event, StreamRestart):
                        meter.discard(event.partial)
        except BaseException:
            meter.discard(stream.partial())
            raise
        return stream.message
