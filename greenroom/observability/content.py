"""What was said, in the form of OpenTelemetry's GenAI conventions (see `semconv`)."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from greenroom.core import (
    AgentContext,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    Message,
    ModelRequest,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
)
from greenroom.core._internal import conceal, freeze
from greenroom.observability import semconv as names

Part: TypeAlias = dict[str, object]
_MOST_KEPT = 4_096  # messages that were written once


class Content:
    """Writes messages, and keeps how each was written, since a request holds all earlier ones.

    Args:
        redact: takes secrets out of what is written.
    """

    def __init__(self, redact: Callable[[object], object]) -> None:
        self._redact = redact
        self._kept: dict[tuple[str, str], tuple[Message, Part]] = {}

    def clean(self, value: object, agent: AgentContext | None) -> object:
        """Return a value without credentials and secrets."""
        if agent is not None:
            value = conceal(value, agent)
        return self._redact(value)

    def write_messages(self, messages: Iterable[Message], agent: AgentContext) -> list[Part]:
        """Write the messages of a request."""
        return [self._write(each, agent) for each in messages]

    def write_reply(self, reply: Message, agent: AgentContext) -> list[Part]:
        """Write a reply, with the reason why it ended."""
        finish = names.FINISHES.get(
            str(reply.stop_reason), "error" if not reply.stop_reason else "stop"
        )
        return [{**self._write(reply, agent), "finish_reason": finish}]

    def write_system(self, system: str | Sequence[TextBlock], agent: AgentContext) -> list[Part]:
        """Write the instructions of a request."""
        texts = [system] if isinstance(system, str) else [each.text for each in system]
        return [{"type": "text", "content": self.clean(each, agent)} for each in texts if each]

    def write_tools(self, tools: Iterable[ToolDefinition]) -> list[Part]:
        """Write the tools of a request."""
        return [
            {
                "type": "function",
                "name": each.name,
                "description": each.description,
                "parameters": each.parameters,
            }
            for each in tools
        ]

    def _write(self, message: Message, agent: AgentContext) -> Part:
        key = (agent.session_id, message.id)
        kept = self._kept.get(key)
        if kept is not None and kept[0] is message:
            return kept[1]
        parts = [_write_block(each) for each in message.content]
        is_results = message.role == "user" and bool(message.tool_results)
        cleaned = self.clean(parts, agent)
        # Frozen here, so that each request which holds the message has the same object.
        written = freeze({"role": "tool" if is_results else message.role, "parts": cleaned})
        if message.id:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[key] = message, written
        return written


def _write_block(block: ContentBlock) -> Part:
    match block:
        case TextBlock():
            return {"type": "text", "content": block.text}
        case ThinkingBlock():
            return {"type": "reasoning", "content": block.thinking}
        case RedactedThinkingBlock():
            return {"type": "reasoning", "content": ""}
        case ToolUseBlock():
            return {
                "type": "tool_call",
                "id": block.id,
                "name": block.name,
                "arguments": block.input,
            }
        case ToolResultBlock():
            return {
                "type": "tool_call_response",
                "id": block.tool_use_id,
                "response": [_write_block(each) for each in block.content],
            }
        case ImageBlock() | DocumentBlock():
            return _write_media(block)
        case _:
            return {"type": "unknown", **block.raw}


def _write_media(block: ImageBlock | DocumentBlock) -> Part:
    """Write a picture or a document; its bytes stay where they are, and only their size is told."""
    kind = "image" if isinstance(block, ImageBlock) else "document"
    if block.url:
        return {"type": "uri", "modality": kind, "mime_type": block.media_type, "uri": block.url}
    size = len(block.data) * 3 // 4
    return {"type": "media", "modality": kind, "mime_type": block.media_type, "bytes": size}


def list_settings(request: ModelRequest) -> dict[str, object]:
    """Return what is set about a request, by the names of the conventions."""
    given: dict[str, object] = {
        names.MAX_TOKENS: request.max_tokens,
        names.TEMPERATURE: request.temperature,
        names.TOP_P: request.top_p,
        names.SEED: request.seed,
        names.STOP_SEQUENCES: list(request.stop_sequences) or None,
        names.OUTPUT_TYPE: "json" if request.output else None,
    }
    return {name: value for name, value in given.items() if value is not None}


def list_usage(usage: Usage) -> dict[str, object]:
    """Return the tokens that were reported, by the names of the conventions."""
    counted: dict[str, object] = {
        names.INPUT_TOKENS: usage.input_tokens,
        names.OUTPUT_TOKENS: usage.output_tokens,
        names.CACHE_READ_TOKENS: usage.cache_read_tokens,
        names.CACHE_WRITE_TOKENS: usage.cache_write_tokens,
        names.REASONING_TOKENS: usage.reasoning_tokens,
        names.COST: usage.cost,
    }
    return {name: value for name, value in counted.items() if value is not None}
