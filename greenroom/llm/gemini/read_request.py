"""Reads requests of the Gemini API back: the reverse of `encode`.

The API takes each field in camel case and in snake case.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from greenroom import core
from greenroom.core._internal import Effort, NamedTool, ResultContent, Role, ToolChoice, serde
from greenroom.llm.gemini.calls import SIGNATURE
from greenroom.llm.gemini.encode import GeminiDialect, list_contents, write_block, write_tool
from greenroom.llm.json_fields import as_dict, as_int, as_list, as_number, as_text, extend
from greenroom.llm.recorded_request import (
    ReadTools,
    restore_block,
    restore_message,
    restore_request,
)

_SNAKE = re.compile(r"_([a-z])")


def read_gemini_request(body: Mapping[str, object]) -> core.ModelRequest:
    """Read the body of a request; fields without a typed place go into `extra` and `options`.

    Example:
        >>> contents = [{"role": "user", "parts": [{"text": "hi"}]}]
        >>> config = {"maxOutputTokens": 9}
        >>> body = {"contents": contents, "generationConfig": config, "cachedContent": "c"}
        >>> request = read_gemini_request(body)
        >>> request.messages[0].text, request.max_tokens, request.options["cachedContent"]
        ('hi', 9, 'c')
    """
    dialect = GeminiDialect("")
    fields = _in_camel_case(body)
    config = _in_camel_case(as_dict(fields.get("generationConfig")))
    thinking = _in_camel_case(as_dict(config.get("thinkingConfig")))
    request = core.ModelRequest(
        messages=_read_contents(dialect, list_contents(body.get("contents"))),
        system=_read_system(as_dict(fields.get("systemInstruction"))),
        tool_choice=_read_tool_choice(_in_camel_case(as_dict(fields.get("toolConfig")))),
        max_tokens=as_int(config.get("maxOutputTokens")),
        temperature=as_number(config.get("temperature")),
        top_p=as_number(config.get("topP")),
        seed=as_int(config.get("seed")),
        stop_sequences=tuple(map(as_text, as_list(config.get("stopSequences")))),
        effort=_read_level(thinking.get("thinkingLevel")),
        thinking=_read_budget(thinking),
        cache=False,
    )
    restored = restore_request(
        dialect, request, body, _read_tools, messages="contents", nested=True
    )
    given = as_dict(body.get("generationConfig")).get("thinkingConfig")
    return _keep_thinking(restored, given) if isinstance(given, dict) else restored


def _keep_thinking(request: core.ModelRequest, given: dict[str, object]) -> core.ModelRequest:
    """Return a request that is written with these fields, whatever the model would take."""
    names = ("thinkingLevel", "thinkingBudget", "includeThoughts")
    thinking = {**dict.fromkeys(names, UNSET), **given}
    config = {**as_dict(request.options.get("generationConfig")), "thinkingConfig": thinking}
    options = {**request.options, "generationConfig": config}
    return dataclasses.replace(request, options=options)


def _in_camel_case(fields: Mapping[str, object]) -> dict[str, object]:
    return {_SNAKE.sub(lambda found: found[1].upper(), name): v for name, v in fields.items()}


def _read_contents(dialect: GeminiDialect, raws: Sequence[dict[str, object]]) -> list[core.Message]:
    roles = [_read_role(raw) for raw in raws]
    near = zip(["", *roles], [*roles[1:], ""], strict=False)
    return [
        restore_message(dialect, _read_content(role, raw), raw, alone=role in beside)
        for role, raw, beside in zip(roles, raws, near, strict=False)
    ]


def _read_role(raw: Mapping[str, object]) -> Role:
    return "assistant" if as_text(raw.get("role")).lower() == "model" else "user"


def _read_content(role: Role, raw: Mapping[str, object]) -> core.Message:
    parts = [part for part in map(as_dict, as_list(raw.get("parts"))) if part]
    blocks = [_read_part(part) for part in parts]
    first = next((at for at, b in enumerate(blocks) if isinstance(b, core.ToolUseBlock)), None)
    if first is not None and not {SIGNATURE, "thought_signature"} & parts[first].keys():
        blocks[first] = _without_signature(blocks[first])
    return core.Message(role, tuple(blocks))


def _without_signature(block: core.ContentBlock) -> core.ContentBlock:
    """Return a call that is written without a signature, as it came."""
    if not isinstance(block, core.ToolUseBlock):
        return block
    return replace(block, extra={**block.extra, SIGNATURE: UNSET})


def _read_part(raw: dict[str, object]) -> core.ContentBlock:
    fields = _in_camel_case(raw)
    call, result = as_dict(fields.get("functionCall")), as_dict(fields.get("functionResponse"))
    if call:
        name = as_text(call.get("name"))
        arguments = as_dict(call.get("args"))
        block: core.ContentBlock = core.ToolUseBlock(
            as_text(call.get("id")) or name, name, arguments
        )
    elif result:
        block = _read_result(result)
    elif fields.get("thought") is True and isinstance(fields.get("text"), str):
        signature = as_text(fields.get("thoughtSignature"))
        block = core.ThinkingBlock(as_text(fields["text"]), signature, {"thought": True})
    elif isinstance(fields.get("text"), str):
        block = core.TextBlock(as_text(fields["text"]))
    else:
        block = _read_media(fields) or core.UnknownBlock(raw)
    restored = restore_block(block, _write_block, raw)
    if (
        isinstance(restored, core.ToolResultBlock)
        and "functionResponse" in raw
        and result.get("parts")
    ):
        sent = {"functionResponse": {"parts": result["parts"]}}  # whatever the model
        return replace(restored, extra=extend(restored.extra, sent))
    return restored


def _write_block(block: core.ContentBlock) -> dict[str, object]:
    return next(write_block(block, {}), {})


def _read_result(fields: Mapping[str, object]) -> core.ToolResultBlock:
    """Read a result, whose response is an object with any names."""
    response = as_dict(fields.get("response"))
    name = next((n for n in ("output", "error", "result", "content") if n in response), "")
    value = response.get(name) if len(response) == 1 else response
    text = value if isinstance(value, str) else serde.dumps(value).decode() if response else ""
    content: list[ResultContent] = [core.TextBlock(text)] if text else []
    parts = list(map(as_dict, as_list(fields.get("parts"))))
    content += [_read_media(_in_camel_case(part)) or core.UnknownBlock(part) for part in parts]
    call_id = as_text(fields.get("id")) or as_text(fields.get("name")) or "call"
    return core.ToolResultBlock(call_id, tuple(content), is_error=name == "error")


def _read_media(fields: Mapping[str, object]) -> core.ImageBlock | core.DocumentBlock | None:
    """Read an image or a document; None for any other part, such as sound."""
    inline = _in_camel_case(as_dict(fields.get("inlineData")))
    linked = _in_camel_case(as_dict(fields.get("fileData")))
    kind = as_text(inline.get("mimeType")) or as_text(linked.get("mimeType"))
    data, url = as_text(inline.get("data")), as_text(linked.get("fileUri"))
    if not kind.startswith(("image/", "application/pdf", "text/")) or not (data or url):
        return None
    media = core.ImageBlock if kind.startswith("image/") else core.DocumentBlock
    return media(kind, data, url)


def _read_system(content: Mapping[str, object]) -> str | list[core.TextBlock]:
    parts = list(map(as_dict, as_list(content.get("parts"))))
    if len(parts) == 1 and parts[0].keys() == {"text"}:
        return as_text(parts[0]["text"])
    texts = [part for part in parts if isinstance(part.get("text"), str)]
    return [
        core.TextBlock(as_text(part["text"]), {k: v for k, v in part.items() if k != "text"})
        for part in texts
    ]


def _read_level(level: object) -> Effort | None:
    match as_text(level).lower():
        case "minimal":
            return "none"
        case "low" | "medium" | "high" as effort:
            return effort
        case _:
            return None


def _read_budget(thinking: Mapping[str, object]) -> int | None:
    budget = as_int(thinking.get("thinkingBudget"))
    return budget if budget is not None and budget >= 0 else None


def _read_tools(raws: Sequence[dict[str, object]]) -> ReadTools:
    """Return the functions that come first as typed tools, and the others as they are."""
    if not raws or raws[0].keys() != {"functionDeclarations"}:
        return [], list(raws)
    declared = list(map(as_dict, as_list(raws[0]["functionDeclarations"])))
    return list(map(_read_tool, declared)), list(raws[1:])


def _read_tool(raw: dict[str, object]) -> core.ToolDefinition:
    fields = _in_camel_case(raw)
    given = fields.get("parametersJsonSchema") or _in_lower_case(fields.get("parameters"))
    schema = as_dict(given) or {"type": "object", "properties": {}}
    tool = core.ToolDefinition(
        as_text(fields.get("name")), as_text(fields.get("description")), schema
    )
    return restore_block(tool, write_tool, raw)


def _in_lower_case(schema: object) -> object:
    """Return a schema whose types are names of JSON Schema, not of OpenAPI."""
    if isinstance(schema, list):
        return [_in_lower_case(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: _in_lower_case(value) for name, value in schema.items()}
    kind = made.get("type")
    return made | ({"type": kind.lower()} if isinstance(kind, str) else {})


def _read_tool_choice(config: Mapping[str, object]) -> ToolChoice:
    calling = _in_camel_case(as_dict(config.get("functionCallingConfig")))
    names = list(map(as_text, as_list(calling.get("allowedFunctionNames"))))
    match as_text(calling.get("mode")).upper():
        case "ANY":
            return NamedTool(names[0]) if len(names) == 1 else "any"
        case "NONE":
            return "none"
        case _:
            return "auto"
