"""Replies of the Gemini API: server-sent events in, stream events out.

Each event is a response with a few parts more. Unsigned text grows from part to part; a part with a
signature is a block of its own, so that the signature goes back with that part. The reply ends with
the stream, and is complete if a reason for its end has come before.

Source: https://ai.google.dev/api/generate-content
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from greenroom import core
from greenroom.core._internal import serde
from greenroom.llm.failure import error_in_band, failed_reply, incomplete_reply, not_a_reply
from greenroom.llm.gemini.calls import SIGNATURE, OpenCall
from greenroom.llm.json_fields import (
    EventReader,
    as_dict,
    as_int,
    as_list,
    as_text,
    merge_reports,
    without,
)
from greenroom.llm.portable_calls import CallIds
from greenroom.llm.sse import SSEEvent
from greenroom.llm.stream import (
    BlockDelta,
    BlockEnd,
    BlockStart,
    GrowingText,
    StreamEnd,
    StreamEvent,
    StreamStart,
    UsageUpdate,
)

ASKED = "requested_model"
"""The field of `Message.extra` with the model that was asked for, if another name answered."""

_FILTERED = (
    "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "ESCALATION", "PUP_LIMITED_DISABLED",
    "MODEL_ARMOR",
)  # fmt: skip
_STOP_REASONS = {
    "STOP": core.StopReason.END_TURN,
    "MAX_TOKENS": core.StopReason.MAX_TOKENS,
    "CONTINUATION": core.StopReason.MAX_TOKENS,  # of one request
    "MALFORMED_FUNCTION_CALL": core.StopReason.MALFORMED_CALL,
    "UNEXPECTED_TOOL_CALL": core.StopReason.MALFORMED_CALL,
    **dict.fromkeys(_FILTERED, core.StopReason.CONTENT_FILTER),
}
_NUMBERED = (
    "", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT",
    "SPII", "MALFORMED_FUNCTION_CALL", "MODEL_ARMOR", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION", "IMAGE_OTHER", "UNEXPECTED_TOOL_CALL", "NO_IMAGE",
)  # fmt: skip
"""The reasons by their numbers, which Vertex AI sends to clients that ask for numbers."""

_Kind = Literal["text", "thinking"]
_TYPED = ("modelVersion", "responseId")
_GROWING = {"citationMetadata", "logprobsResult"}  # each response has only what is new


class GeminiDecoder:
    """Translates the responses of one reply: `feed` each of them, then `close`.

    Of several candidates, the first one counts.
    """

    reads_lists = True

    def __init__(self, provider: str = "google", model: str = "") -> None:
        """Begin a reply of the provider of this name, of which this model was requested."""
        self._provider = provider
        self._model = model
        self._reader = EventReader(provider)
        self._started = False
        self._head: dict[str, object] = {}  # the fields of the responses, the last value of each
        self._details: dict[str, object] = {}  # and those of the candidate
        self._usage: dict[str, object] = {}
        self._reason = ""  # why it ended
        self._block_reason = ""  # why the prompt was refused
        self._blocks: dict[int, core.ContentBlock] = {}
        self._count = 0  # of blocks, the open ones included
        self._open_kind: _Kind | None = None  # of the text that may grow
        self._text = GrowingText()
        self._call: OpenCall | None = None
        self._ids = CallIds()

    def feed(self, event: SSEEvent) -> Iterable[StreamEvent]:
        """Translate one event.

        Raises:
            ModelError: the provider reports an error, or the event can't be read.
        """
        if event.data == "[DONE]":
            return []
        return list(self._add(self._reader.read(event.data)))

    def whole(self, value: object) -> Iterable[StreamEvent]:
        """Translate a reply that came in one piece: a response, or a list of them.

        Raises:
            ModelError: the provider reports an error, or the value is not a reply.
        """
        responses = list(map(as_dict, as_list(value) or [value]))
        if not any({"candidates", "promptFeedback", "error"} & each.keys() for each in responses):
            raise not_a_reply(self._provider)
        for response in responses:
            yield from self._add(response)
        yield from self._end() if isinstance(value, dict) else self.close()

    def close(self) -> Iterable[StreamEvent]:
        """End the reply: no more events come.

        Raises:
            ModelStreamError: there was no reason for its end, so it is not complete.
        """
        if not self._reason and not self._block_reason:
            raise incomplete_reply(self._provider)
        return self._end()

    def _add(self, response: dict[str, object]) -> Iterator[StreamEvent]:
        if response.get("error"):
            raise error_in_band(self._provider, response)
        self._head = merge_reports(self._head, without(response, "candidates", "usageMetadata"))
        if response and not self._started:
            self._started = True
            model = as_text(response.get("modelVersion"))
            reply = as_text(response.get("responseId"))
            yield StreamStart(model, reply, extra=self._note_asked(model))
        feedback = as_dict(response.get("promptFeedback"))
        self._block_reason = as_text(feedback.get("blockReason")) or self._block_reason
        candidates = map(as_dict, as_list(response.get("candidates")))
        if first := next((each for each in candidates if not each.get("index")), None):
            yield from self._add_candidate(first)
        if report := as_dict(response.get("usageMetadata")):
            self._usage = merge_reports(self._usage, report)
            yield UsageUpdate(read_usage(self._usage))

    def _note_asked(self, model: str) -> dict[str, object]:
        """Return what says which model was asked for, if another name answered."""
        return {ASKED: self._model} if self._model not in ("", model) else {}

    def _add_candidate(self, candidate: dict[str, object]) -> Iterator[StreamEvent]:
        for part in map(as_dict, as_list(as_dict(candidate.get("content")).get("parts"))):
            yield from self._add_part(part)
        self._reason = _name_reason(candidate.get("finishReason")) or self._reason
        for name, value in without(candidate, "content", "finishReason", "index").items():
            grows = name in _GROWING
            self._details[name] = _merge(self._details.get(name), value, grows=grows)

    def _add_part(self, part: dict[str, object]) -> Iterator[StreamEvent]:
        if isinstance(part.get("functionCall"), dict):
            yield from self._close_text()
            yield from self._add_call(part)
        elif isinstance(part.get("text"), str):
            yield from self._add_text(part)
        elif part:
            yield from self._close_text()
            yield from self._add_block(next(iter(part)), core.UnknownBlock(part))

    def _add_text(self, part: dict[str, object]) -> Iterator[StreamEvent]:
        text, extra = as_text(part.get("text")), without(part, "text", "thought")
        kind: _Kind = "thinking" if part.get("thought") else "text"
        if extra or (text and kind != self._open_kind):
            yield from self._close_text()
        if extra:
            yield from self._add_block(kind, _text_block(kind, text, extra))
        elif text:
            if not self._open_kind:
                self._open_kind, self._text = kind, GrowingText()
                self._count += 1
                yield BlockStart(self._count - 1, kind)
            self._text.write(text)
            yield BlockDelta(self._count - 1, kind, text)

    def _close_text(self) -> Iterator[StreamEvent]:
        if kind := self._open_kind:
            self._open_kind = None
            index, block = self._count - 1, _text_block(kind, self._text.getvalue(), {})
            self._blocks[index] = block
            yield BlockEnd(index, block)

    def _add_block(self, kind: str, block: core.ContentBlock) -> Iterator[StreamEvent]:
        index, self._count = self._count, self._count + 1
        self._blocks[index] = block
        yield BlockStart(index, kind)
        match block:
            case core.TextBlock(text) if text:
                yield BlockDelta(index, "text", text)
            case core.ThinkingBlock(text) if text:
                yield BlockDelta(index, "thinking", text)
            case _:
                pass
        yield BlockEnd(index, block)

    def _add_call(self, part: dict[str, object]) -> Iterator[StreamEvent]:
        fields = as_dict(part.get("functionCall"))
        if self._call is not None and not self._call.continues_with(fields):
            yield from self._close_call()
        if self._call is None:
            if not fields and SIGNATURE not in part:
                return
            self._call, self._count = OpenCall(self._count, fields), self._count + 1
            yield BlockStart(self._call.index, "tool_use")
        self._call.add(part)
        if not fields.get("willContinue"):
            yield from self._close_call()

    def _close_call(
        self, reason: core.StopReason = core.StopReason.TOOL_USE
    ) -> Iterator[StreamEvent]:
        if call := self._call:
            self._call = None
            block = call.finish(self._ids, reason)
            self._blocks[call.index] = block
            arguments = block.raw_input or serde.dumps(block.input).decode()
            yield BlockDelta(call.index, "tool_input", arguments)
            yield BlockEnd(call.index, block)

    def _end(self) -> Iterator[StreamEvent]:
        native = self._reason or self._block_reason
        reason = _STOP_REASONS.get(native, core.StopReason.UNKNOWN)
        if self._block_reason and not self._reason:
            reason = core.StopReason.CONTENT_FILTER
        elif native not in _STOP_REASONS and (error := failed_reply(self._provider, native)):
            raise error
        yield from self._close_text()
        yield from self._close_call(reason)
        yield StreamEnd(self._message(native, reason))

    def _message(self, native: str, reason: core.StopReason) -> core.Message:
        blocks = [block for _, block in sorted(self._blocks.items())]
        has_calls = any(isinstance(block, core.ToolUseBlock) for block in blocks)
        if has_calls and reason is core.StopReason.END_TURN:
            reason = core.StopReason.TOOL_USE
        model = as_text(self._head.get("modelVersion"))
        asked = self._note_asked(model)
        usage = {"usage": self._usage} if self._usage else {}
        return core.Message(
            "assistant",
            tuple(blocks),
            model=model,
            provider=self._provider,
            stop_reason=reason,
            native_stop_reason=native,
            response_id=as_text(self._head.get("responseId")),
            usage=read_usage(self._usage) if self._usage else None,
            extra={**without(self._head, *_TYPED), **self._details, **asked, **usage},
        )


def _text_block(kind: _Kind, text: str, extra: dict[str, object]) -> core.ContentBlock:
    if kind == "text":
        return core.TextBlock(text, extra)
    return core.ThinkingBlock(text, as_text(extra.get(SIGNATURE)), without(extra, SIGNATURE))


def _name_reason(reason: object) -> str:
    """Return the name of a reason, even of one that is a number; empty if it is none."""
    number = as_int(reason)
    if number is not None:
        return _NUMBERED[number] if 0 <= number < len(_NUMBERED) else str(number)
    name = as_text(reason)
    return "" if name == "FINISH_REASON_UNSPECIFIED" else name


def _merge(older: object, newer: object, *, grows: bool) -> object:
    """Merge the details of two responses: of each field the last value, or all of a list."""
    if not isinstance(older, dict) or not isinstance(newer, dict):
        return newer
    merged = merge_reports(older, newer)
    for name in older.keys() & newer.keys() if grows else ():
        one, other = older[name], newer[name]
        if isinstance(one, list) and isinstance(other, list):
            merged[name] = [*one, *other]
    return merged


def read_usage(report: Mapping[str, object]) -> core.Usage:
    """Read a report; its prompt includes what the cache served, and its thoughts count apart.

    The tokens that the vendor's own tools read, `toolUsePromptTokenCount`, were not sent, and are
    in the report alone.
    """
    prompt = as_int(report.get("promptTokenCount"))
    cached = as_int(report.get("cachedContentTokenCount"))
    thoughts = as_int(report.get("thoughtsTokenCount"))
    written = as_int(report.get("candidatesTokenCount"))
    if thoughts is not None:
        written = (written or 0) + thoughts
    return core.Usage(
        prompt if prompt is None or (cached or 0) > prompt else prompt - (cached or 0),
        written,
        cached,
        reasoning_tokens=thoughts,
    )
