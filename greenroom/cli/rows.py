"""Breaks text into rows that fit into any terminal, with nothing cut off, and paints paragraphs.

Terminals differ in how wide they draw what is combined: a family of emoji takes the columns of one
or of three, a vowel sign of Hindi none or one. A row is broken where the widest would be.

Most of what a model says are paragraphs in which nothing but code is marked. Reading such a one as
Markdown and drawing it with rich takes twenty times as long as what stands here, which gives the
same.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from unicodedata import category

import msgspec
from rich.cells import get_character_cell_size
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from greenroom.cli.renderables import Console, ConsoleOptions, RenderResult
from greenroom.core._internal import compile_later, legible

COLOR_SYSTEMS = {
    None: None,
    "standard": ColorSystem.STANDARD,
    "256": ColorSystem.EIGHT_BIT,
    "truecolor": ColorSystem.TRUECOLOR,
}
"""What rich calls the colours that a terminal has."""

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


MAX_PROSE = 100
"""Columns of a line of prose, however wide the terminal is."""

# What means more than itself in Markdown; but for code, and what does so at the start of a line.
_MARKS = compile_later(r"[\\*_~\[<&\t\r\x00]")
_CODE = compile_later(r"(?<!`)(?P<fence>`+)(?!`)(?P<code>.+?)(?<!`)(?P=fence)(?!`)")
# What a line of a paragraph may begin with besides a letter or a digit.
_BEGINS = "\"'(\u201c\u2018\u201e«`"
_NO_PARAGRAPH = compile_later(r"```|\d{1,9}[.)](?: |\Z)")  # code, or an item of a list


class Prose:
    """Text of which no line is longer than is good to read."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in wrap(self._text, min(options.max_width, MAX_PROSE)):
            yield from (*line.render(console), Segment.line())


class PlainProse(msgspec.Struct, frozen=True):
    """Paragraphs in which nothing but code is marked.

    Attributes:
        lines: of each line its pieces, which are words and code in turn; a blank one has none.
        code_style: that of code.
    """

    lines: tuple[tuple[str, ...], ...]
    code_style: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Prose(self._as_text())

    def paint(self, width: int, colors: str | None) -> str:
        """Return the same text as rich would, for a window of so many columns."""
        before, after = _codes(self.code_style, colors)
        width = min(width, MAX_PROSE)
        rows = list[str]()
        for pieces in self.lines:
            line = "".join(pieces)
            painted = _colour(pieces, before, after) if before else None
            if not line:
                rows.append("")
            for start, end in find_rows(line, width):
                rows.append(line[start:end] if painted is None else painted(start, end))
        return "".join([f"{row}\n" for row in rows])

    def _as_text(self) -> Text:
        text = Text()
        for number, line in enumerate(self.lines):
            text.append("\n" if number else "")
            for place, piece in enumerate(line):
                text.append(piece, Style.parse(self.code_style) if place % 2 else Style())
        return text


def read_plain(text: str, code_style: str) -> PlainProse | None:
    """Read Markdown that is paragraphs with no marks but code; return None for any other."""
    if _MARKS.search(text):
        return None
    lines = list[tuple[str, ...]]()
    for line in text.strip("\n").split("\n"):
        bare = line.rstrip(" ")
        pieces = _split_code(bare) if bare else ()
        if pieces is None:
            return None
        if pieces or (lines and lines[-1]):
            lines.append(pieces)
    while lines and not lines[-1]:
        del lines[-1]
    return PlainProse(tuple(lines), code_style) if lines else None


def _split_code(line: str) -> tuple[str, ...] | None:
    """Return the words and the code of a line in turn; None if it may be no line of a paragraph."""
    start = line[:1]
    if not (start.isalnum() or start in _BEGINS) or not line.isprintable():
        return None
    if _NO_PARAGRAPH.match(line):
        return None
    if not line.isascii():
        line = legible(line)
    if "`" not in line:
        return (line,)
    pieces, at = list[str](), 0
    for found in _CODE.finditer(line):
        code = found["code"]
        if code[0] == code[-1] == " " and code.strip(" "):
            code = code[1:-1]
        pieces += (line[at : found.start()], code)
        at = found.end()
    pieces.append(line[at:])
    return None if any("`" in piece for piece in pieces[::2]) else tuple(pieces)


def _colour(pieces: tuple[str, ...], before: str, after: str) -> Callable[[int, int], str]:
    """Return what colours the code in a part of a line."""
    spans = list[tuple[int, int]]()
    at = 0
    for place, piece in enumerate(pieces):
        if place % 2:
            spans.append((at, at + len(piece)))
        at += len(piece)
    line = "".join(pieces)

    def paint(start: int, end: int) -> str:
        parts, at = list[str](), start
        for first, last in spans:
            if first >= end:
                break
            begin, stop = max(first, at), min(last, end)
            if begin < stop:
                parts += (line[at:begin], before, line[begin:stop], after)
                at = stop
        return "".join([*parts, line[at:end]])

    return paint


@lru_cache(16)
def _codes(style: str, colors: str | None) -> tuple[str, str]:
    """Return what switches a style on and off."""
    if colors is None:
        return "", ""
    shown = Style.parse(style).render("x", color_system=COLOR_SYSTEMS[colors])
    before, _, after = shown.partition("x")
    return before, after
