"""Reads requests of Anthropic's Messages API back: the reverse of `encode`."""

import base64
from collections.abc import Mapping
from functools import partial

from greenroom import core
from greenroom.core._internal import Effort, NamedTool, Role, Thinking, ToolChoice
from greenroom.llm.anthropic.encode import MessagesDialect, write_block, write_tool
from greenroom.llm.json_fields import as_dict, as_int, as_list, as_number, as_text
from greenroom.llm.recorded_request import (
    read_named_tools,
    restore_block,
    restore_message,
    restore_request,
)


def read_anthropic_request(body: Mapping[str, object]) -> core.ModelRequest:
    """Read the body of a request; fields without a typed place go into `extra` and `options`.

    Example:
        >>> messages = [{"role": "user", "content": "hi"}]
        >>> body = {"model": "m", "max_tokens": 9, "messages": messages, "top_k": 5}
        >>> request = read_anthropic_request(body)
        >>> request.messages[0].text, request.max_tokens, request.options["top_k"]
        ('hi', 9, 5)
    """
    dialect = MessagesDialect(as_text(body.get("model")), 1)
    request = core.ModelRequest(
        messages=_read_messages(dialect, body.get("messages")),
        system=_read_system(body.get("system")),
        tool_choice=_read_tool_choice(as_dict(body.get("tool_choice"))),
        max_tokens=as_int(body.get("max_tokens")),
        temperature=as_number(body.get("temperature")),
        top_p=as_number(body.get("top_p")),
        stop_sequences=tuple(map(as_text, as_list(body.get("stop_sequences")))),
        effort=_read_effort(as_dict(body.get("output_config")).get("effort")),
        thinking=_read_thinking(as_dict(body.get("thinking"))),
        parallel_tools=_read_parallel(as_dict(body.get("tool_choice"))),
        cache=False,
    )
    return restore_request(dialect, request, body, partial(read_named_tools, _read_tool))


def _read_effort(effort: object) -> Effort | None:
    match effort:
        case "low" | "medium" | "high" | "xhigh" | "max":
            return effort
        case _:
            return None


def _read_thinking(thinking: Mapping[str, object]) -> Thinking | None:
    match thinking.get("type"):
        case "adaptive" | "between_tools" as how:
            return how
        case "disabled":
            return 0
        case _:
            return as_int(thinking.get("budget_tokens"))


def _read_parallel(choice: Mapping[str, object]) -> bool | None:
    return False if choice.get("disable_parallel_tool_use") is True else None


def _read_messages(dialect: MessagesDialect, raws: object) -> list[core.Message]:
    made: list[core.Message] = []
    for raw in map(as_dict, as_list(raws)):
        role: Role = "assistant" if raw.get("role") == "assistant" else "user"
        message = core.Message(role, tuple(_read_blocks(raw.get("content"))))
        is_repeated = bool(made) and made[-1].role == role
        made.append(restore_message(dialect, message, raw, alone=is_repeated))
    return made


def _read_system(system: object) -> str | list[core.TextBlock]:
    if isinstance(system, str):
        return system
    return [block for block in _read_blocks(system) if isinstance(block, core.TextBlock)]


def _read_tool(raw: dict[str, object]) -> core.ToolDefinition | None:
    schema = raw.get("input_schema")
    if not isinstance(schema, dict) or raw.get("type") not in (None, "custom"):
        return None
    tool = core.ToolDefinition(as_text(raw.get("name")), as_text(raw.get("description")), schema)
    return restore_block(tool, write_tool, raw)


def _read_tool_choice(choice: Mapping[str, object]) -> ToolChoice:
    match choice.get("type"):
        case "any" | "none" as kind:
            return kind
        case "tool":
            return NamedTool(as_text(choice.get("name")))
        case _:
            return "auto"


def _read_blocks(content: object) -> list[core.ContentBlock]:
    if isinstance(content, str):
        return [core.TextBlock(content)] if content else []
    raws = map(as_dict, as_list(content))
    return [restore_block(_read_block(raw), write_block, raw) for raw in raws]


def _read_block(raw: dict[str, object]) -> core.ContentBlock:
    """Read the typed fields of a block; without a required one it is an unknown block."""
    match raw:
        case {"type": "text", "text": str(content)}:
            return core.TextBlock(content)
        case {"type": "thinking", "thinking": str(thought), "signature": str(signature)}:
            return core.ThinkingBlock(thought, signature)
        case {"type": "redacted_thinking", "data": str(data)}:
            return core.RedactedThinkingBlock(data)
        case {"type": "tool_use", "id": str(call_id), "name": str(name), "input": dict(arguments)}:
            return core.ToolUseBlock(call_id, name, arguments)
        case {"type": "tool_result", "tool_use_id": str(call_id)} if call_id:
            return _read_result(call_id, raw)
        case {"type": "image"}:
            return core.ImageBlock(*_read_source(as_dict(raw.get("source"))))
        case {"type": "document"}:
            source = _read_source(as_dict(raw.get("source")))
            return core.DocumentBlock(*source, title=as_text(raw.get("title")))
        case _:
            return core.UnknownBlock(raw)


def _read_result(call_id: str, raw: Mapping[str, object]) -> core.ContentBlock:
    kinds = (core.TextBlock, core.ImageBlock, core.DocumentBlock, core.UnknownBlock)
    parts = tuple(block for block in _read_blocks(raw.get("content")) if isinstance(block, kinds))
    return core.ToolResultBlock(call_id, parts, raw.get("is_error") is True)


def _read_source(source: Mapping[str, object]) -> tuple[str, str, str]:
    """Return the media type, the data and the address; a file of the provider has none of them."""
    match source:
        case {"type": "base64", "media_type": str(kind), "data": str(data)}:
            return kind, data, ""
        case {"type": "text", "media_type": str(kind), "data": str(data)}:
            return kind, base64.b64encode(data.encode(errors="replace")).decode(), ""
        case {"type": "url", "url": str(url)}:
            return "", "", url
        case _:
            return "", "", ""
