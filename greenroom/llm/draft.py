"""The reply as far as it has come: a fold of the events that a reader has seen."""

from collections import defaultdict

import msgspec

from greenroom.core import (
    ContentBlock,
    Message,
    ModelStreamError,
    Price,
    StopReason,
    TextBlock,
    ThinkingBlock,
    UnknownBlock,
    Usage,
)
from greenroom.llm.events import (
    BlockDelta,
    BlockEnd,
    StreamEnd,
    StreamEvent,
    StreamRestart,
    StreamStart,
    UsageUpdate,
)
from greenroom.llm.failure import too_large
from greenroom.llm.fields import text
from greenroom.llm.growing_text import GrowingText

TEXT_LIMIT = 128 * 1024 * 1024
"""The most characters of text, thinking and arguments in one reply, together."""


class Draft:
    """Add each event; ask at any time for what there is of the message.

    Example:
        >>> draft = Draft("anthropic")
        >>> draft.add(BlockDelta(0, "text", "Hel"))
        >>> draft.partial().text
        'Hel'
    """

    def __init__(self, provider: str, price: Price | None = None) -> None:
        """Begin a reply of this provider, with nothing in it; its usage costs by this price."""
        self._provider = provider
        self._price = price
        self._start = StreamStart()
        self._usage: Usage | None = None
        self._texts = defaultdict[tuple[int, str], GrowingText](GrowingText)
        self._size = 0
        self._blocks: dict[int, ContentBlock] = {}
        self._message: Message | None = None

    def add(self, event: StreamEvent) -> None:
        """Take the next event into account.

        Raises:
            ModelStreamError: the text is longer than any model's can be.
        """
        match event:
            case StreamStart():
                self._start = event
            case BlockDelta(index, kind, text):
                self._size += len(text)
                if self._size > TEXT_LIMIT:
                    raise self._too_long()
                if kind != "tool_input":  # of which nothing is kept before it is complete
                    self._texts[index, kind].write(text)
            case BlockEnd(index, block):
                self._blocks[index] = block
                self._texts.pop((index, "text"), None)
                self._texts.pop((index, "thinking"), None)
            case UsageUpdate(usage):
                self._usage = usage if self._price is None else self._price.charged(usage)
            case StreamRestart():
                self._start, self._usage, self._size = StreamStart(), None, 0
                self._texts.clear()
                self._blocks.clear()
            case StreamEnd(message):
                self._message = self._priced(message).stamped()
            case _:
                pass

    def _too_long(self) -> ModelStreamError:
        return too_large(f"the reply is longer than {TEXT_LIMIT} characters", self._provider)

    def _priced(self, message: Message) -> Message:
        if self._price is None or message.usage is None:
            return message
        return msgspec.structs.replace(message, usage=self._price.charged(message.usage))

    @property
    def ended(self) -> bool:
        """Whether the reply is complete."""
        return self._message is not None

    @property
    def message(self) -> Message:
        """The complete message.

        Raises:
            ModelStreamError: the reply is not complete; `partial` has what there is of it.
        """
        if self._message is None:
            raise ModelStreamError("the reply is not complete", provider=self._provider)
        return self._message

    def partial(self) -> Message:
        """Return what has come so far as a message that may stand in a history.

        It holds the finished blocks and the text and thinking so far. What could not be sent back
        is left out: unfinished tool calls, and server tools without their result. Its stop reason
        is `interrupted`, unless the reply is complete: then it is the complete message.
        """
        if self._message is not None:
            return self._message
        return Message(
            "assistant",
            _paired([block for _, block in sorted(self._blocks_so_far().items())]),
            model=self._start.model,
            provider=self._provider,
            stop_reason=StopReason.INTERRUPTED,
            response_id=self._start.response_id,
            usage=self._usage,
        )

    def so_far(self) -> Message | None:
        """Return the same as `partial`, or None where nothing has come yet."""
        has_begun = self._texts or self._blocks or self._usage or self._start != StreamStart()
        return self.partial() if has_begun or self.ended else None

    def _blocks_so_far(self) -> dict[int, ContentBlock]:
        unfinished: dict[int, ContentBlock] = {}
        for (index, kind), written in self._texts.items():
            text = written.getvalue()
            if text and kind == "text":
                unfinished[index] = TextBlock(text)
            elif text and kind == "thinking":
                unfinished[index] = ThinkingBlock(text)
        return unfinished | self._blocks


def _paired(blocks: list[ContentBlock]) -> tuple[ContentBlock, ...]:
    """Leave out calls of tools that the provider runs itself and whose result has not come."""
    results = (block.raw for block in blocks if isinstance(block, UnknownBlock))
    answered = {text(raw.get("tool_use_id")) for raw in results} - {""}
    return tuple(
        block
        for block in blocks
        if not isinstance(block, UnknownBlock)
        or not str(block.raw.get("type", "")).endswith("_tool_use")
        or text(block.raw.get("id")) in answered
    )
