"""Long output: the first and the last rows of it, and how many more there are."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from greenroom.cli.painter import ColorScheme, PaintConsole
from greenroom.cli.rows import count_columns, fold

_HEAD, _TAIL = 4, 8  # rows


class Folded:
    """Text of which the first 4 and the last 8 rows are shown, or all where all is unfolded."""

    def __init__(self, text: str, style: str, scheme: ColorScheme) -> None:
        """Show this text, whose characters can all be seen, in this style."""
        self._lines = text.split("\n")
        self._style = style
        self._scheme = scheme

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        count = sum(_count_rows(line, width) for line in self._lines)
        if count <= _HEAD + _TAIL + 1 or (isinstance(console, PaintConsole) and console.unfolds):
            yield from self._rows(console, self._fold(self._lines, width))
            return
        # No more than what may be shown is folded: a line may be a megabyte long.
        head = [line[: _HEAD * width] for line in self._lines[:_HEAD]]
        tail = [line[-_TAIL * width :] for line in self._lines[-_TAIL:]]
        yield from self._rows(console, self._fold(head, width)[:_HEAD])
        more = Text(f"… {count - _HEAD - _TAIL:,} more rows: Ctrl-O", self._scheme.note)
        yield from (*more.render(console), Segment.line())
        yield from self._rows(console, self._fold(tail, width)[-_TAIL:])

    def _fold(self, lines: Iterable[str], width: int) -> list[Text]:
        return fold(Text("\n".join(lines), self._style), width)

    @staticmethod
    def _rows(console: Console, rows: Iterable[Text]) -> RenderResult:
        for row in rows:
            yield from (*row.render(console), Segment.line())


def _count_rows(line: str, width: int) -> int:
    return max(-(-count_columns(line) // width), 1)
