"""Where in a JSON text a value stands, so that an error can name its line and column."""

import re
from collections.abc import Sequence

from greenroom.core import serde

__all__ = ["place_of"]

_TOKEN = re.compile(
    r'(?P<key>"(?:[^"\\]|\\.)*+")\s*+:|(?P<open>[\[{])|(?P<close>[\]}])|(?P<comma>,)'
    r'|"(?:[^"\\]|\\.)*+"|[^\s,\[\]{}"]++'
)


def place_of(text: str, path: Sequence[str | int]) -> tuple[int, int]:
    r"""Return line and column of the value at a path of keys and indexes, counted from 1.

    Where the path leads nowhere, the place is that of the last value found on it. The text must
    be valid JSON, or blank.

    Example:
        >>> place_of('{"rules":\n  [{"id": 1}]}', ["rules", 0, "id"])
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
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
