"""Changes of files as an editor shows them: the text before and after, for each place."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,\d+)? @@")


@dataclass
class Hunk:
    """One place of a change.

    Attributes:
        line: its first line in the file as it will be, from 1.
        is_new: whether there is nothing before it, as in a new file.
        before: the lines that were there.
        after: the lines that will be.
    """

    line: int
    is_new: bool
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


def read_hunks(diff: str) -> Iterator[Hunk]:
    r"""Read the places of a unified diff of one file; none if the text is not a diff.

    Example:
        >>> [hunk] = read_hunks("--- a\n+++ a\n@@ -1,2 +1,2 @@\n x = 1\n-y = 1\n+y = 2")
        >>> hunk.before, hunk.after
        (['x = 1', 'y = 1'], ['x = 1', 'y = 2'])
    """
    hunk: Hunk | None = None
    for line in diff.split("\n"):
        if head := _HUNK.match(line):
            if hunk is not None:
                yield hunk
            hunk = Hunk(max(int(head[3]), 1), is_new=head[1] == "0" and head[2] == "0")
        elif hunk is not None and line[:1] in (" ", "-", "+"):
            if line[:1] != "+":
                hunk.before.append(line[1:])
            if line[:1] != "-":
                hunk.after.append(line[1:])
    if hunk is not None:
        yield hunk


def write_diff(diff: str, path: str) -> list[dict[str, object]]:
    """Write a unified diff as an editor shows it, a place of the file at a time."""
    return [
        {
            "type": "diff",
            "path": path,
            "oldText": None if hunk.is_new else "\n".join(hunk.before),
            "newText": "\n".join(hunk.after),
        }
        for hunk in read_hunks(diff)
    ]
