"""What was said, in the form of OpenTelemetry's GenAI conventions (see `semconv`)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias, cast

import msgspec

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
    ToolResult,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
)
from greenroom.core._internal import NamedTool, ToolChoice, cache_short, conceal, freeze
from greenroom.observability import semconv as names
from greenroom.observability.redactor import Redactor

Part: TypeAlias = dict[str, object]
ContentLevel: TypeAlias = Literal["none", "redacted", "full"]
"""What of the conversation may leave: nothing, what a redactor lets through, or all but secrets."""

LONGEST = 2_000  # characters of an error, and of a text of an event
_MOST_KEPT = 4_096  # messages of a session that were written once
_MAX_NAMES = 1_024


class Content:
    """Writes what may leave, and keeps how each message was, since a request holds earlier ones.

    Args:
        level: what of the conversation may leave.
        redact: takes secrets out of names, and at the level "redacted" out of all that is written.
    """

    def __init__(self, level: ContentLevel, redact: Redactor) -> None:
        self.shows = level != "none"
        self._redact = Redactor() if level == "full" else redact
        self.clean_name = cache_short(_MAX_NAMES)(redact)  # there are few, again and again
        self._kept: dict[str, dict[str, tuple[Message, Part]]] = {}

    def clean(self, value: object, agent: AgentContext | None) -> object:
        """Return a value without credentials and secrets."""
        if agent is not None:
            value = conceal(value, agent)
        return self._redact(value)

    def clean_text(self, text: str, agent: AgentContext | None) -> str:
        """Return the beginning of a text without credentials and secrets.

        It is cut off afterwards: half of a secret has no form.
        """
        return str(self.clean(text[: 4 * LONGEST], agent))[:LONGEST]

    def describe(self, text: str, kind: str, agent: AgentContext | None) -> str:
        """Return what is said about an error: all of it, or the name of its class."""
        return self.clean_text(text, agent) if self.shows else kind

    def select(
        self, facts: Mapping[str, object], agent: AgentContext | None, *, whole: bool = False
    ) -> dict[str, object]:
        """Return the facts that may leave: numbers always, texts if content may.

        Args:
            facts: the facts by name; a name may say that a text is secret.
            agent: whose they are.
            whole: whether what is not a text, such as a list, may leave as well, and texts as they
                are, not only their beginnings; what JSON lacks becomes a text.
        """
        plain: dict[str, object] = {
            k: v for k, v in facts.items() if isinstance(v, bool | int | float)
        }
        if not self.shows:
            return plain
        if whole:
            written = {name: _write_plain(value) for name, value in facts.items()}
            return cast("dict[str, object]", self.clean(written, agent))
        texts = {k: v[: 4 * LONGEST] for k, v in facts.items() if isinstance(v, str)}
        cleaned = cast("dict[str, str]", self.clean(texts, agent))
        return {**plain, **{name: text[:LONGEST] for name, text in cleaned.items()}}

    def forget(self, session_id: str) -> None:
        """Forget how the messages of a session were written."""
        self._kept.pop(session_id, None)

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
        session = self._kept.setdefault(agent.session_id, {})
        kept = session.get(message.id)
        if kept is not None and kept[0] is message:
            return kept[1]
        # Frozen here, so that each request which holds the message has the same object.
        written: Part = freeze(_write_message(message, lambda parts: self.clean(parts, agent)))
        if message.id:
            if len(session) >= _MOST_KEPT:
                session.pop(next(iter(session)))
            session[message.id] = message, written
        return written


def _write_plain(value: object) -> object:
    """Write any value with what JSON has, in which secrets are found by their names and forms."""
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_write_object)
    except Exception:  # noqa: BLE001 (it holds itself, or is code of the user's that fails)
        return f"({type(value).__name__})"


def _write_object(value: object) -> object:
    """Write a model of pydantic by its fields, whose names say what is secret; else as a text."""
    dump = getattr(type(value), "model_dump", None)
    return dump(value) if callable(dump) else str(value)


def write_message(message: Message) -> Part:
    """Write a message as it is in a trace, without secrets."""
    return _write_message(message, Redactor())


def _write_message(message: Message, clean: Callable[[object], object]) -> Part:
    is_results = message.role == "user" and bool(message.tool_results)
    parts = [_write_block(each) for each in message.content]
    named = {"name": clean(message.sender)} if message.sender else {}
    return {"role": "tool" if is_results else message.role, "parts": clean(parts), **named}


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


def read_message(written: Mapping[str, object]) -> Message:
    """Read a message out of a trace; pictures and documents, which it lacks, become words."""
    role: Literal["user", "assistant"] = "assistant" if written["role"] == "assistant" else "user"
    parts = cast("Iterable[Mapping[str, object]]", written["parts"])
    blocks = [each for part in parts if (each := _read_block(part)) is not None]
    return Message(role, tuple(blocks), sender=str(written.get("name", "")))


def _read_block(part: Mapping[str, object]) -> ContentBlock | None:
    match part:
        case {"type": "text", "content": str() as text}:
            return TextBlock(text)
        case {"type": "reasoning", "content": str() as text}:
            return ThinkingBlock(text)
        case {"type": "tool_call", "id": str() as id_, "name": str() as name}:
            return ToolUseBlock(id_, name, dict(cast("Mapping[str, object]", part["arguments"])))
        case {"type": "tool_call_response", "id": str() as id_, "response": list() as response}:
            found = map(_read_block, response)
            texts = tuple(each for each in found if isinstance(each, TextBlock))
            return ToolResultBlock(id_, texts)
        case {"modality": kind, "mime_type": type_}:
            return TextBlock(f"[{kind}, {type_}: not in the trace]")
        case _:
            return None


def list_settings(request: ModelRequest) -> dict[str, object]:
    """Return what is set about a request, by the names of the conventions."""
    given: dict[str, object] = {
        names.MAX_TOKENS: request.max_tokens,
        names.TEMPERATURE: request.temperature,
        names.TOP_P: request.top_p,
        names.SEED: request.seed,
        names.STOP_SEQUENCES: list(request.stop_sequences) or None,
        names.OUTPUT_TYPE: "json" if request.output else None,
        names.TOOL_CHOICE: _describe_choice(request.tool_choice),
        names.EFFORT: request.effort,
        names.THINKING: request.thinking,
        names.PARALLEL_TOOLS: request.parallel_tools,
    }
    return {name: value for name, value in given.items() if value is not None}


def _describe_choice(choice: ToolChoice) -> str | None:
    """Return what is said about calls, if it is not what every request says."""
    if isinstance(choice, NamedTool):
        return choice.name
    return None if choice == "auto" else choice


def list_stages(result: ToolResult) -> dict[str, object]:
    """Return what a result says about the stages of its call."""
    found = {
        names.VALIDATION_MS: result.metadata.get("validation_ms"),
        names.EXECUTION_MS: result.metadata.get("execution_ms"),
        names.TOOL_VERSION: result.metadata.get("version"),
    }
    return {name: value for name, value in found.items() if value is not None}


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
