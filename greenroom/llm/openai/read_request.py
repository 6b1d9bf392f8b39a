"""Reads requests of Chat Completions back: the reverse of `encode`."""

import re
from collections.abc import Mapping, Sequence
from functools import partial

from greenroom import core
from greenroom.core._internal import Effort, InvalidJSONError, NamedTool, ToolChoice, serde
from greenroom.llm.json_fields import as_dict, as_int, as_list, as_number, as_text
from greenroom.llm.openai.calls import CUSTOM
from greenroom.llm.openai.encode import ChatDialect, write_block, write_tool
from greenroom.llm.openai.hosts import HostProfile
from greenroom.llm.openai.reasoning import CONTENT_FIELD, find_reasoning
from greenroom.llm.recorded_request import (
    read_named_tools,
    restore_block,
    restore_message,
    restore_request,
)

_DATA = re.compile(r"data:([^;,]+);base64,(.*)", re.DOTALL)


def read_chat_request(body: Mapping[str, object]) -> core.ModelRequest:
    """Read the body of a request; fields without a typed place go into `extra` and `options`.

    The limit of the reply is an option, since servers have two names for it.

    Example:
        >>> system = {"role": "system", "content": "Be brief."}
        >>> messages = [system, {"role": "user", "content": "hi"}]
        >>> request = read_chat_request({"model": "m", "messages": messages, "max_tokens": 9})
        >>> request.system, request.messages[0].text, request.options["max_tokens"]
        ('Be brief.', 'hi', 9)
    """
    dialect = ChatDialect(as_text(body.get("model")), host=HostProfile(name="any"))
    raws = list(map(as_dict, as_list(body.get("messages"))))
    system = _read_system(raws[0]) if len(raws) > 1 else ""
    request = core.ModelRequest(
        messages=_read_messages(dialect, raws[1:] if system else raws),
        system=system,
        tool_choice=_tool_choice(body.get("tool_choice")),
        temperature=as_number(body.get("temperature")),
        top_p=as_number(body.get("top_p")),
        stop_sequences=tuple(map(as_text, as_list(body.get("stop")))),
        effort=read_effort(body.get("reasoning_effort")),
        seed=as_int(body.get("seed")),
        parallel_tools=read_parallel(body.get("parallel_tool_calls")),
        cache=False,
    )
    return restore_request(dialect, request, body, partial(read_named_tools, _tool))


def read_effort(effort: object) -> Effort | None:
    """Return an effort, or None for one that we have no word for."""
    match effort:
        case "none" | "low" | "medium" | "high" | "xhigh" | "max":
            return effort
        case _:
            return None


def read_parallel(value: object) -> bool | None:
    """Return whether a reply may call several tools, or None if the request does not say."""
    return value if isinstance(value, bool) else None


def _read_system(first: Mapping[str, object]) -> str | list[core.TextBlock]:
    """Read the first message, if it is a system prompt and nothing else."""
    content = first.get("content")
    if first != {"role": "system", "content": content} or isinstance(content, str):
        return as_text(content) if first.get("role") == "system" and len(first) == 2 else ""
    blocks = _parts(content)
    texts = [block for block in blocks if isinstance(block, core.TextBlock)]
    return texts if len(texts) == len(blocks) else ""


def _read_messages(dialect: ChatDialect, raws: Sequence[dict[str, object]]) -> list[core.Message]:
    made: list[core.Message] = []
    before = ""
    for raw in raws:
        role = as_text(raw.get("role"))
        is_repeated = role == before != "tool" or (role == "tool" and before == "user")
        made.append(restore_message(dialect, _read_message(role, raw), raw, alone=is_repeated))
        before = role
    return made


def _read_message(role: str, raw: dict[str, object]) -> core.Message:
    match role:
        case "assistant":
            return core.Message("assistant", tuple(_reply(raw)))
        case "tool" if as_text(raw.get("tool_call_id")):
            result = _read_result(raw)
            return core.Message("user", (restore_block(result, write_block, raw),))
        case _:
            return core.Message("user", tuple(_parts(raw.get("content"))))


def _read_result(raw: Mapping[str, object]) -> core.ToolResultBlock:
    kinds = (core.TextBlock, core.ImageBlock, core.DocumentBlock, core.UnknownBlock)
    parts = tuple(block for block in _parts(raw.get("content")) if isinstance(block, kinds))
    return core.ToolResultBlock(as_text(raw.get("tool_call_id")), parts)


def _reply(raw: dict[str, object]) -> list[core.ContentBlock]:
    field, thought = find_reasoning(raw)
    details = as_list(raw.get("reasoning_details"))
    extra: dict[str, object] = {"field": field} if field else {}
    extra |= {"reasoning_details": details} if details else {}
    made: list[core.ContentBlock] = [core.ThinkingBlock(thought, extra=extra)] if extra else []
    made += _parts(raw.get("content"))
    if as_text(raw.get("refusal")):
        made.append(core.TextBlock(as_text(raw["refusal"]), {"refusal": True}))
    calls = map(as_dict, as_list(raw.get("tool_calls")))
    return [*made, *(restore_block(_call(call), write_block, call) for call in calls)]


def _call(raw: Mapping[str, object]) -> core.ContentBlock:
    call_id = as_text(raw.get("id"))
    if raw.get("type") == "custom":
        custom = as_dict(raw.get("custom"))
        arguments: dict[str, object] = {"input": as_text(custom.get("input"))}
        return core.ToolUseBlock(call_id, as_text(custom.get("name")), arguments, extra=CUSTOM)
    function = as_dict(raw.get("function"))
    try:
        arguments = serde.loads_object(as_text(function.get("arguments")))
    except InvalidJSONError:
        arguments = {}
    return core.ToolUseBlock(call_id, as_text(function.get("name")), arguments)


def _parts(content: object) -> list[core.ContentBlock]:
    if isinstance(content, str):
        return [core.TextBlock(content)] if content else []
    raws = map(as_dict, as_list(content))
    return [restore_block(_part(raw), write_block, raw) for raw in raws]


def _part(raw: dict[str, object]) -> core.ContentBlock:
    match raw:
        case {"type": "text", "text": str(content)}:
            return core.TextBlock(content)
        case {"type": "thinking", "thinking": [{"type": "text", "text": str(thought)}]}:
            return core.ThinkingBlock(thought, extra={"field": CONTENT_FIELD})
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            return core.ImageBlock(*locate(url))
        case {"type": "file", "file": {"file_data": str(data), "filename": str(name)}}:
            return core.DocumentBlock(*locate(data), title=name)
        case {"type": "file", "file": {"file_id": str()}}:
            return core.DocumentBlock()
        case _:
            return core.UnknownBlock(raw)


def locate(url: str) -> tuple[str, str, str]:
    """Return the media type, the data and the address."""
    found = _DATA.fullmatch(url)
    return (found[1], found[2], "") if found else ("", "", url)


def _tool(raw: dict[str, object]) -> core.ToolDefinition | None:
    function = as_dict(raw.get("function"))
    schema = function.get("parameters")
    if not isinstance(schema, dict):
        return None
    tool = core.ToolDefinition(
        as_text(function.get("name")), as_text(function.get("description")), schema
    )
    return restore_block(tool, write_tool, raw)


def _tool_choice(choice: object) -> ToolChoice:
    match choice:
        case "required":
            return "any"
        case "none":
            return "none"
        case {"type": "function", "function": {"name": str(name)}}:
            return NamedTool(name)
        case _:
            return "auto"
