"""Unified diffs of bounded size."""

import difflib

__all__ = ["MAX_DIFF_CHARACTERS", "unified_diff"]

MAX_DIFF_CHARACTERS = 400_000
_MAX_LINES = 10_000


def unified_diff(before: str, after: str, path: str) -> str:
    r"""Return the unified diff of two texts, or a line that says why there is none.

    Texts of more than 400,000 characters or 10,000 lines are not compared: it would take too long.

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
    lines = list(difflib.unified_diff(old, new, path, path, lineterm=""))
    if old_end != new_end:
        lines.append(
            "\\ The final newline was added" if new_end == "" else "\\ No newline at the end"
        )
    return "\n".join(line.rstrip("\r") for line in lines)
