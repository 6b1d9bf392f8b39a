"""Lines of a text with their numbers, as much as is asked for and no more than fits."""

from collections.abc import Callable
from typing import TextIO

_LINE_CHARACTERS = 2_000
_PIECE = 65_536
# With one more long line and the notes it stays within what a model sees of one result.
_ROOM = 27_000


class NumberedLines:
    r"""Reads a range of lines; a long line is clipped, and skipped lines are not kept.

    Attributes:
        shown: how many lines were read.

    Example:
        >>> import io
        >>> lines = NumberedLines(first=2, count=1)
        >>> lines.read(io.StringIO("one\ntwo\nthree\n"), check=lambda: None)
        >>> print(lines.text(size=14).replace("\t", "|"))
             2|two
        [lines 2 to 2 of a file of 14 bytes; continue with offset=3]
    """

    def __init__(self, first: int, count: int, *, room: int = _ROOM) -> None:
        """Take `count` lines from the line `first`, and stop early after `room` characters."""
        self._first = first
        self._count = count
        self._room = room
        self._lines: list[str] = []
        self._passed = 0
        self._more = False
        self._stray = False

    @property
    def shown(self) -> int:
        """How many lines were read."""
        return len(self._lines)

    def read(self, text: TextIO, check: Callable[[], None]) -> None:
        """Read from the text's beginning to the end of the range.

        Args:
            text: what to read.
            check: called for each line and piece of a long line; it raises to stop.
        """
        while self._passed < self._first - 1:
            if _skip_line(text, check) is None:
                return
            self._passed += 1
        while self.shown < self._count and self._room > 0:
            line = text.readline(_LINE_CHARACTERS + 1)
            if not line:
                return
            self._add(line, text, check)
        self._more = bool(text.read(1))

    def _add(self, line: str, text: TextIO, check: Callable[[], None]) -> None:
        if not line.endswith("\n") and len(line) > _LINE_CHARACTERS:
            missing = (_skip_line(text, check) or 0) + len(line) - _LINE_CHARACTERS
            line = f"{line[:_LINE_CHARACTERS]} … [{missing} more characters in this line]"
        line = line.removesuffix("\n").removesuffix("\r")
        if _has_stray_bytes(line):
            self._stray = True
            line = "".join("\ufffd" if _has_stray_bytes(c) else c for c in line)
        numbered = f"{self._first + self.shown:>6}\t{line}"
        self._lines.append(numbered)
        self._room -= len(numbered) + 1

    def text(self, size: int) -> str:
        """Return the lines, and notes on what is not shown; `size` is the file's, in bytes."""
        notes = []
        last = self._first + self.shown - 1
        if not size:
            notes.append("[the file is empty]")
        elif not self.shown:
            notes.append(f"[the file has only {self._passed} lines; its size is {size} bytes]")
        elif self._more:
            notes.append(
                f"[lines {self._first} to {last} of a file of {size} bytes; "
                f"continue with offset={last + 1}]"
            )
        if self._stray:
            notes.append("[bytes that are no UTF-8 are shown as \ufffd; Edit keeps them]")
        return "\n".join([*self._lines, *notes])


def _skip_line(text: TextIO, check: Callable[[], None]) -> int | None:
    """Skip to the next line; how many characters that were, or None where the text has ended."""
    piece = text.readline(_PIECE)
    skipped = len(piece) if piece else None
    check()
    while piece and not piece.endswith("\n"):
        check()
        piece = text.readline(_PIECE)
        skipped = (skipped or 0) + len(piece)
    return skipped - 1 if skipped and piece else skipped


def _has_stray_bytes(line: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in line)
