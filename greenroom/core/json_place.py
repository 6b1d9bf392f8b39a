"""Where a value is in a text of JSON, for errors that lead people to the line."""

import re
from collections.abc import Sequence
from typing import TypeVar

from greenroom.core import serde
from greenroom.core.errors import ConfigurationFileError, InvalidJSONError

_TOKEN = re.compile(
    r'(?P<key>"(?:[^"\\]|\\.)*+")\s*+:|(?P<open>[\[{])|(?P<close>[\]}])|(?P<comma>,)'
    r'|"(?:[^"\\]|\\.)*+"|[^\s,\[\]{}"]++'
)

E = TypeVar("E", bound=ConfigurationFileError)


def place_in_json(text: str, path: Sequence[str | int]) -> tuple[int, int]:
    r"""Find the line and column of the value at a path of keys and indexes, counted from 1.

    Where the path leads nowhere, the place is that of the last value found on it. The text is valid
    JSON, or blank.

    Example:
        >>> place_in_json('{"rules":\n  [{"id": 1}]}', ["rules", 0, "id"])
        (2, 11)
    """
    at, depth = 0, -1
    steps: list[object] = []  # that lead to the token
    for found in _TOKEN.finditer(text):
        if found["key"]:
            steps[-1] = serde.loads(found["key"])
        elif found["close"]:
            steps.pop()
        elif not found["comma"]:
            if len(steps) > depth and steps == list(path[: len(steps)]):
                at, depth = found.start(), len(steps)
            if found["open"]:
                steps.append(0 if found["open"] == "[" else None)
        elif isinstance(steps[-1], int):
            steps[-1] += 1
    return _place(text, at)


def _place(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def error_at(
    kind: type[E], text: str, path: str, steps: Sequence[str | int], message: str, hint: str = ""
) -> E:
    """Make the error of a value in a file: it names the file, line, column and field."""
    line, column = place_in_json(text, steps)
    field = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    message = f"{field.removeprefix('.')}: {message}"
    return kind(message, path=path, line=line, column=column, hint=hint)


def error_of_json(
    kind: type[E], text: str, error: InvalidJSONError, path: str, hint: str = ""
) -> E:
    """Make the error of a file that is not JSON; it names the line where that is known."""
    line, column = (getattr(error.__cause__, each, None) for each in ("lineno", "colno"))
    if line is None:
        line, column = _place_of_repeated_key(text, error.message)
    return kind(error.message, path=path, line=line, column=column, hint=hint)


def _place_of_repeated_key(text: str, message: str) -> tuple[int, int] | tuple[None, None]:
    """Find the second of two equal keys of one object that a message names; the text may be cut."""
    seen: list[set[str]] = []  # for each list and object that is open
    for found in _TOKEN.finditer(text):
        key = found["key"]
        if found["open"]:
            seen.append(set())
        elif found["close"]:
            seen = seen[:-1]
        elif key and seen:
            if key in seen[-1] and repr(key[1:-1]) in message:
                return _place(text, found.start())
            seen[-1].add(key)
    return None, None
