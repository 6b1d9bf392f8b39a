r"""What a program wrote for a terminal, as text: the last frame of each line, without codes.

Programs draw progress by going back: to the start of the line (`\r`), one place (`\b`), or some
lines up. `TerminalText` does what a terminal would do with that, and removes what only colours or
configures one. It keeps the last lines as a terminal would, since they may still change; what has
left them is final. What becomes final does not depend on how the output is cut into pieces.
"""

import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING

from greenroom.core._internal import compile_later

if TYPE_CHECKING:
    import re

MAX_ROWS = 64
"""Lines that may still change."""
MAX_COLUMNS = 8_192
"""Characters of a line that may still change; of a longer one, the beginning is final."""
_MAX_PLACE = 1_000  # where a code may put the cursor
_MAX_CODE = 256  # characters
_MAX_STRING = 65_536  # characters of a string for the terminal, such as a picture

_PLAIN = compile_later("[^\0-\x08\x0b-\x1f\x7f-\x9f]+")
_CODE = compile_later("\x1b(?:\\[([0-?]*)[ -/]*([@-~])|(?!\\[)(?:([PX^_\\]])|[ -/]*([0-~])))")
_UNFINISHED = compile_later("\x1b(?:\\[[0-?]*[ -/]*|[ -/]*)")
_STRING_END = compile_later("[\x07\x18\x1a\n]|\x1b\\\\?")
_NUMBER = compile_later(r"\d+")
_HALF = "\0"  # follows a letter that takes two columns, so that places are columns


class _Row:
    """A line that may still change, and what was shown of it."""

    __slots__ = ("is_closed", "shown", "text", "touched")

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.touched = False  # whether a frame was drawn over another
        self.shown = ""
        self.is_closed = False  # whether it was shown as a whole line

    @property
    def final(self) -> str:
        """Its text; blanks at the end are what is left of a longer frame."""
        text = self.text.replace(_HALF, "")
        return text.rstrip(" ") if self.touched else text


