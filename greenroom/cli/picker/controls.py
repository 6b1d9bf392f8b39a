"""The two parts of the screen that are painted by the row: the list, and the preview."""

from collections.abc import Callable, Sequence

from prompt_toolkit.data_structures import Point
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.formatted_text.utils import split_lines
from prompt_toolkit.layout import UIContent, UIControl
from rich.console import RenderableType

from greenroom.cli.drawing.painter import Colors, Painter
from greenroom.cli.picker.choice import Choice
from greenroom.cli.picker.preview import Preview
from greenroom.cli.picker.rows import Columns, row


class ListControl(UIControl):
    """The rows of a choice; of thousands, only those on the screen are made."""

    def __init__(self, choice: Choice) -> None:
        """Show this choice."""
        self._choice = choice

    def create_content(self, width: int, height: int) -> UIContent:
        """Return the rows; the window scrolls to the one in hand."""
        choice = self._choice
        if not choice.shown:
            return UIContent(lambda _: [("class:note", "  nothing fits")], 1, show_cursor=False)
        columns = Columns.of(width, has_folders=choice.is_everywhere)

        def line(at: int) -> StyleAndTextTuples:
            return row(choice.shown[at], columns, is_current=at == choice.cursor)

        cursor = Point(x=0, y=choice.cursor)
        return UIContent(line, len(choice.shown), cursor, show_cursor=False)


class PreviewControl(UIControl):
    """The last lines of a preview, as many as there is room for."""

    def __init__(self, preview: Callable[[], Preview | None], colors: Colors) -> None:
        """Show what this function returns at the moment."""
        self._preview = preview
        self._painter = Painter(colors)
        self._painted: tuple[Preview | None, int] = (None, 0)
        self._head: list[StyleAndTextTuples] = []
        self._body: list[StyleAndTextTuples] = []

    def create_content(self, width: int, height: int) -> UIContent:
        """Return the lines; they are painted anew only for another preview or width."""
        preview = self._preview()
        if (preview, width) != self._painted:
            self._painted = (preview, width)
            self._head = self._paint([preview.head], width) if preview else []
            self._body = self._paint(preview.parts, width) if preview else []
        room = max(height - len(self._head), 0)
        lines = self._head + self._body[max(len(self._body) - room, 0) :]
        return UIContent(lambda at: lines[at], len(lines), show_cursor=False)

    def _paint(self, parts: Sequence[RenderableType], width: int) -> list[StyleAndTextTuples]:
        text = self._painter.paint(parts, width).removesuffix("\n")
        return list(split_lines(to_formatted_text(ANSI(text))))
