"""Replies of Chat Completions: server-sent events in, stream events out.

A reply is complete with its `finish_reason`, and ends with `[DONE]`, or with the stream where a
server leaves that out. What follows a `finish_reason` still counts: the token counts stand there. A
few servers give no reason, or an empty one; there `[DONE]` needs another sign that the reply was
not cut off: the empty reason, or token counts that nothing follows.
"""

from collections.abc import Iterable, Mapping

from greenroom.core import (
    ContentBlock,
    Message,
    StopReason,
    TextBlock,
    ThinkingBlock,
    UnknownBlock,
    Usage,
)
from greenroom.llm.failure import error_in_band, incomplete_reply, not_a_reply
from greenroom.llm.json_fields import (
    event_of,
    integer,
    items,
    latest,
    mapping,
    text,
    without,
)
from greenroom.llm.openai.calls import Calls
from greenroom.llm.openai.reasoning import CONTENT_FIELD, find_reasoning, merge_details
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


class _Passage:
    """A run of text or of reasoning, until something else comes."""

    def __init__(self, index: int, kind: str, extra: dict[str, object]) -> None:
        self.index = index
        self.kind = kind
        self.extra = extra
        self.details: list[object] = []
        self.text = GrowingText()  # holds a million pieces in little more than their text

    def block(self) -> ContentBlock:
        whole = self.text.getvalue()
        if self.kind == "text":
            return TextBlock(whole, self.extra)
        details = merge_details(self.details)
        extra = self.extra | ({"reasoning_details": details} if details else {})
        return ThinkingBlock(whole, extra=extra)


