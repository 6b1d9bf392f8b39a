"""Replies of the Responses API: server-sent events in, stream events out.

A reply is a list of items: reasoning, messages with parts, calls, and what the vendor's own tools
did. Each item and each part becomes one block; an item is authoritative once it is done.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Literal

from msgspec import DecodeError, Struct

from greenroom import core
from greenroom.core._internal import serde
from greenroom.llm.failure import (
    error_in_band,
    failed_reply,
    incomplete_reply,
    not_a_reply,
    unassignable_piece,
)
from greenroom.llm.json_fields import EventReader, as_dict, as_int, as_list, as_text, without
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

API = "responses"
"""The `Message.api` of replies."""

_Kind = Literal["text", "thinking", "tool_input"]
_DELTAS: dict[str, _Kind] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_summary_text.delta": "thinking",
    "response.reasoning_text.delta": "thinking",
    "response.function_call_arguments.delta": "tool_input",
    "response.custom_tool_call_input.delta": "tool_input",
}
_KINDS: dict[str, _Kind] = {
    "message": "text",
    "reasoning": "thinking",
    "function_call": "tool_input",
    "custom_tool_call": "tool_input",
}
"""The only kind of text of an item; an item of another kind may have any."""

_ENDS = frozenset({"response.completed", "response.incomplete", "response.done"})
_BETWEEN = "\n\n"  # two parts of a summary
_TYPED = ("id", "object", "model", "output", "usage", "status")
_STOP_REASONS = {
    "max_output_tokens": core.StopReason.MAX_TOKENS,
    "content_filter": core.StopReason.CONTENT_FILTER,
}


class _LoneText(Struct, forbid_unknown_fields=True):
    """An event that is nothing but a piece of text, as nearly all are, and its usual fields."""

    type: Literal["response.output_text.delta"]  # not as a tag, which may be left out
    item_id: str
    delta: str
    content_index: int
    output_index: int
    sequence_number: int = 0
    logprobs: tuple[()] | None = None
    obfuscation: str = ""


_decode_lone = serde.make_decoder(_LoneText).decode


class ResponsesDecoder:
    """Translates the events of one reply: `feed` each of them, then `close`."""

    def __init__(self, provider: str = "openai") -> None:
        self._provider = provider
        self._reader = EventReader(provider)
        self._started = False
        self._items: dict[str, int] = {}  # their numbers by their ids
        self._kinds: dict[int, str] = {}
        self._indexes: dict[tuple[int, int], int] = {}  # by the item's and the part's number
        self._arguments = defaultdict[int, GrowingText](GrowingText)  # of calls, by item
        self._summary_parts: dict[int, int] = {}  # the last one, by item
        self._done: dict[int, list[tuple[int, core.ContentBlock]]] = {}
        self._ids = CallIds()

    def feed(self, event: SSEEvent) -> Iterable[StreamEvent]:
        """Translate one event; one of an unknown kind becomes a notice.

        Raises:
            ModelError: the provider reports an error, or the event can't be read.
        """
        if (delta := self._read_lone(event.data)) is not None:
            return (delta,)
        if event.data == "[DONE]":
            return []
        data = self._reader.read(event.data)
        kind = as_text(data.get("type")) or event.name
        item = self._find_item(data, is_new=kind == "response.output_item.added")
        match kind:
            case "error":
                raise error_in_band(self._provider, data)
            case "response.failed" | "response.cancelled":
                raise error_in_band(self._provider, data.get("response"))
            case "response.created" | "response.in_progress" | "response.queued":
                return self._start(as_dict(data.get("response")))
            case "response.output_item.added":
                return self._add_item(item, as_dict(data.get("item")))
            case "response.output_item.done":
                return self._end_item(item, as_dict(data.get("item")))
            case _ if kind in _DELTAS:
                return self._add_piece(item, data, _DELTAS[kind])
            case _ if kind in _ENDS:
                return self._end(as_dict(data.get("response")))
            case _:
                return [Notice(kind)]

    def _read_lone(self, data: str) -> BlockDelta | None:
        """Read a piece of a text that has begun; None if the event is anything else."""
        if self._reader.halves:
            return None
        try:
            event = _decode_lone(data)
        except DecodeError:
            return None
        item = self._items.get(event.item_id)
        if item is None or self._kinds.get(item) != "message":
            return None
        index = self._indexes.get((item, event.content_index))
        return None if index is None else BlockDelta(index, "text", event.delta)

    def whole(self, value: object) -> Iterable[StreamEvent]:
        """Translate a reply that came in one piece, although a stream was requested.

        Raises:
            ModelError: the provider reports an error, or the value is not a reply.
        """
        data = as_dict(value)
        if data.get("error"):
            raise error_in_band(self._provider, data)
        if not isinstance(data.get("output"), list):
            raise not_a_reply(self._provider)
        self._end(data)
        return events_of(self._message(data))

    def close(self) -> Iterable[StreamEvent]:
        """End the reply: no more events come.

        Raises:
            ModelStreamError: always; a complete reply is not read any further.
        """
        raise incomplete_reply(self._provider)

    def _start(self, response: dict[str, object]) -> list[StreamEvent]:
        if self._started:
            return []
        self._started = True
        return [StreamStart(as_text(response.get("model")), as_text(response.get("id")), API)]

    def _find_item(self, data: dict[str, object], *, is_new: bool) -> int:
        """Return the number of the item that an event is about: a known id counts most."""
        item_id = as_text(data.get("item_id")) or as_text(as_dict(data.get("item")).get("id"))
        if item_id in self._items:
            return self._items[item_id]
        number, latest = as_int(data.get("output_index")), max(self._kinds, default=-1)
        if number is None or (is_new and number in self._kinds):
            number = latest + 1 if is_new else max(latest, 0)
        if is_new and item_id:
            self._items[item_id] = number
        return number

    def _index(self, item: int, part: int = 0) -> int:
        return self._indexes.setdefault((item, part), len(self._indexes))

    def _add_item(self, item: int, raw: dict[str, object]) -> list[StreamEvent]:
        self._kinds[item] = kind = as_text(raw.get("type"))
        return [] if kind == "message" else [BlockStart(self._index(item), kind)]

    def _add_piece(self, item: int, data: dict[str, object], kind: _Kind) -> list[StreamEvent]:
        piece = as_text(data.get("delta"))
        if kind != _KINDS.get(self._kinds.get(item, ""), kind):
            raise unassignable_piece(self._provider)
        if kind == "tool_input":
            self._arguments[item].write(piece)
        if kind == "text":
            part = as_int(data.get("content_index")) or 0
            is_new = (item, part) not in self._indexes
            begin = [BlockStart(self._index(item, part), "text")] if is_new else []
            return [*begin, BlockDelta(self._index(item, part), kind, piece)]
        if kind == "thinking":
            part = as_int(data.get("summary_index")) or 0
            if self._summary_parts.setdefault(item, part) != part:
                self._summary_parts[item], piece = part, _BETWEEN + piece
        return [BlockDelta(self._index(item), kind, piece)]

    def _end_item(self, item: int, raw: dict[str, object]) -> list[StreamEvent]:
        if item in self._done:
            return []
        blocks = [
            (self._index(item, part), block) for part, block in enumerate(self._read(item, raw))
        ]
        self._done[item] = blocks
        return [BlockEnd(index, block) for index, block in blocks]

    def _read(self, item: int, raw: dict[str, object]) -> Iterator[core.ContentBlock]:
        """Read the blocks of an item; what has no typed place goes into their `extra`."""
        match raw.get("type"):
            case "message":
                shared = without(raw, "type", "role", "content")
                for part in map(as_dict, as_list(raw.get("content"))):
                    yield _read_part(part, shared)
            case "reasoning":
                yield core.ThinkingBlock(
                    _BETWEEN.join(_list_thoughts(raw)),
                    as_text(raw.get("encrypted_content")),
                    without(raw, "type", "encrypted_content"),
                )
            case "function_call":
                arguments = as_text(raw.get("arguments")) or self._arguments[item].getvalue()
                yield tool_use(
                    self._ids.claim(as_text(raw.get("call_id"))),
                    as_text(raw.get("name")),
                    arguments or "{}",
                    without(raw, "type", "call_id", "name", "arguments"),
                )
            case "custom_tool_call":
                text = as_text(raw.get("input")) or self._arguments[item].getvalue()
                yield core.ToolUseBlock(
                    self._ids.claim(as_text(raw.get("call_id"))),
                    as_text(raw.get("name")),
                    {"input": text},
                    extra=without(raw, "call_id", "name", "input"),
                )
            case _:
                yield core.UnknownBlock(raw)

    def _end(self, response: dict[str, object]) -> list[StreamEvent]:
        """End the reply; items of which no event has told are in the response."""
        events = self._start(response)
        for place, raw in enumerate(map(as_dict, as_list(response.get("output")))):
            item = self._items.get(as_text(raw.get("id")), place)
            events += self._end_item(item, raw)
            if raw.get("type") == "reasoning":  # it may be encrypted again: the last one counts
                self._done[item] = [(self._index(item), each) for each in self._read(item, raw)]
        usage = read_usage(as_dict(response.get("usage")))
        counts = [UsageUpdate(usage)] if usage is not None else []
        return [*events, *counts, StreamEnd(self._message(response))]

    def _message(self, response: dict[str, object]) -> core.Message:
        found = dict(chain.from_iterable(self._done.values()))
        blocks = [found[index] for index in sorted(found)]
        details = as_dict(response.get("incomplete_details"))
        native = as_text(details.get("reason")) or as_text(response.get("status"))
        if error := failed_reply(self._provider, native, response.get("error")):
            raise error
        reason = _find_stop_reason(native, blocks)
        if is_cut(reason) and blocks:
            last = blocks[-1]
            blocks[-1] = cut_off(last, reason) if isinstance(last, core.ToolUseBlock) else last
        report = as_dict(response.get("usage"))
        extra = without(response, *_TYPED) | ({"usage": report} if report else {})
        return core.Message(
            "assistant",
            tuple(blocks),
            model=as_text(response.get("model")),
            provider=self._provider,
            api=API,
            stop_reason=reason,
            native_stop_reason=native,
            response_id=as_text(response.get("id")),
            usage=read_usage(report),
            extra=extra,
        )


def _read_part(part: dict[str, object], item: dict[str, object]) -> core.TextBlock:
    """Read a part of a message, with the fields of its item."""
    field = "refusal" if part.get("type") == "refusal" else "text"
    kind = {} if part.get("type") == "output_text" else {"type": part.get("type")}
    extra = {**kind, **without(part, "type", field), "item": item}
    return core.TextBlock(as_text(part.get(field)), extra)


def _list_thoughts(raw: dict[str, object]) -> list[str]:
    parts = as_list(raw.get("summary")) or as_list(raw.get("content"))
    return [as_text(as_dict(part).get("text")) for part in parts]


def _find_stop_reason(native: str, blocks: list[core.ContentBlock]) -> core.StopReason:
    if native != "completed":
        return _STOP_REASONS.get(native, core.StopReason.UNKNOWN)
    if any(isinstance(block, core.ToolUseBlock) for block in blocks):
        return core.StopReason.TOOL_USE
    texts = [block for block in blocks if isinstance(block, core.TextBlock)]
    is_refused = bool(texts) and all(block.extra.get("type") == "refusal" for block in texts)
    return core.StopReason.REFUSAL if is_refused else core.StopReason.END_TURN


def read_usage(report: dict[str, object]) -> core.Usage | None:
    """Read a report, whose input tokens include those that the cache served."""
    if not report:
        return None
    details = as_dict(report.get("input_tokens_details"))
    read, given = as_int(details.get("cached_tokens")), as_int(report.get("input_tokens"))
    written = as_int(details.get("cache_write_tokens"))
    cached = (read or 0) + (written or 0)
    return core.Usage(
        given if given is None or cached > given else given - cached,
        as_int(report.get("output_tokens")),
        read,
        written,
        as_int(as_dict(report.get("output_tokens_details")).get("reasoning_tokens")),
    )
