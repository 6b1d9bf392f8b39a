"""What the offline model says of a tool's result: it counts, and quotes."""

import re

from greenroom.core import ToolResultBlock, ToolUseBlock, clip

_QUOTED_LINES = 20
_QUOTED_CHARACTERS = 2_000


def answer(call: ToolUseBlock, result: ToolResultBlock) -> str:
    """Tell what a call gave; a failed or denied one is said to have failed, and why.

    Example:
        >>> call = ToolUseBlock("t1", "Glob", {"pattern": "*.py"})
        >>> print(answer(call, ToolResultBlock("t1", is_error=True)))
        Glob did not do it, and gave no reason.
    """
    text = result.text.strip("\n")
    if result.is_error:
        if not text.strip():
            return f"{call.name} did not do it, and gave no reason."
        return f"{call.name} did not do it. It said:\n\n{_quote(text)}"
    if call.name == "Task":
        return f"The subagent answered:\n\n{clip(text, _QUOTED_CHARACTERS)}"
    head = _head(call, text)
    return f"{head}\n\n{_quote(text)}" if text.strip() else head


def _head(call: ToolUseBlock, text: str) -> str:
    count = len(text.splitlines())
    lines = f"{count} line" if count == 1 else f"{count} lines"
    match call.name:
        case "Read":
            return f"{call.input.get('file_path')}, {lines}:"
        case "Glob":
            return f"Files that match {call.input.get('pattern')}, {lines}:"
        case "Grep":
            return f"Matches of {call.input.get('pattern')}, {lines}:"
        case "Bash" if not text.strip():
            return "The command printed nothing."
        case "Bash":
            return f"The command printed {lines}:"
        case _:
            return f"{call.name} is done."


def _quote(text: str) -> str:
    """Quote the beginning as a Markdown block, whatever back-ticks stand in it."""
    lines = text.splitlines()
    shown = clip("\n".join(lines[:_QUOTED_LINES]), _QUOTED_CHARACTERS)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", shown)), default=0))
    left_out = len(lines) - _QUOTED_LINES
    more = f"\n\nand {left_out} lines more." if left_out > 0 else ""
    return f"{fence}\n{shown}\n{fence}{more}"
