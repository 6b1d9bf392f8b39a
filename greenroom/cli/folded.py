"""Long output and diffs: the first and the last rows, and how many more there are."""

from collections.abc import Callable, Iterable

from rich.segment import Segment
from rich.text import Text

from greenroom.cli.painter import ColorScheme
from greenroom.cli.renderables import Console, ConsoleOptions, RenderResult, Unfolding
from greenroom.cli.rows import count_columns, fold

_HEAD, _TAIL = 4, 8  # rows


class Folded:
    """Text of which the first 4 and the last 8 rows are shown, or all where all is unfolded."""

    def __init__(
        self,
        text: str,
        style: str | Callable[[str], str],
        scheme: ColorScheme,
        *,
        most: int = _HEAD + _TAIL + 1,
    ) -> None:
        """Show this text, whose characters can all be seen; up to so many rows are shown whole.

        Its style is the same for all lines, or returned for each.
        """
        self._lines = [
            (line, style if isinstance(style, str) else style(line)) for line in text.split("\n")
        ]
        self._scheme = scheme
        self._most = most

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        count = sum(_count_rows(line, width) for line, _ in self._lines)
        if count <= self._most or (isinstance(console, Unfolding) and console.unfolds):
            yield from self._rows(console, self._fold(self._lines, width))
            return
        # No more than what may be shown is folded: a line may be a megabyte long.
        head = [(line[: _HEAD * width], style) for line, style in self._lines[:_HEAD]]
        tail = [(line[-_TAIL * width :], style) for line, style in self._lines[-_TAIL:]]
        yield from self._rows(console, self._fold(head, width)[:_HEAD])
        more = Text(f"… {count - _HEAD - _TAIL:,} more rows: Ctrl-O", self._scheme.note)
        yield from (*more.render(console), Segment.line())
        yield from self._rows(console, self._fold(tail, width)[-_TAIL:])

    def _fold(self, lines: Iterable[tuple[str, str]], width: int) -> list[Text]:
        return [row for line, style in lines for row in fold(Text(line, style), width)]

    @staticmethod
    def _rows(console: Console, rows: Iterable[Text]) -> RenderResult:
        for row in rows:
            yield from (*row.render(console), Segment.line())


def _count_rows(line: str, width: int) -> int:
    return max(-(-count_columns(line) // width), 1)
