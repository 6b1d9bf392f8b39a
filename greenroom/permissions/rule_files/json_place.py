"""Where in a JSON text a value stands, so that an error can name its line and column."""

import json  # noqa: TID251 - its scanner is the one that tells positions
import re
from collections.abc import Sequence

__all__ = ["place_of"]

_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def place_of(text: str, path: Sequence[str | int]) -> tuple[int, int]:
    r"""Return line and column of the value at a path of keys and indexes, counted from 1.

    Where the path leads nowhere, the place is that of the last value found on it. The text must
    be valid JSON, or blank.

    Example:
        >>> place_of('{"rules":\n  [{"id": 1}]}', ["rules", 0, "id"])
        (2, 11)
    """
    at = _skip(text, 0)
    for step in path if at < len(text) else ():
        found = _member(text, at, step) if text[at] == "{" else _item(text, at, step)
        if found is None:
            break
        at = found
    line = text.count("\n", 0, at) + 1
    return line, at - text.rfind("\n", 0, at)


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _member(text: str, at: int, key: str | int) -> int | None:
    """Find the value of a key in the object that begins at a place."""
    at = _skip(text, at + 1)
    while text[at] == '"':
        name, end = _DECODER.raw_decode(text, at)
        value = _skip(text, _skip(text, end) + 1)
        if name == key:
            return value
        at = _after(text, value)
    return None


def _item(text: str, at: int, index: str | int) -> int | None:
    """Find an item of the list that begins at a place."""
    if text[at] != "[":
        return None
    at = _skip(text, at + 1)
    seen = 0
    while text[at] != "]":
        if seen == index:
            return at
        at, seen = _after(text, at), seen + 1
    return None


def _after(text: str, value: int) -> int:
    """Return the place of what follows a value and its comma."""
    end = _skip(text, _DECODER.raw_decode(text, value)[1])
    return _skip(text, end + 1) if text[end] == "," else end
