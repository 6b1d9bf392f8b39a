"""Tables in text files: what is known about programs, one row for one or several of them.

A row is a head, a colon and entries; lines that begin with spaces continue it, and `#` begins a
comment. What heads and entries mean is said at the beginning of each file.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

_CONTINUED = re.compile(r"(?:\s*(?:#[^\n]*)?\n)+[ \t]+")


def read_rows(file: Path) -> Iterator[tuple[str, list[str]]]:
    """Read the heads of a table and their entries; a head may be empty."""
    text = _CONTINUED.sub(" ", file.read_text(encoding="utf-8"))
    for line in filter(None, (line.partition("#")[0].strip() for line in text.splitlines())):
        head, _, entries = f"{line} ".partition(": ")
        yield head, entries.split()


class _Titles(dict[str, frozenset[str]]):
    def __missing__(self, title: str) -> frozenset[str]:
        return frozenset()


def read_titles(file: Path) -> Mapping[str, frozenset[str]]:
    """Read a table of words by the titles of their rows; a title that is not there has none.

    A title is a kind, and perhaps names with `|` between them, each of which gets the row's words.
    """
    found = _Titles()
    for title, words in read_rows(file):
        kind, _, names = title.partition(" ")
        for name in names.split("|"):
            found[f"{kind} {name}".strip()] |= frozenset(words)
    return found
