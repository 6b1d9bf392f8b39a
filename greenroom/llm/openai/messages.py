"""Turns of a conversation as messages of Chat Completions."""

from collections.abc import Iterable, Sequence

from greenroom.core import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    serde,
)
from greenroom.llm.fields import extended, items, text
from greenroom.llm.openai.calls import CUSTOM
from greenroom.llm.openai.reasoning import CONTENT_FIELD, merged_details


def messages_of_user(blocks: Sequence[ContentBlock]) -> list[dict[str, object]]:
    """Make the messages of a user's turn: one for each tool result, then one for the rest.

    The role "tool" takes text alone, so a result's images and documents follow in the user's
    message, each result's under a line that names the call.
    """
    results = [block for block in blocks if isinstance(block, ToolResultBlock)]
    parts = [part for result in results for part in _attachments(result)]
    parts += [part for block in blocks for part in _part(block)]
    made = [_tool_message(result) for result in results]
    if not parts:
        return made
    alone = len(parts) == 1 and _is_plain(parts[0])
    return [*made, {"role": "user", "content": parts[0]["text"] if alone else parts}]


def message_of_reply(blocks: Sequence[ContentBlock]) -> dict[str, object]:
    """Make the message of an assistant's turn, reasoning under the fields in which it came."""
    calls = [_call(block) for block in blocks if isinstance(block, ToolUseBlock)]
    refusals = [b.text for b in blocks if isinstance(b, TextBlock) and _is_refusal(b)]
    parts = [part for block in blocks for part in _reply_part(block)]
    made: dict[str, object] = {"role": "assistant", "content": _content(parts)}
    if refusals:
        made["refusal"] = "".join(refusals)
    if calls:
        made["tool_calls"] = calls
    if (calls or refusals) and not parts:
        made["content"] = None
    return made | _reasoning([block for block in blocks if isinstance(block, ThinkingBlock)])


def write_block(block: ContentBlock) -> dict[str, object]:
    """Write one block: a part of a content, a call, or the message of a tool's result."""
    match block:
        case ToolUseBlock():
            return _call(block)
        case ToolResultBlock():
            return _tool_message(block)
        case _:
            return next(iter(_reply_part(block)), {})


def _content(parts: list[dict[str, object]]) -> object:
    """Write a reply of text alone as it was said, in one string, which every server takes."""
    if all(map(_is_plain, parts)):
        return "".join(text(part["text"]) for part in parts)
    return parts


def _is_plain(part: dict[str, object]) -> bool:
    return part.keys() == {"type", "text"}


def _part(block: ContentBlock) -> Iterable[dict[str, object]]:
    match block:
        case TextBlock(content, extra):
            yield extended({"type": "text", "text": content}, extra)
        case ImageBlock():
            url = {"url": _url(block)} if block.data or block.url else {}
            yield extended({"type": "image_url", "image_url": url}, block.extra)
        case DocumentBlock():
            yield extended(_file(block), block.extra)
        case UnknownBlock(raw):
            yield raw
        case _:
            pass


def _reply_part(block: ContentBlock) -> Iterable[dict[str, object]]:
    match block:
        case TextBlock() if _is_refusal(block):
            pass
        case ThinkingBlock(thinking, _, extra) if extra.get("field") == CONTENT_FIELD:
            yield {"type": "thinking", "thinking": [{"type": "text", "text": thinking}]}
        case _:
            yield from _part(block)


def _is_refusal(block: TextBlock) -> bool:
    return block.extra.get("refusal") is True


def _call(block: ToolUseBlock) -> dict[str, object]:
    if block.extra.get("type") == CUSTOM["type"]:
        made: dict[str, object] = {"name": block.name, "input": block.input.get("input", "")}
        return extended({"id": block.id, "custom": made}, block.extra)
    function = {"name": block.name, "arguments": serde.dumps(block.input).decode()}
    return extended({"id": block.id, "type": "function", "function": function}, block.extra)


def _reasoning(blocks: Sequence[ThinkingBlock]) -> dict[str, object]:
    made: dict[str, object] = {}
    details: list[object] = []
    for block in blocks:
        field = text(block.extra.get("field"))
        if field and field != CONTENT_FIELD:
            made[field] = text(made.get(field)) + block.thinking
        details += items(block.extra.get("reasoning_details"))
    details = merged_details(details)
    return made | ({"reasoning_details": details} if details else {})


def _tool_message(result: ToolResultBlock) -> dict[str, object]:
    said = result.text or ("" if not any(_attachments(result)) else "The result follows below.")
    content = f"Error: {said}" if result.is_error else said
    made: dict[str, object] = {
        "role": "tool",
        "tool_call_id": result.tool_use_id,
        "content": content,
    }
    return extended(made, result.extra)


def _attachments(result: ToolResultBlock) -> list[dict[str, object]]:
    attached = [block for block in result.content if not isinstance(block, TextBlock)]
    if not attached or "content" in result.extra:
        return []
    head: dict[str, object] = {"type": "text", "text": f"From call {result.tool_use_id}:"}
    return [head, *(part for block in attached for part in _part(block))]


def _url(block: ImageBlock | DocumentBlock) -> str:
    return block.url or f"data:{block.media_type};base64,{block.data}"


def _file(block: DocumentBlock) -> dict[str, object]:
    if block.url:
        # No field takes a document's address, so the model is told where it lies.
        return {"type": "text", "text": f"{block.title or 'Document'}: {block.url}"}
    if not block.data:  # the file lies with the provider, and `extra` has its id
        return {"type": "file", "file": {"filename": block.title} if block.title else {}}
    return {
        "type": "file",
        "file": {"filename": block.title or "document.pdf", "file_data": _url(block)},
    }
