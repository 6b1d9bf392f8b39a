"""A session as one row of a list, cut to fit; pure text and the names of its styles."""

from dataclasses import dataclass

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.utils import get_cwidth

from greenroom.cli.commands.sessions.row import age
from greenroom.cli.picker.entry import Entry

_MARK, _AGE, _GAP = 2, 10, 2
_FEW, _SOME, _MANY = 60, 70, 90  # columns for the model alone, the folder alone, both of them


@dataclass(frozen=True)
class Columns:
    """How many columns each part of a row has; 0 where it is left out."""

    title: int
    folder: int
    model: int

    @classmethod
    def of(cls, width: int, *, has_folders: bool) -> "Columns":
        """Share out the width of a row.

        Example:
            >>> Columns.of(40, has_folders=True)
            Columns(title=26, folder=0, model=0)
        """
        model = min(width // 5, 24) if width >= (_MANY if has_folders else _FEW) else 0
        folder = min(width // 4, 40) if has_folders and width >= _SOME else 0
        taken = sum(part + _GAP for part in (model, folder) if part)
        return cls(max(width - _MARK - _AGE - _GAP - taken, 1), folder, model)


def row(entry: Entry, columns: Columns, *, is_current: bool) -> StyleAndTextTuples:
    """Write a session's row."""
    note = "class:current" if is_current else "class:note"
    parts: StyleAndTextTuples = [
        (note, "▸ " if is_current else "  "),
        ("class:current" if is_current else "", fitted(entry.title, columns.title)),
    ]
    if columns.folder:
        place = "" if entry.is_here else entry.folder
        parts.append((note, " " * _GAP + fitted(place, columns.folder, keeps_end=True)))
    if columns.model:
        parts.append((note, " " * _GAP + fitted(entry.model, columns.model)))
    parts.append((note, " " * _GAP + age(entry.changed).rjust(_AGE)))
    return parts


def fitted(text: str, width: int, *, keeps_end: bool = False) -> str:
    """Cut or fill a text to this width in columns, of which some characters take two.

    Example:
        >>> fitted("日本語", 5), fitted("/a/long/path", 6, keeps_end=True)
        ('日本…', '…/path')
    """
    used = get_cwidth(text)
    if used > width:
        text = (
            f"…{_head(text[::-1], width - 1)[::-1]}" if keeps_end else _head(text, width - 1) + "…"
        )
        used = get_cwidth(text)
    return text + " " * (width - used)


def _head(text: str, width: int) -> str:
    """Return as many of the first characters as fit."""
    for at, character in enumerate(text):
        width -= get_cwidth(character)
        if width < 0:
            return text[:at]
    return text