class Reply:
    """Add each delta; a change from text to reasoning or back begins a new block.

    Calls stay open until the reply ends, since their pieces may come in turns.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.is_refused = False
        self.extra: dict[str, object] = {}  # fields of the message that have no typed place
        self._passage: _Passage | None = None
        self._calls = Calls()
        self._blocks: dict[int, ContentBlock] = {}
        self._next = 0

    def add(self, delta: dict[str, object]) -> list[StreamEvent]:
        """Take one delta and return the events that it makes."""
        events: list[StreamEvent] = []
        field, piece = find_reasoning(delta)
        details = items(delta.get("reasoning_details"))
        if piece or details:
            events += self._think(piece, {"field": field} if field else {}, details)
        events += self._content(delta.get("content"))
        if text(delta.get("refusal")):
            self.is_refused = True
            events += self._say(text(delta["refusal"]), {"refusal": True})
        for fragment in map(mapping, items(delta.get("tool_calls"))):
            events += self._call(fragment)
        self._add_extra(delta)
        return events

    def finish(self, *, is_cut: bool) -> list[StreamEvent]:
        """End every open block, of a reply that was cut by its limit or not."""
        events = self._close()
        for index, call in self._calls.finish(is_cut=is_cut):
            self._blocks[index] = call
            events.append(BlockEnd(index, call))
        return events

    def blocks(self) -> tuple[ContentBlock, ...]:
        """Return the finished blocks, in the order in which they began."""
        return tuple(block for _, block in sorted(self._blocks.items()))

    @property
    def has_calls(self) -> bool:
        """Whether the reply asks for tools."""
        return bool(self._calls)

    def _content(self, content: object) -> list[StreamEvent]:
        if not isinstance(content, list):
            return self._say(text(content), {}) if text(content) else []
        return [event for part in map(mapping, content) for event in self._part(part)]

    def _part(self, part: dict[str, object]) -> Iterable[StreamEvent]:
        """Take a part of a content that is a list, as Mistral sends it."""
        match part.get("type"):
            case "text":
                return self._say(text(part.get("text")), {})
            case "thinking":
                thoughts = (text(mapping(item).get("text")) for item in items(part.get("thinking")))
                return self._think("".join(thoughts), {"field": CONTENT_FIELD}, [])
            case _:
                return self._whole(UnknownBlock(part))

    def _say(self, piece: str, extra: dict[str, object]) -> list[StreamEvent]:
        passage, events = self._open("text", extra)
        passage.text.write(piece)
        return [*events, BlockDelta(passage.index, "text", piece)]

    def _think(
        self, piece: str, extra: dict[str, object], details: list[object]
    ) -> list[StreamEvent]:
        passage, events = self._open("thinking", extra)
        passage.text.write(piece)
        passage.details += details
        return [*events, BlockDelta(passage.index, "thinking", piece)] if piece else events

    def _open(self, kind: str, extra: dict[str, object]) -> tuple[_Passage, list[StreamEvent]]:
        """Return the passage of this kind, with the events of ending another and beginning it."""
        passage = self._passage
        if passage and passage.kind == kind and (kind == "thinking" or passage.extra == extra):
            passage.extra |= extra
            return passage, []
        ended = self._close()
        self._passage = passage = _Passage(self._new_index(), kind, extra)
        return passage, [*ended, BlockStart(passage.index, kind)]

    def _close(self) -> list[StreamEvent]:
        passage, self._passage = self._passage, None
        if passage is None:
            return []
        self._blocks[passage.index] = passage.block()
        return [BlockEnd(passage.index, self._blocks[passage.index])]

    def _whole(self, block: ContentBlock) -> list[StreamEvent]:
        ended, index = self._close(), self._new_index()
        self._blocks[index] = block
        return [*ended, BlockStart(index, "unknown"), BlockEnd(index, block)]

    def _call(self, fragment: dict[str, object]) -> list[StreamEvent]:
        call = self._calls.open_call(fragment)
        events: list[StreamEvent] = []
        if call is None:
            index = self._new_index()
            events = [*self._close(), BlockStart(index, "tool_use")]
            call = self._calls.begin(index, fragment)
        piece = call.add(fragment)
        return [*events, BlockDelta(call.index, "tool_input", piece)] if piece else events

    def _new_index(self) -> int:
        self._next += 1
        return self._next - 1

    def _add_extra(self, delta: dict[str, object]) -> None:
        known = ("role", "content", "refusal", "tool_calls", "reasoning_details")
        grow(self.extra, without(delta, *known, "reasoning_content", "reasoning"))


def grow(older: dict[str, object], newer: Mapping[str, object]) -> None:
    """Add the fields of one more piece: a list goes on, anything else is replaced."""
    for name, value in newer.items():
        known = older.get(name)
        if isinstance(known, list) and isinstance(value, list):
            known.extend(value)
        else:
            older[name] = list(value) if isinstance(value, list) else value


_DONE = "[DONE]"
_STOP_REASONS = {
    "stop": StopReason.END_TURN,
    "tool_calls": StopReason.END_TURN,  # where no call came; see _stop_reason
    "function_call": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    "model_length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.CONTENT_FILTER,
}


class OpenAIDecoder:
    """Feed the events of one reply, then say that they have ended."""

    def __init__(self, provider: str = "openai", *, counts_cache_apart: bool = False) -> None:
        """Begin a reply of the provider of this name.

        Args:
            provider: the name, for the message and for errors.
            counts_cache_apart: whether the model's `prompt_tokens` leave out cached ones.
        """
        self._provider = provider
        self._counts_cache_apart = counts_cache_apart
        self._start: StreamStart | None = None
        self._reply = Reply()
        self._finish: str | None = None
        self._ends_with_usage = False  # whether token counts were the last that came
        self._usage: dict[str, object] = {}
        self._logprobs: dict[str, object] = {}
        self._extra: dict[str, object] = {}

    def feed(self, event: SSEEvent) -> Iterable[StreamEvent]:
        """Translate one event; what is unknown becomes a notice.

        Raises:
            ModelError: the provider reports an error, or the event can't be read.
        """
        if event.data.strip() == _DONE:
            if self._finish is None and not self._ends_with_usage:
                raise incomplete_reply(self._provider)
            return self._end()
        data = event_of(event.data, self._provider)
        if data.get("error") or event.name == "error" or data.get("object") == "error":
            raise error_in_band(self._provider, data)
        if "choices" not in data and "usage" not in data:
            return [Notice(event.name or text(data.get("object")) or "unknown")]
        return self._chunk(data)

    def whole(self, value: object) -> Iterable[StreamEvent]:
        """Translate a reply that came in one piece, though a stream was asked for.

        Raises:
            ModelError: the provider reports an error, or the value is not a reply.
        """
        data = mapping(value)
        if data.get("error") or data.get("object") == "error":
            raise error_in_band(self._provider, data)
        choices = list(map(mapping, items(data.get("choices"))))
        if not any("message" in choice for choice in choices):
            raise not_a_reply(self._provider)
        self._chunk(data | {"choices": list(map(_as_one_delta, choices))})
        self._end()
        return events_of(self._message())

    def close(self) -> Iterable[StreamEvent]:
        """End the reply: no more events come.

        Raises:
            ModelStreamError: the stream ended before the reply was complete.
        """
        if self._finish:
            return self._end()
        raise incomplete_reply(self._provider)

    def _chunk(self, data: dict[str, object]) -> list[StreamEvent]:
        known = ("id", "object", "created", "model", "choices", "usage", "x_groq", "obfuscation")
        self._extra |= without(data, *known)
        events = self._begin(data)
        count = len(events)
        for choice in map(mapping, items(data.get("choices"))):
            if integer(choice.get("index")):
                events.append(Notice("choice", "only the first choice of a reply is read"))
            else:
                events.extend(self._choice(choice))
        counts = self._update_usage(data)
        self._ends_with_usage = bool(counts) or (self._ends_with_usage and len(events) == count)
        return [*events, *counts]

    def _choice(self, choice: dict[str, object]) -> list[StreamEvent]:
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            self._finish = reason or self._finish or ""
        logprobs = mapping(choice.get("logprobs"))
        if any(logprobs.values()):
            grow(self._logprobs, without(logprobs))
        if "delta" not in choice:  # a server that sends its plain answer as the one event
            choice = _as_one_delta(choice)
        return self._reply.add(mapping(choice.get("delta")))

    def _begin(self, data: dict[str, object]) -> list[StreamEvent]:
        """Begin with the first chunk that names the model; Azure sends an anonymous one before."""
        if self._start is not None or not data.get("choices"):
            return []
        self._start = StreamStart(text(data.get("model")), text(data.get("id")))
        return [self._start]

    def _update_usage(self, data: dict[str, object]) -> list[StreamEvent]:
        report = mapping(data.get("usage")) or mapping(mapping(data.get("x_groq")).get("usage"))
        if not report:
            return []
        self._usage = latest(self._usage, report)
        return [UsageUpdate(self._read_usage())]

    def _read_usage(self) -> Usage:
        return _usage(self._usage, cache_apart=self._counts_cache_apart)

    def _end(self) -> list[StreamEvent]:
        is_cut = _STOP_REASONS.get(self._finish or "") is StopReason.MAX_TOKENS
        ends = self._reply.finish(is_cut=is_cut)
        return [*ends, StreamEnd(self._message())]

    def _message(self) -> Message:
        start = self._start or StreamStart()
        untyped: dict[str, object] = {"logprobs": self._logprobs, "usage": self._usage}
        return Message(
            "assistant",
            self._reply.blocks(),
            model=start.model,
            provider=self._provider,
            stop_reason=self._stop_reason(),
            native_stop_reason=self._finish or "",
            response_id=start.response_id,
            usage=self._read_usage() if self._usage else None,
            extra=self._extra | self._reply.extra | {k: v for k, v in untyped.items() if v},
        )

    def _stop_reason(self) -> StopReason:
        """Decide by what came: servers say `stop` with calls, and `tool_calls` without any."""
        reason = _STOP_REASONS.get(self._finish or "", StopReason.UNKNOWN)
        if self._reply.has_calls and reason in {StopReason.END_TURN, StopReason.UNKNOWN}:
            return StopReason.TOOL_USE
        if self._reply.is_refused and reason is StopReason.END_TURN:
            return StopReason.REFUSAL
        return reason


def _as_one_delta(choice: dict[str, object]) -> dict[str, object]:
    """Write a whole choice as a delta in which each call has a place of its own."""
    message = mapping(choice.get("message"))
    calls = [
        mapping(call) | {"index": i} for i, call in enumerate(items(message.get("tool_calls")))
    ]
    return choice | {"delta": message | {"tool_calls": calls}}


def _usage(report: dict[str, object], *, cache_apart: bool) -> Usage:
    """Read a report; the prompt's count includes the cached tokens, except on a few servers.

    Where it is not known that a server is one of them, a count smaller than theirs tells.
    """
    details = mapping(report.get("prompt_tokens_details"))
    read = _first(
        details.get("cached_tokens"),
        report.get("prompt_cache_hit_tokens"),
        report.get("cache_read_input_tokens"),
    )
    written = _first(details.get("cache_write_tokens"), report.get("cache_creation_input_tokens"))
    prompt = integer(report.get("prompt_tokens"))
    cached = (read or 0) + (written or 0)
    return Usage(
        prompt if prompt is None or cache_apart or cached > prompt else prompt - cached,
        integer(report.get("completion_tokens")),
        read,
        written,
        integer(mapping(report.get("completion_tokens_details")).get("reasoning_tokens")),
    )


def _first(*values: object) -> int | None:
    return next((number for number in map(integer, values) if number is not None), None)
