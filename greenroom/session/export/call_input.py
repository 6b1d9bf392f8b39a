"""What a call was given, as a page shows it."""

from collections.abc import Mapping

import msgspec

from greenroom.core import ToolUseBlock, clip, serde
from greenroom.session.export.printed import printed

_KEYS = ("command", "file_path", "path", "pattern", "url", "description", "prompt")
_LONGEST = 100  # characters that stand in a line


def call_words(input: Mapping[str, object]) -> str:  # noqa: A002 - the word that models and tools use
    """Say on what a call works, in one line.

    Example:
        >>> call_words({"file_path": "a.py", "old_string": "x"}), call_words({"n": 1}), call_words({})
        ('a.py', '{"n":1}', '')
    """
    values = (input.get(key) for key in _KEYS)
    words = next((value for value in values if value and isinstance(value, str)), "")
    text = words or (serde.encode(dict(input)).decode() if input else "")
    return printed(clip(" ".join(text.split()), _LONGEST).replace("\n", " "))


def shown_input(use: ToolUseBlock) -> dict[str, str]:
    """Return the fields of a call as text, or none where the call's one line says it all.

    Example:
        >>> shown_input(ToolUseBlock("t", "Bash", {"command": "ls", "timeout": 3}))
        {'command': 'ls', 'timeout': '3'}
        >>> shown_input(ToolUseBlock("t", "Bash", {"command": "ls"}))
        {}
    """
    fields = {name: value_text(value) for name, value in use.input.items()}
    return {} if list(fields.values()) == [call_words(use.input)] else fields


def value_text(value: object) -> str:
    """Return a text as it is, and another JSON value indented."""
    if isinstance(value, str):
        return value
    return msgspec.json.format(serde.encode(value), indent=2).decode()


def is_short(text: str) -> bool:
    """Whether a value stands well in a line, where blanks count for one."""
    return bool(text) and text == " ".join(text.split()) and len(text) <= _LONGEST
