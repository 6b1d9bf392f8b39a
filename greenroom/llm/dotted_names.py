"""Names with dots, such as `fs.read`: what a model calls `fs__read` is given its own name again.

Requests are written with `portable_name`, in the tools, the choice of a tool and the calls of the history.
Only the tools of the request say what a name in the reply stands for, since `__` may stand for itself.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from greenroom.core import (
    ContentBlock,
    Message,
    ModelBadRequestError,
    ToolDefinition,
    ToolUseBlock,
    portable_name,
)
from greenroom.llm.events import BlockEnd, StreamEnd, StreamEvent


def dotted_names(tools: Iterable[ToolDefinition]) -> Mapping[str, str]:
    """Return the names that have dots, by what a model calls them.

    Raises:
        ModelBadRequestError: two tools would have one name.

    Example:
        >>> dotted_names([ToolDefinition("fs.read", "", {}), ToolDefinition("mcp__a__b", "", {})])
        {'fs__read': 'fs.read'}
    """
    names: dict[str, str] = {}
    for tool in tools:
        other = names.setdefault(portable_name(tool.name), tool.name)
        if other != tool.name:
            raise ModelBadRequestError(
                f"the tools {other} and {tool.name} are one name to a model",
                hint="a dot is written as two underscores; rename one of them",
            )
    return {portable: name for portable, name in names.items() if portable != name}


def restore_names(event: StreamEvent, names: Mapping[str, str]) -> StreamEvent:
    """Return an event of a reply in which tools have their own names."""
    match event:
        case BlockEnd(_, ToolUseBlock() as call):
            return replace(event, block=_restore(call, names))
        case StreamEnd(message) if any(call.name in names for call in message.tool_uses):
            return replace(event, message=_restore_message(message, names))
        case _:
            return event


def _restore_message(message: Message, names: Mapping[str, str]) -> Message:
    return replace(message, content=tuple(_restore(block, names) for block in message.content))


def _restore(block: ContentBlock, names: Mapping[str, str]) -> ContentBlock:
    if isinstance(block, ToolUseBlock) and block.name in names:
        return replace(block, name=names[block.name])
    return block