class TerminalText:
    r"""Turns the output of a program into plain text.

    Example:
        >>> screen = TerminalText()
        >>> screen.feed("\x1b[32mDownload\x1b[0m\n 10%\r 50%\r100%\n")
        ''
        >>> screen.pending
        'Download\n100%\n'
    """

    def __init__(self) -> None:
        self._rows = [_Row()]
        self._row = self._column = 0
        self._unfinished = ""  # a code that was cut off
        self._string = ""  # the kind of string that is being left out
        self._left = 0  # characters that it may still have
        self._final: list[str] = []
        self._live: list[str] = []
        self._open: _Row | None = None  # the row in which what was shown ends
        self._has_screen = False

    def feed(self, text: str) -> str:
        """Take more output, and return the text that became final."""
        text, self._unfinished = self._unfinished + text, ""
        at = 0
        while at < len(text):
            at = self._skip_string(text, at) if self._string else self._take(text, at)
        final, self._final = "".join(self._final), []
        return final

    @property
    def pending(self) -> str:
        """The last lines, which may still change."""
        return "\n".join(row.final for row in self._rows)

    def take_live(self) -> str:
        """Return what a person has not seen yet; a line that has changed is shown once more."""
        for at, row in enumerate(self._rows):
            self._show(row, closed=at < len(self._rows) - 1)
        live, self._live = "".join(self._live), []
        return live

    def _take(self, text: str, at: int) -> int:
        plain = _PLAIN.match(text, at)
        if plain is not None:
            self._write(plain[0])
            return plain.end()
        if text[at] != "\x1b":
            self._control(text[at])
            return at + 1
        code = _CODE.match(text, at)
        if code is not None and code.end() - at <= _MAX_CODE:
            self._obey(code)
            return code.end()
        if _UNFINISHED.fullmatch(text, at) and len(text) - at < _MAX_CODE:
            self._unfinished = text[at:]
            return len(text)
        return at + 1

    def _obey(self, code: "re.Match[str]") -> None:
        if code[3]:
            self._string, self._left = code[3], _MAX_STRING
        elif code[2]:
            numbers = [min(int(each), _MAX_PLACE) for each in _NUMBER.findall(code[1])]
            obey = _CODES.get(code[2])
            if obey is not None and not code[1].startswith(("?", ">", "<", "=")):
                obey(self, numbers)
        elif code[4] == "M":
            self._move(-1)
        elif code[4] == "c":
            self._clear()

    def _skip_string(self, text: str, at: int) -> int:
        """Leave out a string for the terminal; a line end ends all but pictures."""
        for end in _STRING_END.finditer(text, at, at + self._left):
            if end[0] == "\n" and self._string == "P":
                continue
            if end[0] == "\x1b" and end.end() == len(text):  # perhaps half of its end
                self._left -= end.start() - at
                self._unfinished = "\x1b"
                return len(text)
            self._string = ""
            return end.end() if end[0] not in "\n\x1b" else end.start()
        skipped = min(len(text) - at, self._left)
        self._left -= skipped
        if not self._left:
            self._string = ""
        return at + skipped

    def _control(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\b":
            self._column = max(self._column - 1, 0)
        elif character in "\v\f":
            self._write("\n")
        elif character not in "\a\x0e\x0f\x7f":
            self._write("\ufffd")

    def _write(self, text: str) -> None:
        """Write text without controls but line ends."""
        lines = text.split("\n")
        self._put(lines[0])
        for at, line in enumerate(lines[1:], 1):
            if self._row == len(self._rows) - 1:
                return self._append(lines[at:])
            self._row, self._column = self._row + 1, 0
            self._put(line)
        return None

    def _append(self, lines: list[str]) -> None:
        """Add lines below the last one; many of them become final at once."""
        excess = lines[: max(len(lines) - MAX_ROWS, 0)]
        if excess:
            self._finish_rows(len(self._rows))
            whole = "\n".join([*excess, ""])
            self._final.append(whole)
            self._show_text(whole)
            lines = lines[len(excess) :]
        for line in lines:
            self._rows.append(_Row(_to_columns(line)))
            self._shorten(len(self._rows) - 1)
        self._finish_rows(len(self._rows) - MAX_ROWS)
        self._row, self._column = len(self._rows) - 1, len(self._rows[-1].text)

    def _put(self, text: str) -> None:
        """Write text in this line, over what is there."""
        if not text:
            return
        row, text = self._rows[self._row], _to_columns(text)
        row.touched = row.touched or self._column < len(row.text)
        line = row.text.ljust(self._column)
        before, after = line[: self._column], line[self._column + len(text) :]
        if line.startswith(_HALF, self._column):
            before = before[:-1] + " "
        if after.startswith(_HALF):
            after = " " + after[1:]
        row.text = before + text + after
        self._column += len(text)
        self._shorten(self._row)

    def _shorten(self, at: int) -> None:
        """Make the beginning of a long line final, with the lines above it."""
        row = self._rows[at]
        if len(row.text) <= MAX_COLUMNS:
            return
        half = MAX_COLUMNS // 2
        most = -(-(len(row.text) - MAX_COLUMNS) // half) * half
        self._finish_rows(at)
        self._final.append(row.text[:most].replace(_HALF, ""))
        self._show(row, closed=False)
        row.text = row.text[most:]
        row.shown = row.final
        self._column = max(self._column - most, 0)

    def _finish_rows(self, count: int) -> None:
        """Make the first rows final."""
        if count <= 0:
            return
        for row in self._rows[:count]:
            self._final.append(f"{row.final}\n")
            self._show(row, closed=True)
        del self._rows[:count]
        self._row = max(self._row - count, 0)

    def _show(self, row: _Row, *, closed: bool) -> None:
        text = row.final
        if text == row.shown and (row.is_closed or not closed):
            return
        if self._open is row and text.startswith(row.shown):
            self._live.append(text[len(row.shown) :])
        else:
            self._show_text(text)
            self._open = row if text or closed else None
        row.shown, row.is_closed = text, closed or row.is_closed
        if closed and self._open is row:
            self._live.append("\n")
            self._open = None

    def _show_text(self, text: str) -> None:
        if self._open is not None:
            self._live.append("\n")
            self._open = None
        self._live.append(text)

    def _move(self, rows: int, *, column: int | None = None) -> None:
        self._row = min(max(self._row + rows, 0), len(self._rows) - 1)
        self._column = self._column if column is None else column

    def _place(self, row: int, column: int) -> None:
        """Go to a place of the screen, whose first row is where it was first used."""
        if not self._has_screen:
            self._clear()
        while len(self._rows) <= min(row, MAX_ROWS - 1):
            self._rows.append(_Row())
        self._row, self._column = min(row, MAX_ROWS - 1), column

    def _clear(self) -> None:
        """Begin a screen below what was printed, or empty the one that there is."""
        if not self._has_screen:
            self._finish_rows(len(self._rows) - (not self._rows[-1].text))
        self._rows, self._has_screen = [_Row()], True
        self._row = self._column = 0

    def _erase_line(self, part: int) -> None:
        """Erase the rest of the line (0), its beginning (1), or all of it (2)."""
        row, column = self._rows[self._row], self._column
        row.touched = True
        after = row.text[column + 1 :]
        row.text = (row.text[:column], " " * (column + 1) + after, "")[min(part, 2)]

    def _erase_screen(self, part: int) -> None:
        """Erase what is after the cursor (0), nothing (1), or all (2 and 3)."""
        if part >= 2:
            self._clear()
        elif part == 0:
            self._erase_line(0)
            del self._rows[self._row + 1 :]

    def _change(self, count: int, *, removed: bool, added: bool) -> None:
        """Remove some letters at the cursor, and put blanks in."""
        row, column = self._rows[self._row], self._column
        if column < len(row.text):
            row.touched = True
            after = row.text[column + count * removed :]
            row.text = row.text[:column] + " " * (count * added) + after
            self._shorten(self._row)

    def _go(self, column: int) -> None:
        self._column = min(max(column, 0), _MAX_PLACE)


def _to_columns(text: str) -> str:
    """Write a text so that each column of the terminal has one character."""
    if text.isascii():
        return text
    width = unicodedata.east_asian_width
    return "".join(each + _HALF if width(each) in "WF" else each for each in text)


def show_output(text: str) -> str:
    r"""Return a whole output as a terminal would show it in the end, without codes.

    Example:
        >>> show_output("10%\r100%\n\x1b[1mdone\x1b[0m")
        '100%\ndone'
    """
    screen = TerminalText()
    return screen.feed(text) + screen.pending


def _at(numbers: list[int], index: int = 0, default: int = 1) -> int:
    """Return a number of a code; without it, and for 0, the default."""
    return (numbers[index] if index < len(numbers) else 0) or default


_CODES: dict[str, Callable[[TerminalText, list[int]], None]] = {
    "A": lambda screen, n: screen._move(-_at(n)),
    "B": lambda screen, n: screen._move(_at(n)),
    "C": lambda screen, n: screen._go(screen._column + _at(n)),
    "D": lambda screen, n: screen._go(screen._column - _at(n)),
    "E": lambda screen, n: screen._move(_at(n), column=0),
    "F": lambda screen, n: screen._move(-_at(n), column=0),
    "G": lambda screen, n: screen._go(_at(n) - 1),
    "H": lambda screen, n: screen._place(_at(n) - 1, _at(n, 1) - 1),
    "f": lambda screen, n: screen._place(_at(n) - 1, _at(n, 1) - 1),
    "J": lambda screen, n: screen._erase_screen(_at(n, default=0)),
    "K": lambda screen, n: screen._erase_line(_at(n, default=0)),
    "P": lambda screen, n: screen._change(_at(n), removed=True, added=False),
    "X": lambda screen, n: screen._change(_at(n), removed=True, added=True),
    "@": lambda screen, n: screen._change(_at(n), removed=False, added=True),
}
"""What is obeyed, by the last letter of the code; all else is left out."""
