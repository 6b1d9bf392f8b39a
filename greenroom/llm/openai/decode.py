"""Replies of Chat Completions: server-sent events in, stream events out.

`[DONE]` ends a reply; a server that leaves it out ends the reply with the stream, provided that a
`finish_reason` came. What follows a `finish_reason` still counts: the token counts stand there.
"""

from collections.abc import Iterable

from greenroom.core import Message, ModelStreamError, StopReason, Usage
from greenroom.llm.events import Notice, StreamEnd, StreamEvent, StreamStart, UsageUpdate
from greenroom.llm.failure import error_in_band
from greenroom.llm.fields import event_of, integer, items, latest, mapping, text, without
from greenroom.llm.openai.reply import Reply
from greenroom.llm.sse import SSEEvent

__all__ = ["OpenAIDecoder"]

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

    def __init__(self, provider: str = "openai") -> None:
        """Begin a reply of the provider of this name."""
        self._provider = provider
        self._start: StreamStart | None = None
        self._reply = Reply()
        self._finish = ""
        self._usage: dict[str, object] = {}
        self._extra: dict[str, object] = {}

    def feed(self, event: SSEEvent) -> Iterable[StreamEvent]:
        """Translate one event; what is unknown becomes a notice.

        Raises:
            ModelError: the provider reports an error, or the event can't be read.
        """
        if event.data.strip() == _DONE:
            return self._end()
        data = event_of(event.data, self._provider)
        if data.get("error") or event.name == "error" or data.get("object") == "error":
            raise error_in_band(self._provider, data)
        if "choices" not in data and "usage" not in data:
            return [Notice(event.name or text(data.get("object")) or "unknown")]
        return self._chunk(data)

    def close(self) -> Iterable[StreamEvent]:
        """Take note that no more events come.

        Raises:
            ModelStreamError: the stream ended before the reply was complete.
        """
        if self._finish:
            return self._end()
        raise ModelStreamError(
            f"{self._provider} ended the stream before the reply was complete",
            provider=self._provider,
            hint="try again",
        )

    def _chunk(self, data: dict[str, object]) -> list[StreamEvent]:
        known = ("id", "object", "created", "model", "choices", "usage", "x_groq", "obfuscation")
        self._extra = latest(self._extra, without(data, *known))
        events = self._begun(data)
        for choice in map(mapping, items(data.get("choices"))):
            if integer(choice.get("index")):
                events.append(Notice("choice", "only the first choice of a reply is read"))
            else:
                self._finish = text(choice.get("finish_reason")) or self._finish
                events.extend(self._reply.add(mapping(choice.get("delta"))))
        return [*events, *self._used(data)]

    def _begun(self, data: dict[str, object]) -> list[StreamEvent]:
        """Begin with the first chunk that names the model; Azure sends an anonymous one before."""
        if self._start is not None or not data.get("choices"):
            return []
        self._start = StreamStart(text(data.get("model")), text(data.get("id")))
        return [self._start]

    def _used(self, data: dict[str, object]) -> list[StreamEvent]:
        report = mapping(data.get("usage")) or mapping(mapping(data.get("x_groq")).get("usage"))
        if not report:
            return []
        self._usage = latest(self._usage, report)
        return [UsageUpdate(_usage(self._usage))]

    def _end(self) -> list[StreamEvent]:
        is_cut = _STOP_REASONS.get(self._finish) is StopReason.MAX_TOKENS
        ends = self._reply.finish(is_cut=is_cut)
        return [*ends, StreamEnd(self._message())]

    def _message(self) -> Message:
        start = self._start or StreamStart()
        return Message(
            "assistant",
            self._reply.blocks(),
            model=start.model,
            provider=self._provider,
            stop_reason=self._stop_reason(),
            native_stop_reason=self._finish,
            response_id=start.response_id,
            usage=_usage(self._usage) if self._usage else None,
            extra=self._extra | self._reply.extra | ({"usage": self._usage} if self._usage else {}),
        )

    def _stop_reason(self) -> StopReason:
        """Decide by what came: servers say `stop` with calls, and `tool_calls` without any."""
        reason = _STOP_REASONS.get(self._finish, StopReason.UNKNOWN)
        if self._reply.has_calls and reason in {StopReason.END_TURN, StopReason.UNKNOWN}:
            return StopReason.TOOL_USE
        if self._reply.is_refused and reason is StopReason.END_TURN:
            return StopReason.REFUSAL
        return reason


def _usage(report: dict[str, object]) -> Usage:
    """Read a report; the prompt's count includes the cached tokens, except on a few servers.

    There it is smaller than theirs, which is how they are told apart.
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
        prompt if prompt is None or cached > prompt else prompt - cached,
        integer(report.get("completion_tokens")),
        read,
        written,
        integer(mapping(report.get("completion_tokens_details")).get("reasoning_tokens")),
    )


def _first(*values: object) -> int | None:
    return next((number for number in map(integer, values) if number is not None), None)
