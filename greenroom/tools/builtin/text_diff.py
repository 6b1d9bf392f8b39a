"""Unified diffs of bounded size."""

import difflib
import re

MAX_DIFF_CHARACTERS = 400_000
_MAX_LINES = 10_000
_COMPARED_LINES = 1_000
_CONTEXT = 3


def unified_diff(before: str, after: str, path: str) -> str:
    r"""Return the unified diff of two texts, or a line that says why there is none.

    It takes some milliseconds at the most, so an event loop can bear it. Where more than 1,000 lines
    lie between the first change and the last, they count as replaced as a whole; texts of more than
    400,000 characters or 10,000 lines are not compared.

    Example:
        >>> print(unified_diff("a\nb\n", "a\nc\n", "f.txt"))
        --- f.txt
        +++ f.txt
        @@ -1,2 +1,2 @@
         a
        -b
        +c
    """
    if len(before) + len(after) > MAX_DIFF_CHARACTERS:
        return f"{path}: too large to compare"
    old, new = before.split("\n"), after.split("\n")
    if len(old) + len(new) > _MAX_LINES:
        return f"{path}: too many lines to compare"
    # A final newline makes no line of its own; a missing one shows as such.
    old_end, new_end = old.pop() if not old[-1] else None, new.pop() if not new[-1] else None
    lines = _hunks(old, new)
    if lines:
        lines = [f"--- {path}", f"+++ {path}", *lines]
    if old_end != new_end:
        lines.append(
            "\\ The final newline was added" if new_end == "" else "\\ No newline at the end"
        )
    return "\n".join(line.rstrip("\r") for line in lines)


def _hunks(old: list[str], new: list[str]) -> list[str]:
    first = _common(old, new)
    last = _common(old[first:][::-1], new[first:][::-1])
    start, end = max(first - _CONTEXT, 0), max(last - _CONTEXT, 0)
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    if len(old) + len(new) > _COMPARED_LINES:
        return _replaced(old, new, first - start, last - end, start)
    lines = list(difflib.unified_diff(old, new, n=_CONTEXT, lineterm=""))[2:]
    return [_moved(line, start) if line.startswith("@@") else line for line in lines]


def _common(old: list[str], new: list[str]) -> int:
    """Count the lines that both begin with."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(old), len(new)))


def _moved(header: str, lines: int) -> str:
    return re.sub(r"(?<=[-+])\d+", lambda number: str(int(number[0]) + lines), header)


def _replaced(old: list[str], new: list[str], above: int, below: int, start: int) -> list[str]:
    """Write one hunk: the lines above the change, the old ones, the new ones, those below."""
    # An empty range counts from the line before it.
    old_start, new_start = start + bool(old), start + bool(new)
    header = f"@@ -{old_start},{len(old)} +{new_start},{len(new)} @@"
    removed = [f"-{line}" for line in old[above : len(old) - below]]
    added = [f"+{line}" for line in new[above : len(new) - below]]
    tail = old[len(old) - below :]
    return [header, *_kept(old[:above]), *removed, *added, *_kept(tail)]


def _kept(lines: list[str]) -> list[str]:
    return [f" {line}" for line in lines]
