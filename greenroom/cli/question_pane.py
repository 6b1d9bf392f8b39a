"""Rows of painted text, and the pane of a question: what of it is on the screen, and was read."""

from collections.abc import Iterator
from textwrap import wrap

from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.utils import get_cwidth

from greenroom.cli.terminal import NARROWEST, QuestionText

_MIN_ROWS = 3  # rows of a question, below which it can't be read
_TOO_SMALL = f"the terminal is too narrow or too low for a question: {NARROWEST} columns, 8 lines"
_KEYS = "Space/PgDn: on, PgUp: back"
_CUT = "… {count:,} more rows · Space: all"


def fold(text: str, columns: int) -> list[StyleAndTextTuples]:
    r"""Cut painted text into rows of at most so many columns; no character of it is left out.

    Example:
        >>> ["".join(part[1] for part in row) for row in fold("abc\nde", 2)]
        ['ab', 'c', 'de']
    """
    rows = list[StyleAndTextTuples]()
    row, used = StyleAndTextTuples(), 0
    for style, piece in _pieces(text):
        if piece == "\n":
            rows.append(row)
            row, used = [], 0
            continue
        start = 0
        for at, character in enumerate(piece):
            width = 1 if " " <= character <= "~" else get_cwidth(character)
            if used + width > columns and used:  # one without width stays with the one before it
                row.append((style, piece[start:at]))
                rows.append(row)
                row, used, start = [], 0, at
            used += width
        row.append((style, piece[start:]))
    return [*rows, row] if row else rows


def join(rows: list[StyleAndTextTuples]) -> StyleAndTextTuples:
    """Join rows by newlines."""
    parts = StyleAndTextTuples()
    for number, row in enumerate(rows):
        parts += [("", "\n"), *row] if number else row
        # Prompt_toolkit adds what has no width, such as an accent, to the cell before it, and
        # writes it into the next one as well: at the end of a row it would be there twice.
        last = row[-1][1][-1:] if row else ""
        if last > "~" and not get_cwidth(last):
            parts.append(("", " "))
    return parts


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Return runs of one style, and each newline separately."""
    style, run = "", list[str]()
    for part in to_formatted_text(ANSI(text)):
        if run and (part[0] != style or part[1] == "\n"):
            yield style, "".join(run)
            run = []
        style = part[0]
        if part[1] == "\n":
            yield style, "\n"
        else:
            run.append(part[1])
    if run:
        yield style, "".join(run)


class QuestionPane:
    """One question, fitted into the available rows, and how much of it was shown.

    At first the content, such as that of a file, is cut in the middle where there is no room for
    it, and the rest is whole. Where even that has no room, or once all is asked for, the rows are
    shown page by page, and the choices stay below them. What has to be read before a yes counts as
    read once every row of it was shown. Another width makes other rows: a question that was not
    read to its end by then begins again.
    """

    def __init__(self, shown: QuestionText, *, was_read: bool = False) -> None:
        """Take what the question shows, and whether it was read in another form."""
        self.shown = shown
        self.is_too_small = False
        self._was_read = was_read
        self._block = list[StyleAndTextTuples]()  # what has to be read
        self._content = list[StyleAndTextTuples]()
        self._columns = 0
        self._is_open = False  # whether the content is shown whole
        self._is_cut = False
        self._rows = list[StyleAndTextTuples]()  # of which a page is shown; none if it is not paged
        self._top = 0
        self._height = 0  # of a page
        self._shown_rows = 0  # rows that were shown, from the first one on without a gap

    @property
    def is_read(self) -> bool:
        """Whether all that has to be read was on the screen."""
        return self._was_read

    @property
    def is_paged(self) -> bool:
        """Whether there is more than is shown."""
        return not self.is_too_small and (self._is_cut or bool(self._rows))

    def is_same(self, shown: QuestionText) -> bool:
        """Whether this is the same text, but perhaps for its choices."""
        return self.shown.paint is shown.paint and self.shown.content is shown.content

    def fit(self, columns: int, room: int, place: str = "") -> list[StyleAndTextTuples]:
        """Return the rows to show in this many columns and lines."""
        self.is_too_small = columns < NARROWEST or room < _MIN_ROWS
        if self.is_too_small:
            return fold("\n".join(wrap(_TOO_SMALL, columns)), columns)[: max(room, 0)]
        self._fold(columns)
        choices = fold(self.shown.choices(columns), columns)
        footer = _footer(place, columns)
        left = room - len(choices) - len(footer) - len(self._block)
        if left >= 0 and (not self._is_open or len(self._content) <= left):
            self._rows, self._top = [], 0
            return [*self._cut(left, columns), *self._block, *choices, *footer]
        return self._fit_page(columns, room, place, choices)

    def _cut(self, room: int, columns: int) -> list[StyleAndTextTuples]:
        """Return the head and the tail of the content, and between them how much is left out."""
        self._is_cut = len(self._content) > room
        if not self._is_cut:
            return self._content
        if room < 1:
            return []
        tail = (room - 1) // 3
        head = room - 1 - tail
        count = len(self._content) - head - tail
        note: StyleAndTextTuples = [("class:question", _CUT.format(count=count)[:columns])]
        return [*self._content[:head], note, *self._content[len(self._content) - tail :]]

    def _fit_page(
        self, columns: int, room: int, place: str, choices: list[StyleAndTextTuples]
    ) -> list[StyleAndTextTuples]:
        """Return a page of all rows, its number, and the choices; these too by pages if need be."""
        self._is_cut = False
        rows = [*self._content, *self._block]
        # As many lines for each page, whichever its number.
        lines = len(_footer(self._page(place, 9_999, 9_999), columns))
        if room - lines - len(choices) < _MIN_ROWS:
            rows, choices = [*rows, *choices], []
        if len(rows) != len(self._rows):
            self._shown_rows, self._top = 0, 0
        self._rows = rows
        self._height = max(room - lines - len(choices), 1)
        pages = -(-len(rows) // self._height)
        self._top = max(min(self._top, len(rows) - self._height), 0)
        page = -(-self._top // self._height) + 1
        footer = _footer(self._page(place, page, pages), columns)
        footer = footer[: max(room - self._height - len(choices), 0)]
        return [*rows[self._top : self._top + self._height], *choices, *footer]

    def mark_shown(self) -> None:
        """Record that the rows returned by `fit` are on the screen."""
        if self.is_too_small or not self._columns:
            return
        if self._rows and self._top <= self._shown_rows:
            self._shown_rows = max(self._shown_rows, min(self._top + self._height, len(self._rows)))
        if self._shown_rows >= len(self._rows):
            self._was_read = True

    def turn(self, pages: int) -> None:
        """Show the content whole, or turn pages; not beyond a page that has not been shown yet."""
        if not self._rows:
            self._is_open = self._is_open or pages > 0
        elif pages < 0 and self._top == 0:
            self._is_open = False
        elif pages < 0 or self._top + self._height <= self._shown_rows:
            self._top = max(self._top + pages * self._height, 0)

    def _fold(self, columns: int) -> None:
        if columns == self._columns:
            return
        self._block = fold(self.shown.paint(columns), columns)
        self._content = fold(self.shown.content(columns), columns)
        self._columns, self._top, self._shown_rows, self._rows = columns, 0, 0, []

    @staticmethod
    def _page(place: str, page: int, pages: int) -> str:
        return " · ".join(filter(None, (place, f"page {page} of {pages}", _KEYS)))


def _footer(text: str, columns: int) -> list[StyleAndTextTuples]:
    return [[("class:question", line)] for line in wrap(text, columns - 1)]
