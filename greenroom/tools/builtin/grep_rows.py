r"""The rows of a search, as its engine prints them, and the lines that the model reads of them.

A row is a path, NUL, a line's number, `:` (or `-` for context), the column of the match where the
engine prints columns, and the line. Of a long line, what is around the match is shown.
"""

import os
from collections.abc import Callable

import msgspec

from greenroom.core._internal import compile_later, valid_unicode

_HEAD = compile_later(rb"([^\0]+)\0(\d+)(?:([:-])|\r?\Z)")
_COLUMN = compile_later(rb"(\d+):")
# What ripgrep says of a file in which it comes upon a NUL.
_BINARY = compile_later(rb"\./.*: (?:WARNING: stopped searching )?binary file .*\(found .*\)")
_LINE_BYTES = 16_384
_PATH_BYTES = 8_192
_TEXT_CHARACTERS = 500
_LEAD_CHARACTERS = 150
_LEAD_BYTES = 4 * _LEAD_CHARACTERS
_MAX_NOTES = 10
_CONTINUATION = bytes(range(0x80, 0xC0))


class _Row(msgspec.Struct, frozen=True):
    """The beginning of a row: where the line is, and where it begins in the row's bytes."""

    path: bytes
    number: int
    mark: str
    column: int
    start: int


class GrepRows:
    r"""Turns rows into lines for the model, up to a limit.

    Rows arrive in chunks, cut anywhere; of a very long one only what is around the match is kept,
    or the beginning. Paths begin with `./` and may hold line ends, which are shown as `\n`.

    Attributes:
        lines: the lines to show.
        full: whether there was more than the limit.
        notes: the first ten lines of output that are not rows, such as errors.

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
        columns: bool = False,
    ) -> None:
        """Write rows for an output mode.

        Args:
            mode: `content`, `files_with_matches` or `count`.
            limit: how many lines to keep.
            wants: whether rows of this path count.
            show: writes a path for the model.
            numbers: whether lines of content carry their numbers.
            separate: whether to put `--` between lines of content that are not adjacent.
            columns: whether rows of content have the column of the match, in bytes from 1.
        """
        self.lines: list[str] = []
        self.full = False
        self.notes: list[str] = []
        self._mode, self._limit, self._wants, self._show = mode, limit, wants, show
        self._numbers, self._separate = numbers, separate
        self._columns = columns and mode == "content"
        self._rest = b""
        self._path = b""
        self._skipped = 0  # bytes of the line before those that are kept
        self._is_cut = False  # whether there are more bytes than are kept
        self._last = ("", 0)
        self._seen: dict[str, None] = {}

    @property
    def files(self) -> int:
        """The number of files that the rows came from."""
        return len(self._seen)

    def feed(self, data: bytes) -> None:
        """Take the next piece of output."""
        *whole, rest = data.split(b"\n")
        for piece in whole:
            self._add(piece)
            self._take(self._rest)
            self._rest, self._skipped, self._is_cut = b"", 0, False
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        """Add to the row that arrives; if it gets too long, keep what is around the match."""
        if self._is_cut:
            return
        self._rest += piece
        if len(self._rest) <= _LINE_BYTES:
            return
        row = self._read_head(self._path + self._rest)
        start = row.start - len(self._path) if row else 0
        wanted = max(row.column - 1 - _LEAD_BYTES, 0) - self._skipped if row else 0
        head, text = self._rest[: max(start, 0)], self._rest[max(start, 0) :]
        dropped = min(wanted, len(text))
        self._skipped += dropped
        self._is_cut = len(text) - dropped > _LINE_BYTES // 2
        self._rest = head + text[dropped : dropped + _LINE_BYTES // 2]

    def _read_head(self, line: bytes) -> _Row | None:
        head = _HEAD.match(line)
        if head is None:
            return None
        mark, end, column = (head[3] or b":").decode(), head.end(), 1
        found = _COLUMN.match(line, end) if self._columns and mark == ":" else None
        if found is not None:
            column, end = int(found[1]), found.end()
        return _Row(head[1], int(head[2]), mark, column, end)

    def _take(self, line: bytes) -> None:
        line, self._path = self._path + line, b""
        is_note = _BINARY.fullmatch(line)
        is_name = line.startswith(b"./") and b"\0" not in line and len(line) < _PATH_BYTES
        if is_name and not is_note:
            self._path = line + b"\n"
            return
        row = self._read_head(line)
        if row is None:
            if line and len(self.notes) < _MAX_NOTES:
                self.notes.append(line[:_TEXT_CHARACTERS].decode("utf-8", "replace"))
            return
        path = os.fsdecode(row.path).removeprefix("./")
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
            self.lines.append(f"{shown}:{row.number}")
        else:
            self._add_content(shown, row, line[row.start :])

    def _add_content(self, path: str, row: _Row, raw: bytes) -> None:
        if self._separate and self.lines and self._last != (path, row.number - 1):
            self.lines.append("--")
        self._last = (path, row.number)
        text, mark = self._cut(raw, row.column - 1 - self._skipped), row.mark
        self.lines.append(
            f"{path}{mark}{row.number}{mark}{text}" if self._numbers else f"{path}{mark}{text}"
        )

    def _cut(self, raw: bytes, match: int) -> str:
        """Return the line if it is short, else what is around the match."""
        before = raw[:match].lstrip(_CONTINUATION) if self._skipped else raw[:match]
        at = len(before.decode("utf-8", "replace"))
        text = (before + raw[match:]).decode("utf-8", "replace").rstrip("\r")
        if len(text) <= _TEXT_CHARACTERS and not self._skipped and not self._is_cut:
            return text
        first = at - _LEAD_CHARACTERS if self._skipped or at > _TEXT_CHARACTERS // 2 else 0
        if not self._is_cut:  # show as much of the line's end as there is room for
            first = min(first, max(len(text) - _TEXT_CHARACTERS, 0))
        begin = "… " if self._skipped or first else ""
        last = first + _TEXT_CHARACTERS
        end = " …" if self._is_cut or last < len(text) else ""
        return f"{begin}{text[first:last]}{end} [a longer line]"
