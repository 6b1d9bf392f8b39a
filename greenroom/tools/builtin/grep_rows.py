"""The rows that a search prints, as they arrive: parsed, filtered, counted and written out."""

import os
import re
from collections.abc import Callable

from greenroom.core import valid_unicode

_ROW = re.compile(rb"([^\0]+)\0(\d+)(?:([:-])(.*))?", re.DOTALL)
_LINE_BYTES = 16_384
_PATH_BYTES = 8_192
_TEXT_CHARACTERS = 500
_MAX_NOTES = 10


class GrepRows:
    r"""Turns rows (path, NUL, number, `:` or `-`, line) into lines for the model, up to a limit.

    Rows may be cut anywhere between two chunks. Of a very long row only the beginning is kept. Each
    path begins with `./`, and may hold line ends, which are shown as `\n`.

    Attributes:
        lines: what to show.
        full: whether there was more than the limit.
        notes: lines of output that are no rows, such as an error; the first ten.

    Example:
        >>> rows = GrepRows("content", limit=10, wants=lambda path: True, show=str)
        >>> rows.feed(b"./a.py\x003:import o")
        >>> rows.feed(b"s\n")
        >>> rows.lines
        ['a.py:3:import os']
    """

    def __init__(
        self,
        mode: str,
        *,
        limit: int,
        wants: Callable[[str], bool],
        show: Callable[[str], str],
        numbers: bool = True,
        separate: bool = False,
    ) -> None:
        """Write rows for an output mode.

        Args:
            mode: `content`, `files_with_matches` or `count`.
            limit: how many lines to keep.
            wants: whether rows of this path count.
            show: writes a path for the model.
            numbers: whether lines of content carry their numbers.
            separate: whether `--` stands between lines of content that do not follow each other.
        """
        self.lines: list[str] = []
        self.full = False
        self.notes: list[str] = []
        self._mode, self._limit, self._wants, self._show = mode, limit, wants, show
        self._numbers, self._separate = numbers, separate
        self._rest = b""
        self._path = b""
        self._overlong = False
        self._last = ("", 0)
        self._seen: dict[str, None] = {}

    @property
    def files(self) -> int:
        """How many files the rows came from."""
        return len(self._seen)

    def feed(self, data: bytes) -> None:
        """Take the next piece of output."""
        *whole, rest = data.split(b"\n")
        for piece in whole:
            if not self._overlong:
                self._take(self._rest + piece)
            self._rest, self._overlong = b"", False
        if not self._overlong:
            self._rest += rest
            if len(self._rest) > _LINE_BYTES:
                self._take(self._rest[:_LINE_BYTES])
                self._rest, self._overlong = b"", True

    def _take(self, line: bytes) -> None:
        line, self._path = self._path + line, b""
        if line.startswith(b"./") and b"\0" not in line and len(line) < _PATH_BYTES:
            self._path = line + b"\n"
            return
        row = _ROW.fullmatch(line)
        if row is None:
            if line and len(self.notes) < _MAX_NOTES:
                self.notes.append(line[:_TEXT_CHARACTERS].decode("utf-8", "replace"))
            return
        path = os.fsdecode(row[1]).removeprefix("./")
        if not self._wants(path):
            return
        if len(self.lines) >= self._limit:
            self.full = True
            return
        self._seen[path] = None
        shown = valid_unicode(self._show(path)).replace("\n", "\\n")
        if self._mode == "files_with_matches":
            self.lines.append(shown)
        elif self._mode == "count":
            self.lines.append(f"{shown}:{int(row[2])}")
        else:
            self._add_content(shown, int(row[2]), (row[3] or b":").decode(), row[4] or b"")

    def _add_content(self, path: str, number: int, mark: str, raw: bytes) -> None:
        if self._separate and self.lines and self._last != (path, number - 1):
            self.lines.append("--")
        self._last = (path, number)
        text = raw.decode("utf-8", "replace").rstrip("\r")
        if len(text) > _TEXT_CHARACTERS:
            text = f"{text[:_TEXT_CHARACTERS]} … [a longer line]"
        self.lines.append(
            f"{path}{mark}{number}{mark}{text}" if self._numbers else f"{path}{mark}{text}"
        )
