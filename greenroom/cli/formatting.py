"""Formats sessions, calls and conversations as short text without control characters.

`recap` retells a conversation, for `--resume` and `sessions show`.
"""

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from greenroom import core
from greenroom.core import Message, utc_now
from greenroom.core._internal import clip, compile_later, exact, legible, serde, visible
from greenroom.session import SessionMetadata

_MAX_TITLE = 200  # letters of a title or a folder
_MAX_DAYS = 14  # beyond, a date says more


def one_line(value: object) -> str:
    r"""Show a text in one line, cut where it is long, with nothing in it that a terminal obeys.

    Example:
        >>> one_line("two\nlines \x1b[2J")
        'two lines \\u{1b}[2J'
    """
    text = " ".join(str(value)[: 4 * _MAX_TITLE].split())
    return visible(shorten(text, _MAX_TITLE))


def shorten(text: str, most: int) -> str:
    """Cut a text to at most so many characters, the last of them an ellipsis.

    Example:
        >>> shorten("a long title", 8)
        'a long…'
    """
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def title_of(session: SessionMetadata) -> str:
    """Return the title of a session with its kind, such as fork or subagent."""
    title = one_line(session.metadata.get("title") or "")
    kinds = ["archived"] if session.is_archived else []
    if session.forked_from is not None:
        kinds.append("fork")
    if session.parent_session_id is not None:
        kinds.append("subagent")
    elif not title:
        kinds.append(one_line(session.agent_type))
    return f"{title} ({', '.join(kinds)})".strip() if kinds else title


def model_of(session: SessionMetadata) -> str:
    """Return the model that a session used last, in the form in which `--model` takes it."""
    return one_line(f"{session.provider}:{session.model}") if session.provider else ""


def place_of(session: SessionMetadata) -> str:
    """Return the folder that a session was used in last."""
    return one_line(session.metadata.get("workspace", ""))


def age(moment: datetime) -> str:
    """Describe how long ago it was: in minutes, hours or days, else as a date."""
    passed = utc_now() - moment
    if passed < timedelta(minutes=1):
        return "now"
    if passed < timedelta(hours=1):
        return f"{passed // timedelta(minutes=1)} min"
    if passed < timedelta(days=1):
        return f"{passed // timedelta(hours=1)} h"
    if passed < timedelta(days=_MAX_DAYS):
        return f"{passed.days} d"
    return f"{moment.astimezone():%Y-%m-%d}"


def describe_seconds(seconds: float) -> str:
    """Describe a time in seconds, or in minutes and seconds.

    Example:
        >>> describe_seconds(7.2), describe_seconds(75), describe_seconds(3700)
        ('7 s', '1 min 15 s', '1 h 1 min')
    """
    minutes, rest = divmod(int(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def shorten_home(place: str) -> str:
    """Abbreviate the home folder to `~`.

    Example:
        >>> shorten_home("/tmp")
        '/tmp'
    """
    home = os.path.expanduser("~").rstrip("/")
    is_below = place == home or place.startswith(f"{home}/")
    return f"~{place[len(home) :]}" if is_below else place


_KEYS = ("command", "file_path", "pattern", "url", "query", "prompt", "question", "plan")
_MAX_CALL = 120
_MAX_END = 3  # lines at the end of what a call has printed before it was cut off, in a recap
_MAX_LINES = 20  # of what a person has said, in a recap
_BLANKS = compile_later(r"[ \t\n]++")


def describe_call(input: Mapping[str, object]) -> str:  # noqa: A002 - the word that models and tools use
    """Describe the input of a call by its command, file, question or the like, else by its JSON.

    Example:
        >>> describe_call({"file_path": "a.py", "old_string": "x"}), describe_call({"a": 1})
        ('a.py', '{"a":1}')
        >>> describe_call({"query": "who wrote trio?", "limit": 5})
        'who wrote trio?'
    """
    values = (input.get(key) for key in _KEYS)
    words = next((value for value in values if value and isinstance(value, str)), None)
    text = serde.encode(dict(input)).decode() if words is None else words
    # Only what a shell splits at: another blank is a letter of a name.
    return exact(clip(_BLANKS.sub(" ", text).strip(" "), _MAX_CALL))


RecapKind: TypeAlias = Literal["user", "reply", "call", "failed"]
"""What a line is: the user's words, the model's, a call that was made, a call that failed."""

_MARKS: dict[RecapKind, str] = {"user": "> ", "reply": "", "call": "● ", "failed": "✗ "}


class RecapLine(msgspec.Struct, frozen=True):
    """One thing that was said or done; control characters in the text are made visible.

    Attributes:
        kind: what it is.
        text: what was said or done.
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

    A call is shown with its outcome, such as interrupted.

    Example:
        >>> [str(line) for line in recap([Message.user("hello"), Message.assistant("Hi!")])]
        ['> hello', 'Hi!']
    """
    # Results follow their call within the next message, and providers reuse ids.
    start = 0 if last is None else _find_start(messages, last)
    lines: list[RecapLine] = []
    for at, message in enumerate(messages[start:], start):
        after = messages[at + 1].tool_results if at + 1 < len(messages) else ()
        for block in message.content:
            line = _line(message, block, after)
            if line is not None:
                lines.append(replace(line, at=at))
    return lines


def count_earlier_turns(messages: Sequence[Message], last: int) -> int:
    """Count the turns that `recap` of the last few messages leaves out."""
    return sum(_has_user_text(message) for message in messages[: _find_start(messages, last)])


def _find_start(messages: Sequence[Message], last: int) -> int:
    """Return where the last few messages begin, or a little before, at text of the user."""
    start = max(len(messages) - last, 0)
    words = (
        at for at in range(start, max(start - last, 0) - 1, -1) if _has_user_text(messages[at])
    )
    return next(words, start) if messages else 0


def first_words(message: Message) -> str:
    """Return what a message begins with: of a person's, the words, without files behind them.

    Example:
        >>> first_words(Message.user("look"))
        'look'
    """
    return next((each.text for each in message.content if isinstance(each, core.TextBlock)), "")


def _has_user_text(message: Message) -> bool:
    return message.role == "user" and bool(message.text)


def _line(
    message: Message, block: core.ContentBlock, results: Sequence[core.ToolResultBlock]
) -> RecapLine | None:
    match block:
        case core.TextBlock() if block.text.strip():
            text = legible(block.text.strip())
            if message.role != "user":
                return RecapLine("reply", text)
            return RecapLine("user", _cut(text), sender=message.sender)
        case core.ToolUseBlock():
            return _call(block, results)
        case _:
            return None


def _cut(text: str) -> str:
    """Cut what a person has pasted, or the file that they have named."""
    lines = text.splitlines()
    more = len(lines) - _MAX_LINES
    return "\n".join([*lines[:_MAX_LINES], f"… {more} more lines"]) if more > 1 else text


def _call(call: core.ToolUseBlock, results: Sequence[core.ToolResultBlock]) -> RecapLine:
    head = f"{exact(call.name)}  {describe_call(call.input)}"
    result = next((each for each in results if each.tool_use_id == call.id), None)
    if result is None or not result.is_error:
        return RecapLine("call", head)
    return RecapLine("failed", "\n  ".join([head, *_describe_failure(result.text)]))


def _describe_failure(text: str) -> list[str]:
    """Return the first line of what went wrong; where it announces output, also the end of that."""
    first, *output = [visible(line) for line in text.splitlines() if line.strip()] or ["failed"]
    if not first.endswith(":"):
        return [first]
    more = [f"… {len(output) - _MAX_END} lines"] if len(output) > _MAX_END else []
    return [first, *more, *output[-_MAX_END:]]
