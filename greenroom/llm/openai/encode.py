"""Requests in the words of OpenAI's Chat Completions, which many other servers speak as well."""

from typing import Literal, TypeAlias

from greenroom.core import ModelRequest, NamedTool, ToolChoice, ToolDefinition
from greenroom.llm.conversation import turns
from greenroom.llm.openai.messages import message_of_reply, messages_of_user
from greenroom.llm.portable_calls import portable_calls

__all__ = ["LimitField", "encode"]

LimitField: TypeAlias = Literal["max_tokens", "max_completion_tokens"]
"""The names that servers have for the most that a reply may take."""


def encode(
    request: ModelRequest,
    *,
    model: str,
    max_tokens: int | None = None,
    limit_field: LimitField = "max_completion_tokens",
    provider: str = "openai",
) -> dict[str, object]:
    """Make the body of a streaming request that asks for the token counts too.

    A thinking budget becomes the nearest `reasoning_effort`: none, low (to 2,048 tokens), medium
    (to 8,192) or high. `limit_field` is the name under which the server takes `max_tokens`.

    Example:
        >>> from greenroom.core import Message
        >>> body = encode(ModelRequest(messages=[Message.user("hi")], system="Be brief."), model="m")
        >>> body["messages"]
        [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'hi'}]
    """
    limit = request.max_tokens or max_tokens
    return {
        "model": model,
        "messages": _system(request) + _messages(request, provider),
        "stream": True,
        "stream_options": {"include_usage": True},
        **({limit_field: limit} if limit else {}),
        **_asked(request),
        **request.options,
    }


def _asked(request: ModelRequest) -> dict[str, object]:
    """Write down the fields that were asked for, and no others."""
    fields: dict[str, object] = {
        "tools": [_tool(tool) for tool in request.tools],
        "tool_choice": _tool_choice(request.tool_choice) if request.tools else None,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": list(request.stop_sequences),
        "reasoning_effort": _effort(request.thinking),
    }
    return {name: value for name, value in fields.items() if value not in (None, [])}


def _system(request: ModelRequest) -> list[object]:
    if not request.system:
        return []
    if isinstance(request.system, str):
        return [{"role": "system", "content": request.system}]
    parts = [{"type": "text", "text": block.text} | block.extra for block in request.system]
    return [{"role": "system", "content": parts}]


def _messages(request: ModelRequest, provider: str) -> list[object]:
    made: list[object] = []
    for turn in portable_calls(turns(request.messages, provider)):
        if turn.role == "user":
            made.extend(messages_of_user(turn.blocks))
        else:
            made.append(message_of_reply(turn.blocks))
    return made


def _tool(tool: ToolDefinition) -> dict[str, object]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    return {"type": "function", "function": function}


def _tool_choice(choice: ToolChoice) -> object:
    if isinstance(choice, NamedTool):
        return {"type": "function", "function": {"name": choice.name}}
    return {"auto": None, "any": "required", "none": "none"}[choice]


def _effort(budget: int | None) -> str | None:
    if budget is None:
        return None
    efforts = (("none", 0), ("low", 2048), ("medium", 8192))
    return next((effort for effort, most in efforts if budget <= most), "high")
