"""Replies of Anthropic's Messages API: server-sent events in, stream events out."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Literal

from msgspec import DecodeError, Struct, field

from greenroom import core
from greenroom.core._internal import serde
from greenroom.llm.failure import (
    error_in_band,
    failed_reply,
    incomplete_reply,
    not_a_reply,
    unassignable_piece,
)
from greenroom.llm.json_fields import (
    EventReader,
    as_dict,
    as_int,
    as_list,
    as_text,
    merge_reports,
    without,
)
from greenroom.llm.model_errors import ModelStreamError
from greenroom.llm.portable_calls import CallIds, cut_off, is_cut, tool_use
from greenroom.llm.recorded import events_of
from greenroom.llm.sse import SSEEvent
from greenroom.llm.stream import (
    BlockDelta,
    BlockEnd,
    BlockStart,
    GrowingText,
    Notice,
    StreamEnd,
    StreamEvent,
    StreamStart,
    UsageUpdate,
)

_Kind = Literal["text", "thinking", "tool_input"]
_TEXTS: dict[str, tuple[str, _Kind]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("partial_json", "tool_input"),
}
_KINDS: dict[str, _Kind] = {
    "text": "text",
    "thinking": "thinking",
    "redacted_thinking": "thinking",
    "tool_use": "tool_input",
}
"""The only kind of text of a block; a block of another kind may have any."""


class _LoneText(Struct, tag_field="type", tag="text_delta", forbid_unknown_fields=True):
    piece: str = field(name="text")


class _LoneThought(Struct, tag_field="type", tag="thinking_delta", forbid_unknown_fields=True):
    piece: str = field(name="thinking")


class _LoneInput(Struct, tag_field="type", tag="input_json_delta", forbid_unknown_fields=True):
    piece: str = field(name="partial_json")


class _LoneDelta(Struct, forbid_unknown_fields=True):
    """An event that is nothing but a piece of text, as nearly all are: with no other field."""

    type: Literal["content_block_delta"]  # not as a tag, which may be left out
    index: int
    delta: _LoneText | _LoneThought | _LoneInput


_LONE: dict[type[Struct], tuple[str, _Kind]] = {
    _LoneText: _TEXTS["text_delta"],
    _LoneThought: _TEXTS["thinking_delta"],
    _LoneInput: _TEXTS["input_json_delta"],
}
_decode_lone = serde.make_decoder(_LoneDelta).decode


class _OpenBlock:
    """A block as it began, and the pieces since."""

    def __init__(self, index: int, start: dict[str, object]) -> None:
        self.index = index
        self.kind = as_text(start.get("type"))
        self._raw = dict(start)
        self._texts = defaultdict[str, GrowingText](GrowingText)
        self._citations = as_list(start.get("citations"))

    def add(self, delta: dict[str, object]) -> BlockDelta | Notice:
        """Add a piece; one of an unknown kind replaces fields, and becomes a notice."""
        name = as_text(delta.get("type"))
        if name in _TEXTS:
            field, kind = _TEXTS[name]
            piece = as_text(delta.get(field))
            self._texts[field].write(piece)
            return BlockDelta(self.index, kind, piece)
        if name == "citations_delta":
            self._citations.append(delta.get("citation"))
        else:
            self._raw |= delta | {"type": self.kind}
        return Notice(name)

    def add_lone(self, delta: _LoneText | _LoneThought | _LoneInput) -> BlockDelta | None:
        """Add a piece of the block's own kind of text; None if it is of another kind."""
        name, kind = _LONE[type(delta)]
        if _KINDS.get(self.kind) != kind:
            return None
        self._texts[name].write(delta.piece)
        return BlockDelta(self.index, kind, delta.piece)

    def fits(self, delta: dict[str, object]) -> bool:
        """Whether a piece may belong to a block of this kind."""
        _, kind = _TEXTS.get(as_text(delta.get("type")), ("", None))
        return kind is None or _KINDS.get(self.kind, kind) == kind

    def first_deltas(self) -> list[BlockDelta]:
        """Return the text that the block began with as pieces for readers."""
        return [
            BlockDelta(self.index, kind, piece)
            for field, kind in _TEXTS.values()
            if kind == self.kind and (piece := as_text(self._raw.get(field)))
        ]

    @property
    def has_no_arguments(self) -> bool:
        """Whether a call has no arguments, neither in pieces nor from its beginning."""
        return not (self._text_of("partial_json") or self._raw.get("input"))

    def arguments(self) -> str:
        """Return the argument text of a call: its pieces, else the arguments it began with."""
        first = as_dict(self._raw.get("input"))
        return self._text_of("partial_json") or serde.dumps(first).decode()

    def whole(self) -> dict[str, object]:
        """Return the block as it would be in a reply that is not streamed."""
        texts: dict[str, object] = {
            field: as_text(self._raw.get(field)) + self._text_of(field)
            for field in ("text", "thinking")
            if field in self._texts
        }
        citations = {"citations": self._citations} if self._citations else {}
        return self._raw | texts | citations | self._input()

    def _text_of(self, field: str) -> str:
        return self._texts[field].getvalue() if field in self._texts else ""

    def _input(self) -> dict[str, object]:
        if self.kind == "tool_use" or "partial_json" not in self._texts:
            return {}
        call = tool_use("", "", self.arguments())
        return {} if call.invalid else {"input": call.input}


