"""Reads requests of the Responses API back: the reverse of `encode`."""

from collections.abc import Mapping
from functools import partial
from typing import TypeVar

from greenroom import core
from greenroom.core._internal import InvalidJSONError, NamedTool, ToolChoice, serde
from greenroom.llm.json_fields import as_dict, as_int, as_list, as_number, as_text
from greenroom.llm.openai.hosts import HostProfile
from greenroom.llm.openai.read_request import locate, read_effort, read_parallel
from greenroom.llm.recorded_request import (
    read_named_tools,
    restore_block,
    restore_message,
    restore_request,
)
from greenroom.llm.responses.encode import (
    CUSTOM,
    ResponsesDialect,
    list_items,
    write_input,
    write_item,
    write_part,
    write_tool,
)

Block = TypeVar("Block", bound=core.ContentBlock)


def read_responses_request(body: Mapping[str, object]) -> core.ModelRequest:
    """Read the body of a request; fields without a typed place go into `extra` and `options`.

    Example:
        >>> body = {"model": "m", "input": "hi", "max_output_tokens": 9, "store": True}
        >>> request = read_responses_request(body)
        >>> request.messages[0].text, request.max_tokens, request.options["store"]
        ('hi', 9, True)
    """
    dialect = ResponsesDialect(as_text(body.get("model")), host=HostProfile(name="any"))
    request = core.ModelRequest(
        messages=[_read_item(dialect, raw) for raw in list_items(body.get("input"))],
        system=as_text(body.get("instructions")),
        tool_choice=_read_tool_choice(body.get("tool_choice")),
        max_tokens=as_int(body.get("max_output_tokens")),
        temperature=as_number(body.get("temperature")),
        top_p=as_number(body.get("top_p")),
        effort=read_effort(as_dict(body.get("reasoning")).get("effort")),
        parallel_tools=read_parallel(body.get("parallel_tool_calls")),
        cache=False,
    )
    return restore_request(
        dialect, request, body, partial(read_named_tools, _read_tool), messages="input"
    )


def _read_item(dialect: ResponsesDialect, raw: dict[str, object]) -> core.Message:
    """Read an item as a message of its own."""
    is_message = raw.get("type") in (None, "message")
    if is_message and raw.get("role") == "assistant":
        message = core.Message("assistant", tuple(_read_parts(raw.get("content"), is_reply=True)))
    elif is_message:
        message = core.Message("user", tuple(_read_parts(raw.get("content"), is_reply=False)))
    else:
        block = restore_block(_read_block(raw), write_item, raw)
        is_result = isinstance(block, core.ToolResultBlock)
        message = core.Message("user" if is_result else "assistant", (block,))
    restored = restore_message(dialect, message, raw, alone=False)
    return core.Message(
        message.role, message.content, extra=restored.extra or {"type": raw.get("type", "message")}
    )


def _read_block(raw: dict[str, object]) -> core.ContentBlock:
    match raw:
        case {"type": "reasoning"}:
            parts = as_list(raw.get("summary")) or as_list(raw.get("content"))
            thoughts = (as_text(as_dict(part).get("text")) for part in parts)
            signature = as_text(raw.get("encrypted_content"))
            return core.ThinkingBlock("\n\n".join(thoughts), signature)
        case {"type": "function_call", "call_id": str(call_id), "name": str(name)}:
            return core.ToolUseBlock(call_id, name, _read_arguments(raw.get("arguments")))
        case {"type": "custom_tool_call", "call_id": str(call_id), "name": str(name)}:
            given: dict[str, object] = {"input": as_text(raw.get("input"))}
            return core.ToolUseBlock(call_id, name, given, extra={"type": CUSTOM})
        case {
            "type": "function_call_output" | "custom_tool_call_output",
            "call_id": str(call_id),
        } if call_id:
            kinds = (core.TextBlock, core.ImageBlock, core.DocumentBlock, core.UnknownBlock)
            blocks = _read_parts(raw.get("output"), is_reply=False)
            return core.ToolResultBlock(call_id, tuple(b for b in blocks if isinstance(b, kinds)))
        case _:
            return core.UnknownBlock(raw)


def _read_arguments(arguments: object) -> dict[str, object]:
    try:
        return serde.loads_object(as_text(arguments))
    except InvalidJSONError:
        return {}


def _read_parts(content: object, *, is_reply: bool) -> list[core.ContentBlock]:
    if isinstance(content, str):
        return [core.TextBlock(content)] if content else []
    raws = map(as_dict, as_list(content))
    if is_reply:
        return [restore_block(_read_part(raw), _write_part, raw) for raw in raws]
    return [restore_block(_read_input(raw), _write_input, raw) for raw in raws]


def _read_part(raw: dict[str, object]) -> core.ContentBlock:
    match raw:
        case {"type": "output_text", "text": str(text)}:
            return core.TextBlock(text)
        case {"type": "refusal", "refusal": str(text)}:
            return core.TextBlock(text, {"type": "refusal"})
        case _:
            return core.UnknownBlock(raw)


def _write_part(block: core.ContentBlock) -> dict[str, object]:
    return write_part(block) if isinstance(block, core.TextBlock) else {}


def _write_input(block: core.ContentBlock) -> dict[str, object]:
    return next(write_input(block), {})


def _read_input(raw: dict[str, object]) -> core.ContentBlock:
    match raw:
        case {"type": "input_text", "text": str(text)}:
            return core.TextBlock(text)
        case {"type": "input_image", "image_url": str(url)}:
            return core.ImageBlock(*locate(url))
        case {"type": "input_file", "file_url": str(url)}:
            return core.DocumentBlock(url=url)
        case {"type": "input_file", "file_data": str(data)}:
            return core.DocumentBlock(*locate(data), title=as_text(raw.get("filename")))
        case _:
            return core.UnknownBlock(raw)


def _read_tool(raw: dict[str, object]) -> core.ToolDefinition | None:
    schema = raw.get("parameters")
    if raw.get("type") != "function" or not isinstance(schema, dict):
        return None
    tool = core.ToolDefinition(as_text(raw.get("name")), as_text(raw.get("description")), schema)
    return restore_block(tool, write_tool, raw)


def _read_tool_choice(choice: object) -> ToolChoice:
    match choice:
        case "required":
            return "any"
        case "none":
            return "none"
        case {"type": "function", "name": str(name)}:
            return NamedTool(name)
        case _:
            return "auto"
