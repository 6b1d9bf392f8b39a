"""Describe tools and their calls in plain text, for models without native tool calls."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from greenroom.core import (
    ContentBlock,
    Message,
    ModelRequest,
    NamedTool,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
    serde,
)

_FORMAT = """You work with tools. To call one, write a thought and one action, and then stop:

Thought: what you want to find out or do next
Action: {"tool": "NAME", "arguments": {"KEY": "VALUE"}}

An action is one JSON object. What came of it is then told to you as "Observation: …"; never write an
observation yourself. When you know the answer, write:

Thought: why you are done
Final Answer: the answer

The tools, each with the JSON Schema of its arguments:
"""


def system_prompt(request: ModelRequest) -> str | Sequence[TextBlock]:
    """Return the system prompt of a request with its tools and the format of calls."""
    tools = "\n".join(map(_describe, request.tools))
    if isinstance(request.system, str):
        return "\n\n".join(filter(None, (request.system, _FORMAT + tools)))
    return (*request.system, TextBlock(_FORMAT + tools))


def _describe(tool: ToolDefinition) -> str:
    return f"- {tool.name}: {tool.description}\n  {serde.dumps(tool.parameters).decode()}"


def closing_note(request: ModelRequest) -> str:
    """Return a note at the end of the prompt for a tool choice other than "auto", else an empty text."""
    match request.tool_choice:
        case "none":
            return "[You can't call tools any more. Write your Final Answer.]"
        case "any":
            return "[Call a tool now.]"
        case NamedTool(name):
            return f"[Call the tool {name} now.]"
        case _:
            return ""


def _is_thought(block: ContentBlock) -> bool:
    """Whether a block is a thought without a signature, which no provider needs back."""
    return isinstance(block, ThinkingBlock) and not block.signature and not block.extra


def convert_to_text(message: Message) -> Iterable[ContentBlock]:
    """Yield the blocks of a message with tool blocks replaced by text, in the format of the prompt."""
    is_answer = message.role == "assistant" and not message.tool_uses
    is_answer &= message.stop_reason is not StopReason.INTERRUPTED
    for place, block in enumerate(message.content):
        line = "\n" if place else ""
        match block:
            case ToolUseBlock(name=name):
                arguments = block.raw_input or serde.dumps(block.input).decode()
                tool = serde.dumps(name).decode()
                yield TextBlock(f'{line}Action: {{"tool": {tool}, "arguments": {arguments}}}')
            case ToolResultBlock():
                said = f"Error: {block.text}" if block.is_error else block.text
                yield TextBlock(f"{line}Observation: {said}")
                yield from (part for part in block.content if not isinstance(part, TextBlock))
            case ThinkingBlock(thinking=thought) if _is_thought(block):
                yield TextBlock(f"{thought}\n")
            case TextBlock(text) if is_answer:
                yield replace(block, text=f"Final Answer: {text}")
            case TextBlock(text) if line and message.tool_results:
                yield replace(block, text=line + text)
            case _:
                yield block
