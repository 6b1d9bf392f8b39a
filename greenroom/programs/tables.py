"""Tables in text files: what is known about programs, one row for one or several of them.

A row is a title, a colon and words; lines that begin with spaces continue it, and `#` begins a
comment. A title may be of several names with `|` between them, each of which gets the row's words;
what stands before a space belongs to all of them. Rows of one title add up. What titles and words
mean is said at the beginning of each file.
"""

import re
from collections.abc import Mapping
from pathlib import Path

_CONTINUED = re.compile(r"(?:\s*(?:#[^\n]*)?\n)+[ \t]+")


def read_rows(name: str) -> Mapping[str, list[str]]:
    """Read the words of a table by their titles, in order."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    for line in _CONTINUED.sub(" ", text).splitlines():
        head, colon, words = f"{line.partition('#')[0].strip()} ".partition(": ")
        start = head.find(" ") + 1
        for each in head[start:].split("|") if colon else ():
            found.setdefault(f"{head[:start]}{each}", []).extend(words.split())
    return found


class _Titles(dict[str, frozenset[str]]):
    def __missing__(self, title: str) -> frozenset[str]:
        return frozenset()


def read_titles(name: str) -> Mapping[str, frozenset[str]]:
    """Read a table of words by the titles of their rows; a title that is not there has none."""
    return _Titles((title, frozenset(words)) for title, words in read_rows(name).items())