_STOP_REASONS = {
    "end_turn": core.StopReason.END_TURN,
    "tool_use": core.StopReason.TOOL_USE,
    "max_tokens": core.StopReason.MAX_TOKENS,
    "model_context_window_exceeded": core.StopReason.MAX_TOKENS,
    "stop_sequence": core.StopReason.STOP_SEQUENCE,
    "refusal": core.StopReason.REFUSAL,
    "pause_turn": core.StopReason.PAUSE,
}
_UNKNOWN = core.StopReason.UNKNOWN  # names of their own: members of an enum are slow to get on 3.11
_TYPED = ("id", "type", "role", "content", "model", "stop_reason", "usage")


class AnthropicDecoder:
    """Translates the events of one reply: `feed` each of them, then `close`.

    Only `message_stop` completes a reply. Of token counts the last report counts, since those of
    `message_delta` include those of `message_start`.
    """

    def __init__(self, provider: str = "anthropic") -> None:
        self._provider = provider
        self._reader = EventReader(provider)
        self._reply: dict[str, object] = {}  # the fields of `message_start` and `message_delta`
        self._usage: dict[str, object] = {}
        self._open: dict[int, _OpenBlock] = {}  # by the server's index
        self._blocks: dict[int, core.ContentBlock] = {}
        self._used_indexes: set[int] = set()
        self._next_index = 0  # greater than all of them
        self._without_arguments: set[int] = set()  # the indexes of calls without argument text
        self._ids = CallIds()

    def feed(self, event: SSEEvent) -> Iterable[StreamEvent]:
        """Translate one event; one of an unknown kind becomes a notice.

        Raises:
            ModelError: the provider reports an error, or the event can't be read.
        """
        if (lone := self._read_lone(event.data)) is not None:
            return (lone,)
        data = self._reader.read(event.data)
        kind = as_text(data.get("type"))
        match kind:
            case "message_start":
                return self._start(as_dict(data.get("message")))
            case "content_block_start":
                return self._block_start(data)
            case "content_block_delta":
                delta = as_dict(data.get("delta"))
                return [self._find_open(data, delta).add(delta)]
            case "content_block_stop":
                return [self._block_end(self._index_of(data))]
            case "message_delta":
                return self._delta(data)
            case "message_stop":
                return self._end()
            case "error":
                raise error_in_band(self._provider, data)
            case _:
                return [Notice(kind or event.name)]

    def _read_lone(self, data: str) -> BlockDelta | None:
        """Read an event that is nothing but a piece of text; None if it is anything else."""
        if "content_block_delta" not in data or self._reader.halves:
            return None
        try:
            event = _decode_lone(data)
        except DecodeError:
            return None
        block = self._open.get(event.index)
        return None if block is None else block.add_lone(event.delta)

    def whole(self, value: object) -> Iterable[StreamEvent]:
        """Translate a reply that came in one piece, although a stream was requested.

        Raises:
            ModelError: the provider reports an error, or the value is not a reply.
        """
        data = as_dict(value)
        if data.get("error"):
            raise error_in_band(self._provider, data)
        if not isinstance(data.get("content"), list):
            raise not_a_reply(self._provider)
        self._start(data)
        for index, block in enumerate(as_list(data["content"])):
            self._open[index] = _OpenBlock(index, as_dict(block))
            self._block_end(index)
        return events_of(self._message())

    def close(self) -> Iterable[StreamEvent]:
        """End the reply: no more events come.

        Raises:
            ModelStreamError: always; a complete reply is not read any further.
        """
        raise incomplete_reply(self._provider)

    def _start(self, message: dict[str, object]) -> list[StreamEvent]:
        self._reply = message
        start = StreamStart(as_text(message.get("model")), as_text(message.get("id")))
        return [start, *self._read_usage(message.get("usage"))]

    def _block_start(self, data: dict[str, object]) -> list[StreamEvent]:
        place = as_int(data.get("index"))
        index = self._next_index if place is None else place
        ends = [self._block_end(index)] if index in self._open else []
        block = _OpenBlock(self._free_index(index), as_dict(data.get("content_block")))
        self._open[index] = block
        return [*ends, BlockStart(block.index, block.kind), *block.first_deltas()]

    def _free_index(self, index: int) -> int:
        """Return the index, or the next free one: some servers use the same one for every block."""
        if index in self._used_indexes:
            index = self._next_index
        self._used_indexes.add(index)
        self._next_index = max(self._next_index, index + 1)
        return index

    def _index_of(self, data: dict[str, object]) -> int:
        """Return the index of an event, or that of the latest open block if it has none."""
        index = as_int(data.get("index"))
        return next(reversed(self._open), 0) if index is None else index

    def _find_open(self, data: dict[str, object], delta: dict[str, object]) -> _OpenBlock:
        index = self._index_of(data)
        if index not in self._open:
            raise ModelStreamError(
                f"{self._provider} sent a piece of block {index}, which is not open",
                provider=self._provider,
                hint="try again",
            )
        if not self._open[index].fits(delta):
            raise unassignable_piece(self._provider)
        return self._open[index]

    def _block_end(self, index: int) -> StreamEvent:
        if index not in self._open:
            return Notice("content_block_stop", f"block {index} is not open")
        opened = self._open.pop(index)
        block = self._finish(opened)
        self._blocks[opened.index] = block
        if opened.has_no_arguments:
            self._without_arguments.add(opened.index)
        return BlockEnd(opened.index, block)

    def _finish(self, block: _OpenBlock) -> core.ContentBlock:
        raw = block.whole()
        match block.kind:
            case "text":
                return core.TextBlock(as_text(raw.get("text")), without(raw, "type", "text"))
            case "thinking":
                return core.ThinkingBlock(
                    as_text(raw.get("thinking")),
                    as_text(raw.get("signature")),
                    without(raw, "type", "thinking", "signature"),
                )
            case "redacted_thinking":
                return core.RedactedThinkingBlock(
                    as_text(raw.get("data")), without(raw, "type", "data")
                )
            case "tool_use":
                return tool_use(
                    self._ids.claim(as_text(raw.get("id"))),
                    as_text(raw.get("name")),
                    block.arguments(),
                    without(raw, "type", "id", "name", "input"),
                )
            case _:
                return core.UnknownBlock(raw)

    def _delta(self, data: dict[str, object]) -> list[StreamEvent]:
        self._reply = merge_reports(self._reply, without(data, "type", "delta", "usage"))
        self._reply = merge_reports(self._reply, as_dict(data.get("delta")))
        return self._read_usage(data.get("usage"))

    def _read_usage(self, report: object) -> list[StreamEvent]:
        if not as_dict(report):
            return []
        self._usage = merge_reports(self._usage, as_dict(report))
        return [UsageUpdate(_usage(self._usage))]

    def _end(self) -> list[StreamEvent]:
        ends = [self._block_end(index) for index in sorted(self._open)]
        return [*ends, StreamEnd(self._message())]

    def _message(self) -> core.Message:
        native = as_text(self._reply.get("stop_reason"))
        if error := failed_reply(self._provider, native):
            raise error
        reason = _STOP_REASONS.get(native, _UNKNOWN)
        extra = without(self._reply, *_TYPED)
        return core.Message(
            "assistant",
            self._content(reason),
            model=self._model(),
            provider=self._provider,
            stop_reason=reason,
            native_stop_reason=native,
            response_id=as_text(self._reply.get("id")),
            usage=_usage(self._usage) if self._usage else None,
            extra=extra | ({"usage": self._usage} if self._usage else {}),
        )

    def _model(self) -> str:
        """Return the model that answered: the last fallback, if there were any."""
        blocks = (block for _, block in sorted(self._blocks.items(), reverse=True))
        raws = (
            b.raw
            for b in blocks
            if isinstance(b, core.UnknownBlock) and b.raw.get("type") == "fallback"
        )
        names = (as_text(as_dict(raw.get("to")).get("model")) for raw in raws)
        return next(filter(None, names), as_text(self._reply.get("model")))

    def _content(self, reason: core.StopReason) -> tuple[core.ContentBlock, ...]:
        """Return the blocks; in a reply that was cut off, an incomplete last call is invalid."""
        blocks = [block for _, block in sorted(self._blocks.items())]
        last = blocks[-1] if blocks else None
        if is_cut(reason) and isinstance(last, core.ToolUseBlock):
            is_partial = bool(last.invalid) or max(self._blocks) in self._without_arguments
            blocks[-1] = cut_off(last, reason) if is_partial else last
        return tuple(blocks)


def _usage(report: dict[str, object]) -> core.Usage:
    """Read a report; Anthropic's input tokens exclude those that its cache served or stored."""
    return core.Usage(
        as_int(report.get("input_tokens")),
        as_int(report.get("output_tokens")),
        as_int(report.get("cache_read_input_tokens")),
        as_int(report.get("cache_creation_input_tokens")),
        as_int(as_dict(report.get("output_tokens_details")).get("thinking_tokens")),
    )
