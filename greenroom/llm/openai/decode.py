"""Replies of Chat Completions: server-sent events in, stream events out.

A reply is complete with its `finish_reason`, and ends with `[DONE]`, or with the stream if a server
leaves that out. Chunks after the `finish_reason` still count, since they have the token counts. A
few servers send no reason, or an empty one; then `[DONE]` alone does not prove that the reply was
not cut off, and either the empty reason or token counts at the very end must do so.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import DecodeError, Struct

from greenroom import core
from greenroom.core._internal import serde
from greenroom.llm.failure import error_in_band, failed_reply, incomplete_reply, not_a_reply
from greenroom.llm.json_fields import (
    EventReader,
    as_dict,
    as_int,
    as_list,
    as_text,
    merge_reports,
    without,
)
from greenroom.llm.openai.calls import StreamedCalls
from greenroom.llm.openai.reasoning import CONTENT_FIELD, TaggedText, find_reasoning, merge_details
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


class _LoneText(Struct, forbid_unknown_fields=True):
    content: str
    role: str | None = None
    refusal: None = None
    tool_calls: None = None
    reasoning_content: None = None
    reasoning: None = None


class _LoneChoice(Struct, forbid_unknown_fields=True):
    delta: _LoneText
    index: Literal[0] = 0
    logprobs: None = None
    finish_reason: None = None


class _LoneChunk(Struct, forbid_unknown_fields=True):
    """An event that is nothing but a piece of text, as nearly all are, and its usual fields."""

    choices: tuple[_LoneChoice]
    id: str | None = None
    object: Literal["chat.completion.chunk"] | None = None
    created: int | None = None
    model: str | None = None
    service_tier: str | None = None
    system_fingerprint: str | None = None
    usage: None = None
    obfuscation: str | None = None


_decode_lone = serde.make_decoder(_LoneChunk).decode

_READ = frozenset({"id", "object", "created", "model", "choices", "usage", "x_groq", "obfuscation"})
"""The fields of an event that are read here; the others are kept as they are."""

_REASONING = frozenset({"reasoning_details", "reasoning_content", "reasoning"})
_READ_OF_DELTA = frozenset({"role", "content", "refusal", "tool_calls"}) | _REASONING
"""The same, of the delta of a choice."""


class _Passage:
    """A run of text or of reasoning, without anything else in between."""

    def __init__(self, index: int, kind: str, extra: dict[str, object]) -> None:
        self.index = index
        self.kind = kind
        self.extra = extra
        self.details: list[object] = []
        self.text = GrowingText()  # holds a million pieces in little more than their text

    def block(self) -> core.ContentBlock:
        whole = self.text.getvalue()
        if self.kind == "text":
            return core.TextBlock(whole, self.extra)
        details = merge_details(self.details)
        extra = self.extra | ({"reasoning_details": details} if details else {})
        return core.ThinkingBlock(whole, extra=extra)


class _ReplyBuilder:
    """The blocks so far: each change from text to reasoning or back begins a new one.

    Calls stay open until the reply ends, since their fragments may be interleaved.
    """

    def __init__(self, provider: str, tags: TaggedText | None) -> None:
        self._tags = tags
        self.is_refused = False
        self.extra: dict[str, object] = {}  # fields of the message that have no typed place
        self._passage: _Passage | None = None
        self._calls = StreamedCalls(provider)
        self._blocks: dict[int, core.ContentBlock] = {}
        self._next = 0

    def add(self, delta: dict[str, object]) -> list[StreamEvent]:
        """Add one delta and return its events."""
        events: list[StreamEvent] = []
        if not _REASONING.isdisjoint(delta):
            field, piece = find_reasoning(delta)
            details = as_list(delta.get("reasoning_details"))
            if piece or details:
                events += self._think(piece, {"field": field} if field else {}, details)
        events += self._content(delta.get("content"))
        if refusal := as_text(delta.get("refusal")):
            self.is_refused = True
            events += self._say(refusal, {"refusal": True})
        if calls := as_list(delta.get("tool_calls")):
            for fragment in _number(list(map(as_dict, calls))):
                events += self._call(fragment)
        if not _READ_OF_DELTA.issuperset(delta):
            _extend(self.extra, without(delta, *_READ_OF_DELTA))
        return events

    def add_lone(self, piece: str) -> BlockDelta | None:
        """Add a piece to a text that has begun; None if it does not simply continue one."""
        passage = self._passage
        if not piece or passage is None or passage.kind != "text" or passage.extra:
            return None
        if self._tags is not None and not self._tags.passes(piece):
            return None
        passage.text.write(piece)
        return BlockDelta(passage.index, "text", piece)

    def finish(self, reason: core.StopReason) -> list[StreamEvent]:
        """End every open block of a reply that ended for this reason."""
        events = self._finish_tags() + self._close()
        for index, call in self._calls.finish(reason):
            self._blocks[index] = call
            events.append(BlockEnd(index, call))
        return events

    def _finish_tags(self) -> list[StreamEvent]:
        pieces, calls = self._tags.finish() if self._tags else ([], [])
        events = self._tell(pieces)
        for call in calls:
            events += self._call(call)
        return events

    def blocks(self) -> tuple[core.ContentBlock, ...]:
        """Return the finished blocks, in the order in which they began."""
        return tuple(block for _, block in sorted(self._blocks.items()))

    @property
    def has_calls(self) -> bool:
        """Whether the reply asks for tools."""
        return bool(self._calls)

    def _content(self, content: object) -> list[StreamEvent]:
        """Add a text, or a list of parts, as Mistral sends it.

        A few servers send the JSON that they were asked for as it is, not as a text.
        """
        if isinstance(content, str) and self._tags is None:  # nearly every delta
            return self._say(content, {}) if content else []
        if content is None:
            return []
        parts = list(map(as_dict, as_list(content)))
        if parts and all(as_text(part.get("type")) for part in parts):
            return [event for part in parts for event in self._part(part)]
        text = "" if content == [] else serde.to_text(content)
        return self._tell(self._tags.feed(text) if self._tags else [("text", text)])

    def _tell(self, pieces: Iterable[tuple[str, str]]) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        for kind, piece in pieces:
            if piece:
                is_text = kind == "text"
                events += self._say(piece, {}) if is_text else self._think(piece, {}, [])
        return events

    def _part(self, part: dict[str, object]) -> Iterable[StreamEvent]:
        match part["type"]:
            case "text":
                return self._say(as_text(part.get("text")), {})
            case "thinking":
                pieces = map(as_dict, as_list(part.get("thinking")))
                thoughts = (as_text(piece.get("text")) for piece in pieces)
                return self._think("".join(thoughts), {"field": CONTENT_FIELD}, [])
            case _:
                return self._whole(core.UnknownBlock(part))

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
        """Return the passage of this kind; if it is new, with the events that begin it."""
        passage = self._passage
        if passage and passage.kind == kind and (kind == "thinking" or passage.extra == extra):
            passage.extra |= extra
            return passage, []
        ends = self._close()
        self._passage = passage = _Passage(self._new_index(), kind, extra)
        return passage, [*ends, BlockStart(passage.index, kind)]

    def _close(self) -> list[StreamEvent]:
        passage, self._passage = self._passage, None
        if passage is None:
            return []
        self._blocks[passage.index] = passage.block()
        return [BlockEnd(passage.index, self._blocks[passage.index])]

    def _whole(self, block: core.ContentBlock) -> list[StreamEvent]:
        ends, index = self._close(), self._new_index()
        self._blocks[index] = block
        return [*ends, BlockStart(index, "unknown"), BlockEnd(index, block)]

    def _call(self, fragment: dict[str, object]) -> list[StreamEvent]:
        call, is_new, piece = self._calls.add(fragment, self._next)
        events: list[StreamEvent] = []
        if is_new:
            events = [*self._close(), BlockStart(self._new_index(), "tool_use")]
        return [*events, BlockDelta(call.index, "tool_input", piece)] if piece else events

    def _new_index(self) -> int:
        self._next += 1
        return self._next - 1


def _number(fragments: list[dict[str, object]]) -> list[dict[str, object]]:
    """Give several fragments of one delta their places as indexes, if they have none."""
    if len(fragments) < 2 or any("index" in each for each in fragments):
        return fragments
    return [each | {"index": place} for place, each in enumerate(fragments)]


def _extend(older: dict[str, object], newer: Mapping[str, object]) -> None:
    """Add the fields of one more piece: lists are joined, anything else is replaced."""
    for name, value in newer.items():
        known = older.get(name)
        if isinstance(known, list) and isinstance(value, list):
            known.extend(value)
        else:
            older[name] = list(value) if isinstance(value, list) else value


_DONE = "[DONE]"
_STOP_REASONS = {
    "stop": core.StopReason.END_TURN,
    "end_turn": core.StopReason.END_TURN,
    "eos": core.StopReason.END_TURN,
    "tool_calls": core.StopReason.END_TURN,  # without any call; see _stop_reason
    "function_call": core.StopReason.END_TURN,
    "length": core.StopReason.MAX_TOKENS,
    "max_tokens": core.StopReason.MAX_TOKENS,
    "max_output_tokens": core.StopReason.MAX_TOKENS,
    "model_length": core.StopReason.MAX_TOKENS,
    "model_context_window_exceeded": core.StopReason.MAX_TOKENS,
    "content_filter": core.StopReason.CONTENT_FILTER,
    "sensitive": core.StopReason.CONTENT_FILTER,
    "safety": core.StopReason.CONTENT_FILTER,
}
_UNKNOWN = core.StopReason.UNKNOWN  # names of their own: members of an enum are slow to get on 3.11
_TOOL_USE = core.StopReason.TOOL_USE
_BEFORE_CALLS = frozenset({core.StopReason.END_TURN, _UNKNOWN})
"""Reasons of replies with calls, with servers that do not say so."""


class OpenAIDecoder:
    """Translates the events of one reply: `feed` each of them, then `close`."""

    def __init__(
        self,
        provider: str = "openai",
        *,
        counts_cache_apart: bool = False,
        has_tags: bool = False,
    ) -> None:
        """Begin a reply of the provider of this name.

        Args:
            provider: the name, for the message and for errors.
            counts_cache_apart: whether the model's `prompt_tokens` exclude cached tokens.
            has_tags: whether thoughts and calls may come as tags in the text.
        """
        self._provider = provider
        self._reader = EventReader(provider)
        self._counts_cache_apart = counts_cache_apart
        self._start: StreamStart | None = None
        self._reply = _ReplyBuilder(provider, TaggedText() if has_tags else None)
        self._finish: str | None = None
        self._error: object = None  # what a choice says about its failure
        self._ends_with_usage = False  # whether nothing came after the token counts
        self._usage: dict[str, object] = {}
        self._counted: core.Usage | None = None  # the same, as we count
        self._logprobs: dict[str, object] = {}
        self._extra: dict[str, object] = {}

    def feed(self, event: SSEEvent) -> Iterable[StreamEvent]:
        """Translate one event; one of an unknown kind becomes a notice.

        Raises:
            ModelError: the provider reports an error, or the event can't be read.
        """
        if (delta := self._read_lone(event)) is not None:
            return (delta,)
        if event.data.strip() == _DONE:
            if not (self._has_ended or self._ends_with_usage):
                raise incomplete_reply(self._provider)
            return self._end()
        data = self._reader.read(event.data)
        if data.get("error") or event.name == "error" or data.get("object") == "error":
            raise error_in_band(self._provider, data)
        if "choices" not in data and "usage" not in data:
            return [Notice(event.name or as_text(data.get("object")) or "unknown")]
        return self._chunk(data)

    def _read_lone(self, event: SSEEvent) -> BlockDelta | None:
        """Read an event that is nothing but a piece of text; None if it is anything else."""
        is_lone = '"content"' in event.data and not event.name  # it may be
        if not is_lone or self._reader.halves or self._start is None:
            return None
        try:
            chunk = _decode_lone(event.data)
        except DecodeError:
            return None
        known = self._extra.get
        if chunk.service_tier not in (None, known("service_tier")):
            return None
        if chunk.system_fingerprint not in (None, known("system_fingerprint")):
            return None
        delta = self._reply.add_lone(chunk.choices[0].delta.content)
        if delta is not None:
            self._ends_with_usage = False
        return delta

    def whole(self, value: object) -> Iterable[StreamEvent]:
        """Translate a reply that came in one piece, although a stream was requested.

        Raises:
            ModelError: the provider reports an error, or the value is not a reply.
        """
        data = as_dict(value)
        if data.get("error") or data.get("object") == "error":
            raise error_in_band(self._provider, data)
        choices = list(map(as_dict, as_list(data.get("choices"))))
        if not any("message" in choice for choice in choices):
            raise not_a_reply(self._provider)
        self._chunk(data | {"choices": list(map(_as_one_delta, choices))})
        self._end()
        return events_of(self._message())

    def close(self) -> Iterable[StreamEvent]:
        """End the reply: no more events come.

        Raises:
            ModelStreamError: the stream ended before the reply was complete, or the reply failed.
        """
        if self._finish or self._error:
            return self._end()
        raise incomplete_reply(self._provider)

    def _chunk(self, data: dict[str, object]) -> list[StreamEvent]:
        if not _READ.issuperset(data):
            self._extra |= without(data, *_READ)
        events = [] if self._start is not None else self._begin(data)
        count = len(events)
        for choice in map(as_dict, as_list(data.get("choices"))):
            if as_int(choice.get("index")):
                events.append(Notice("choice", "only the first choice of a reply is read"))
            else:
                events.extend(self._choice(choice))
        counts = self._update_usage(data) if "usage" in data or "x_groq" in data else []
        self._ends_with_usage = bool(counts) or (self._ends_with_usage and len(events) == count)
        return [*events, *counts]

    def _choice(self, choice: dict[str, object]) -> list[StreamEvent]:
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            self._finish = reason or self._finish or ""
        self._error = choice.get("error") or self._error
        logprobs = as_dict(choice.get("logprobs"))
        if any(logprobs.values()):
            _extend(self._logprobs, without(logprobs))
        if "delta" not in choice:  # a server that sends its whole answer as the only event
            choice = _as_one_delta(choice)
        return self._reply.add(as_dict(choice.get("delta")))

    def _begin(self, data: dict[str, object]) -> list[StreamEvent]:
        """Begin with the first chunk that has choices; Azure sends one without them before."""
        if not data.get("choices"):
            return []
        self._start = StreamStart(as_text(data.get("model")), as_text(data.get("id")))
        return [self._start]

    def _update_usage(self, data: dict[str, object]) -> list[StreamEvent]:
        report = as_dict(data.get("usage")) or as_dict(as_dict(data.get("x_groq")).get("usage"))
        if not report:
            return []
        self._usage = merge_reports(self._usage, report)
        self._counted = _usage(self._usage, cache_apart=self._counts_cache_apart)
        return [UsageUpdate(self._counted)]

    @property
    def _has_ended(self) -> bool:
        return self._finish is not None or bool(self._error)

    def _end(self) -> list[StreamEvent]:
        if error := failed_reply(self._provider, self._finish or "", self._error):
            raise error
        ends = self._reply.finish(self._reason)
        return [*ends, StreamEnd(self._message())]

    def _message(self) -> core.Message:
        start = self._start or StreamStart()
        extra: dict[str, object] = {"logprobs": self._logprobs, "usage": self._usage}
        return core.Message(
            "assistant",
            self._reply.blocks(),
            model=start.model,
            provider=self._provider,
            stop_reason=self._stop_reason(),
            native_stop_reason=self._finish or "",
            response_id=start.response_id,
            usage=self._counted,
            extra=self._extra | self._reply.extra | {k: v for k, v in extra.items() if v},
        )

    @property
    def _reason(self) -> core.StopReason:
        return _STOP_REASONS.get((self._finish or "").lower(), _UNKNOWN)

    def _stop_reason(self) -> core.StopReason:
        """Check the reason against the reply: servers say `stop` with calls, and the reverse."""
        reason = self._reason
        if self._reply.has_calls and reason in _BEFORE_CALLS:
            return _TOOL_USE
        if self._reply.is_refused and reason is core.StopReason.END_TURN:
            return core.StopReason.REFUSAL
        return reason


def _as_one_delta(choice: dict[str, object]) -> dict[str, object]:
    """Return a whole choice as a delta in which each call has its own index."""
    message = as_dict(choice.get("message"))
    sent = map(as_dict, as_list(message.get("tool_calls")))
    calls = [call | {"index": index} for index, call in enumerate(sent)]
    return choice | {"delta": message | {"tool_calls": calls}}


def _usage(report: dict[str, object], *, cache_apart: bool) -> core.Usage:
    """Read a report; the prompt's tokens include the cached ones, except on a few servers.

    An unknown server is one of those if the prompt has fewer tokens than were cached.
    """
    details = as_dict(report.get("prompt_tokens_details"))
    read = _first(
        details.get("cached_tokens"),
        report.get("prompt_cache_hit_tokens"),
        report.get("cache_read_input_tokens"),
    )
    written = _first(details.get("cache_write_tokens"), report.get("cache_creation_input_tokens"))
    prompt = as_int(report.get("prompt_tokens"))
    cached = (read or 0) + (written or 0)
    return core.Usage(
        prompt if prompt is None or cache_apart or cached > prompt else prompt - cached,
        as_int(report.get("completion_tokens")),
        read,
        written,
        as_int(as_dict(report.get("completion_tokens_details")).get("reasoning_tokens")),
    )


def _first(*values: object) -> int | None:
    return next((number for number in map(as_int, values) if number is not None), None)
