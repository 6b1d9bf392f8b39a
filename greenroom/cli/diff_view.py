"""A unified diff as a person reads it: each line with its number, and no headers."""

from collections.abc import Iterator

from rich.text import Text

from greenroom.cli.painter import ColorScheme
from greenroom.core._internal import compile_later, exact

_HUNK = compile_later(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_GAP = "⋮"


def number_diff(diff: str, scheme: ColorScheme) -> Text:
    r"""Show a unified diff of one file with the numbers of its lines.

    A removed line has its number before the change, the others theirs after it. Blanks at the end
    of a changed line are shown as dots, hidden characters as their code. Other text is shown as it
    is.

    Example:
        >>> print(number_diff("--- a\n+++ a\n@@ -7,2 +7,2 @@\n x\n-y\n+z", ColorScheme()))
        7   x
        8 - y
        8 + z
    """
    rows = list(_number(diff.split("\n")))
    width = max((len(number) for number, _, _ in rows), default=0)
    text = Text()
    for number, sign, line in rows:
        style = {"+": scheme.added, "-": scheme.removed, " ": ""}.get(sign, scheme.note)
        text.append(f"{number:>{width}} ", scheme.note)
        text.append(f"{sign} {_mark_blanks(sign, exact(line))}".rstrip(" ") + "\n", style)
    text.right_crop(1)
    return text


def _number(lines: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield number, sign and text of each line; a place between two hunks has no number."""
    old = new = 0
    for line in lines:
        hunk = _HUNK.match(line)
        if hunk:
            if old:
                yield "", _GAP, ""
            old, new = max(int(hunk[1]), 1), max(int(hunk[2]), 1)
        elif not old:
            if not line.startswith(("--- ", "+++ ")):
                yield "", "", line
        elif line.startswith("-"):
            yield str(old), "-", line[1:]
            old += 1
        elif line.startswith("+"):
            yield str(new), "+", line[1:]
            new += 1
        elif line.startswith("\\"):
            yield "", "\\", line[1:].strip()
        else:
            yield str(new), " ", line[1:]
            old, new = old + 1, new + 1


def _mark_blanks(sign: str, line: str) -> str:
    bare = line.rstrip(" ")
    return bare + "·" * (len(line) - len(bare)) if sign in "+-" else line
