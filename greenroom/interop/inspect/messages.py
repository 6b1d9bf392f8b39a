"""Messages of Inspect as ours, and ours as Inspect's."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from greenroom.core import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    Usage,
)
from greenroom.core._internal import thaw

if TYPE_CHECKING:
    from inspect_ai.model import ChatMessage, ChatMessageAssistant, Content, ModelOutput, ModelUsage

PROVIDER = "inspect"
_REASONS = {
    "stop": StopReason.END_TURN,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_length": StopReason.MAX_TOKENS,
    "tool_calls": StopReason.TOOL_USE,
    "content_filter": StopReason.CONTENT_FILTER,
}


def read_chat(messages: Iterable["ChatMessage"]) -> tuple[str, list[Message]]:
    """Return the system prompt of a chat, and its other messages."""
    system, found = [], list[Message]()
    for each in messages:
        if each.role == "system":
            system.append(each.text)
        elif each.role == "assistant":
            found.append(read_assistant(each))
        elif each.role == "tool":
            result = ToolResultBlock(
                each.tool_call_id or "",
                tuple(_result_blocks(read_content(each.content))),
                is_error=each.error is not None,
            )
            found.append(Message("user", (result,)))
        else:
            found.append(Message("user", tuple(read_content(each.content))))
    return "\n\n".join(system), found


def read_assistant(message: "ChatMessageAssistant") -> Message:
    """Return a reply as ours."""
    calls = [
        ToolUseBlock(call.id, call.function, call.arguments, call.parse_error or "")
        for call in message.tool_calls or ()
    ]
    content = (*read_content(message.content), *calls)
    return Message(
        "assistant", content, message.model or "", PROVIDER, response_id=message.id or ""
    )


def read_output(output: "ModelOutput") -> Message:
    """Return what a model of Inspect's has replied."""
    message = read_assistant(output.message)
    reason = StopReason.TOOL_USE if message.tool_uses else _REASONS.get(output.stop_reason)
    return Message(
        "assistant",
        message.content,
        output.model,
        PROVIDER,
        reason or StopReason.UNKNOWN,
        output.stop_reason,
        message.response_id,
        read_usage(output.usage),
    )


def read_usage(usage: "ModelUsage | None") -> Usage | None:
    """Return the tokens of a reply."""
    if usage is None:
        return None
    return Usage(
        usage.input_tokens,
        usage.output_tokens,
        usage.input_tokens_cache_read,
        usage.input_tokens_cache_write,
        usage.reasoning_tokens,
        usage.total_cost,
    )


def read_content(content: "str | list[Content]") -> Iterator[ContentBlock]:
    """Yield the blocks of a message; kinds that we don't have are kept as they are."""
    if isinstance(content, str):
        yield TextBlock(content)
        return
    for each in content:
        if each.type == "text":
            yield TextBlock(each.text)
        elif each.type == "reasoning" and each.redacted:
            yield RedactedThinkingBlock(each.reasoning)
        elif each.type == "reasoning":
            yield ThinkingBlock(each.reasoning, each.signature or "")
        elif each.type == "image":
            media, data = _read_data(each.image)
            yield ImageBlock(media, data) if data else ImageBlock(url=each.image)
        else:
            yield UnknownBlock(each.model_dump(mode="json", exclude_none=True))


def _read_data(url: str) -> tuple[str, str]:
    """Return the media type and the base64 text of a data URL; empty for another URL."""
    head, comma, data = url.partition(";base64,")
    is_data = comma and head.startswith("data:")
    return (head.removeprefix("data:"), data) if is_data else ("", "")


def _result_blocks(blocks: Iterable[ContentBlock]) -> Iterator[TextBlock | ImageBlock]:
    for each in blocks:
        if isinstance(each, TextBlock | ImageBlock):
            yield each
        else:
            yield TextBlock(f"[{type(each).__name__.removesuffix('Block').lower()}]")


def write_chat(
    system: str,
    messages: Iterable[Message],
    known: "Mapping[str, ChatMessageAssistant] | None" = None,
) -> "list[ChatMessage]":
    """Return messages as Inspect's.

    Args:
        system: the system prompt, or empty.
        messages: the messages.
        known: replies of Inspect's models by their ids, which are passed on as they were: providers
            want some of what we don't read.
    """
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser
    from inspect_ai.tool import ToolCall

    found: list[ChatMessage] = [ChatMessageSystem(content=system)] if system else []
    for each in messages:
        if each.role == "assistant" and known and each.response_id in known:
            found.append(known[each.response_id])
        elif each.role == "assistant":
            calls = [
                ToolCall(id=use.id, function=use.name, arguments=thaw(use.input))
                for use in each.tool_uses
            ]
            content = write_content(each.content)
            found.append(ChatMessageAssistant(content=content, tool_calls=calls or None))
        else:
            found += _write_results(each.tool_results)
            if content := write_content(each.content):
                found.append(ChatMessageUser(content=content))
    return found


def _write_results(results: Iterable[ToolResultBlock]) -> "Iterator[ChatMessage]":
    from inspect_ai.model import ChatMessageTool
    from inspect_ai.tool import ToolCallError

    for each in results:
        yield ChatMessageTool(
            content=write_content(each.content),
            tool_call_id=each.tool_use_id,
            error=ToolCallError("unknown", each.text) if each.is_error else None,
        )


def write_content(blocks: Iterable[object]) -> "str | list[Content]":
    """Return blocks as Inspect's: a text, if they are nothing else."""
    from inspect_ai.model import ContentDocument, ContentImage, ContentReasoning, ContentText

    found: list[Content] = []
    for each in blocks:
        match each:
            case TextBlock(text):
                found.append(ContentText(text=text))
            case ThinkingBlock(thinking, signature):
                found.append(ContentReasoning(reasoning=thinking, signature=signature or None))
            case RedactedThinkingBlock(data):
                found.append(ContentReasoning(reasoning=data, redacted=True))
            case ImageBlock(media, data, url):
                found.append(ContentImage(image=url or f"data:{media};base64,{data}"))
            case DocumentBlock(media, data, url):
                found.append(ContentDocument(document=url or f"data:{media};base64,{data}"))
            case _:  # calls and results have their own places
                pass
    if all(each.type == "text" for each in found):
        return "".join(each.text for each in found)
    return found
