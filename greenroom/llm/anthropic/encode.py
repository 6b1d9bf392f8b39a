"""Requests in the words of Anthropic's Messages API, version 2023-06-01."""

import base64
from collections.abc import Sequence
from typing import TypeAlias

from greenroom.core import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ModelBadRequestError,
    ModelRequest,
    NamedTool,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolChoice,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from greenroom.llm.conversation import turns, unsigned
from greenroom.llm.portable_calls import PLAIN, portable_calls

__all__ = ["encode"]

_Known: TypeAlias = (
    TextBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ToolUseBlock
    | ToolResultBlock
    | ImageBlock
    | DocumentBlock
)


def encode(
    request: ModelRequest, *, model: str, max_tokens: int, provider: str = "anthropic"
) -> dict[str, object]:
    """Make the body of a streaming request.

    Thinking without a signature is left out, and so is thinking that nothing follows in its
    message, since they would be refused. `max_tokens` is used where
    the request says nothing; a thinking budget comes on top of it then, since it counts as output.

    Raises:
        ModelBadRequestError: the data of a text document is not base64.

    Example:
        >>> from greenroom.core import Message
        >>> body = encode(ModelRequest(messages=[Message.user("hi")]), model="m", max_tokens=9)
        >>> body["messages"]
        [{'role': 'user', 'content': [{'type': 'text', 'text': 'hi'}]}]
    """
    return {
        "model": model,
        "max_tokens": request.max_tokens or max_tokens + (request.thinking or 0),
        "messages": [
            {"role": turn.role, "content": [_block(block) for block in turn.blocks]}
            for turn in portable_calls(turns(request.messages, provider, _accepted), PLAIN)
        ],
        "stream": True,
        **_asked(request),
        **request.options,
    }


def _asked(request: ModelRequest) -> dict[str, object]:
    """Write down the fields that were asked for, and no others."""
    fields = {
        "system": _system(request),
        "tools": [_tool(tool) for tool in request.tools],
        "tool_choice": _tool_choice(request.tool_choice) if request.tools else None,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop_sequences": list(request.stop_sequences),
        "thinking": _thinking(request.thinking),
    }
    return {name: value for name, value in fields.items() if value not in (None, "", [])}


def _system(request: ModelRequest) -> str | list[object]:
    if isinstance(request.system, str):
        return request.system
    return [_block(block) for block in request.system]


def _tool(tool: ToolDefinition) -> dict[str, object]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.parameters,
    }


def _tool_choice(choice: ToolChoice) -> dict[str, object] | None:
    if isinstance(choice, NamedTool):
        return {"type": "tool", "name": choice.name}
    return None if choice == "auto" else {"type": choice}


def _thinking(budget: int | None) -> dict[str, object] | None:
    if budget is None:
        return None
    return {"type": "enabled", "budget_tokens": budget} if budget else {"type": "disabled"}


def _accepted(blocks: Sequence[ContentBlock]) -> Sequence[ContentBlock]:
    kept = [b for b in blocks if not isinstance(b, ThinkingBlock) or b.signature]
    while kept and isinstance(kept[-1], ThinkingBlock | RedactedThinkingBlock):
        kept.pop()
    return kept


def _block(block: ContentBlock) -> dict[str, object]:
    return block.raw if isinstance(block, UnknownBlock) else _fields(block) | block.extra


def _fields(block: _Known) -> dict[str, object]:
    match block:
        case TextBlock(text):
            return {"type": "text", "text": text}
        case ThinkingBlock(thinking, signature):
            return {"type": "thinking", "thinking": thinking, "signature": signature}
        case RedactedThinkingBlock(data):
            return {"type": "redacted_thinking", "data": data}
        case ToolUseBlock(call_id, name, arguments):
            return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        case ToolResultBlock():
            return _tool_result(block)
        case ImageBlock():
            return {"type": "image", "source": _source(block)}
        case DocumentBlock():
            title = {"title": block.title} if block.title else {}
            return {"type": "document", "source": _source(block), **title}


def _tool_result(block: ToolResultBlock) -> dict[str, object]:
    made: dict[str, object] = {"type": "tool_result", "tool_use_id": block.tool_use_id}
    content = [
        _block(part)
        for part in block.content
        if not isinstance(part, TextBlock) or part.text.strip()
    ]
    if content:
        made["content"] = content
    if block.is_error:
        made["is_error"] = True
    return made


def _source(block: ImageBlock | DocumentBlock) -> dict[str, object]:
    if block.url:
        return {"type": "url", "url": block.url}
    if block.media_type.startswith("text/"):
        return {"type": "text", "media_type": "text/plain", "data": _plain(block.data)}
    return {"type": "base64", "media_type": block.media_type, "data": block.data}


def _plain(data: str) -> str:
    try:
        return unsigned(base64.b64decode(data, validate=True).decode(errors="replace"))
    except ValueError as error:
        raise ModelBadRequestError(
            f"a document's data is not base64: {error}", provider="anthropic"
        ) from error
