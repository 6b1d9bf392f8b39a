"""What a conversation was about, in a few lines: for `--resume` and `sessions show`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from greenroom.cli.drawing.call_words import call_words
from greenroom.core import (
    ContentBlock,
    Message,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    visible,
)

RecapKind: TypeAlias = Literal["user", "reply", "call", "failed"]
"""What a line is: the user's words, the model's, a call that was made, a call that failed."""

_MARKS: dict[RecapKind, str] = {"user": "> ", "reply": "", "call": "● ", "failed": "✗ "}


@dataclass(frozen=True)
class RecapLine:
    """One thing that was said or done; the text holds nothing that a terminal would obey.

    Attributes:
        kind: what it is.
        text: what is told of it.
        at: the place of its message in the conversation, from 0.
        sender: the program or agent that said it, of the user's words; empty for a person.
    """

    kind: RecapKind
    text: str
    at: int = 0
    sender: str = ""

    def __str__(self) -> str:
        return self.sender + _MARKS[self.kind] + self.text


def recap(messages: Sequence[Message], last: int | None = None) -> list[RecapLine]:
    """Retell the last few messages of a conversation, or all.

    A call stands with how it went: what was interrupted shows as interrupted.

    Example:
        >>> [str(line) for line in recap([Message.user("hello"), Message.assistant("Hi!")])]
        ['> hello', 'Hi!']
    """
    # Results follow their call within the next message, and providers reuse ids.
    start = 0 if last is None else _beginning(messages, last)
    lines: list[RecapLine] = []
    for at, message in enumerate(messages[start:], start):
        after = messages[at + 1].tool_results if at + 1 < len(messages) else ()
        for block in message.content:
            line = _line(message, block, after)
            if line is not None:
                lines.append(replace(line, at=at))
    return lines


def earlier_turns(messages: Sequence[Message], last: int) -> int:
    """Count the turns that `recap` of the last few messages leaves out."""
    return sum(_is_said(message) for message in messages[: _beginning(messages, last)])


def _beginning(messages: Sequence[Message], last: int) -> int:
    """Return where the last few messages begin, or somewhat before, at words of the user's."""
    start = max(len(messages) - last, 0)
    words = (at for at in range(start, max(start - last, 0) - 1, -1) if _is_said(messages[at]))
    return next(words, start) if messages else 0


def _is_said(message: Message) -> bool:
    return message.role == "user" and bool(message.text)


def recap_text(messages: Sequence[Message]) -> str:
    """Retell a whole conversation as plain text, a blank line between its lines."""
    return "\n\n".join(str(line) for line in recap(messages))


def _line(
    message: Message, block: ContentBlock, results: Sequence[ToolResultBlock]
) -> RecapLine | None:
    match block:
        case TextBlock() if block.text.strip():
            kind: RecapKind = "user" if message.role == "user" else "reply"
            return RecapLine(kind, visible(block.text.strip()), sender=message.sender)
        case ToolUseBlock():
            return _call(block, results)
        case _:
            return None


def _call(call: ToolUseBlock, results: Sequence[ToolResultBlock]) -> RecapLine:
    head = f"{visible(call.name)}  {call_words(call.input)}"
    result = next((each for each in results if each.tool_use_id == call.id), None)
    if result is None or not result.is_error:
        return RecapLine("call", head)
    reason = visible(next(iter(result.text.splitlines()), "failed"))
    return RecapLine("failed", f"{head}\n  {reason}")
