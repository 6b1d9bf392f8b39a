"""Breaks text into rows that fit into any terminal, with nothing cut off.

Terminals differ in how wide they draw what is combined: a family of emoji takes the columns of one
or of three, a vowel sign of Hindi none or one. A row is broken where the widest would be.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from unicodedata import category

from rich.cells import get_character_cell_size
from rich.text import Text

from greenroom.core._internal import compile_later

_TAB = 8
_WORD = compile_later(r"\S+\s*|\s+")
_JOINED = compile_later(
    r".[\ufe00-\ufe0f\u20e3]*+(?>(?:\u200d.[\ufe00-\ufe0f\u20e3]*+)*)", re.DOTALL
)
_AS_PICTURE = "\ufe0f"  # makes the sign before it a pictograph


def wrap(text: Text, width: int) -> list[Text]:
    """Break text at blanks into rows of at most so many columns; longer words are folded."""
    rows = list[Text]()
    for line in _split(text):
        line.expand_tabs(_TAB)
        for row in line.divide(_word_ends(line.plain, width)):
            row.rstrip()
            rows.append(row)
    return rows


def find_rows(line: str, width: int) -> Iterator[tuple[int, int]]:
    """Find where the rows of a line begin and end, as `wrap` would break it; it has no tabs."""
    if line.isascii() and line[:1] != " " and not _longer_word(width).search(line):
        for found in _row(width).finditer(line):
            yield found.span(1)
        return
    start = 0
    for end in (*_word_ends(line, width), len(line)):
        yield start, start + len(line[start:end].rstrip())
        start = end


@lru_cache(16)
def _longer_word(width: int) -> re.Pattern[str]:
    return re.compile(rf"\S{{{width + 1}}}")


@lru_cache(16)
def _row(width: int) -> re.Pattern[str]:
    """Return what matches as many words as fit, and the blanks behind them."""
    return re.compile(rf"(\S(?>(?:.{{0,{width - 1}}}(?<! )(?= |\Z))?))\s*")


def fold(text: Text, width: int) -> list[Text]:
    """Break text into full rows of at most so many columns, with all their blanks."""
    rows = list[Text]()
    for line in _split(text):
        line.expand_tabs(_TAB)
        rows += line.divide(_folds(line.plain, width, 0))
    return rows


def _split(text: Text) -> Iterable[Text]:
    """Return the lines of a text, whose own style is in their spans: `Text.render` needs it there.

    Without spans it would yield the bare letters.
    """
    if text.style:
        text = text.copy()
        text.stylize_before(text.style)
    return text.split("\n", allow_blank=True)


def count_columns(text: str) -> int:
    """Return how many columns a text takes at the most.

    Example:
        >>> count_columns("ab"), count_columns("漢字"), count_columns("⚠️")
        (2, 4, 2)
    """
    if text.isascii():
        return len(text)
    return sum(map(_columns, text)) + text.count(_AS_PICTURE)


@lru_cache(4096)
def _columns(character: str) -> int:
    return get_character_cell_size(character) or int(category(character) == "Mc")


def _word_ends(line: str, width: int) -> Iterator[int]:
    """Find where to break a line, mostly before words."""
    if len(line) <= width and line.isascii():
        return
    used = 0
    for found in _WORD.finditer(line):
        word = found[0]
        columns = count_columns(word.rstrip())
        if used + columns > width:
            if columns <= width:
                yield found.start()
                used = 0
            else:
                for at in _folds(word.rstrip(), width, used):
                    yield found.start() + at
                    used, columns = 0, count_columns(word[at:].rstrip())
        used += columns + len(word) - len(word.rstrip())


def _folds(text: str, width: int, used: int) -> Iterator[int]:
    """Find where to break a text into rows, the first of which has columns in use."""
    for found in _JOINED.finditer(text):
        columns = count_columns(found[0])
        if used + columns > width and columns:  # marks stay with their letter
            yield found.start()
            used = 0
        used += columns
