"""A table whose cells are wrapped, so that no letter of them is cut off."""

from collections.abc import Sequence

from rich.segment import Segment
from rich.text import Text

from greenroom.cli.renderables import Console, ConsoleOptions, RenderResult
from greenroom.cli.rows import count_columns, wrap

_GAP = 2  # columns between two columns of a table
_LEAST = 4  # columns of a cell, below which its row is no longer a row


class TableView:
    """Rows of cells; where they can't stand side by side, each cell is a line."""

    def __init__(self, rows: Sequence[Sequence[Text]], sides: Sequence[str]) -> None:
        """Show these rows, the first of which has the names of the columns.

        `sides` says of each column whether it is aligned "left", "center" or "right".
        """
        self._rows = rows
        self._sides = sides

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = self._share(options.max_width)
        if not widths:
            for row in self._rows:
                for cell in row:
                    yield from wrap(cell, options.max_width)
                yield Text("")
            return
        for number, row in enumerate(self._rows):
            yield from self._row(console, row, widths)
            if number == 0:
                yield Segment("  ".join("─" * width for width in widths) + "\n")

    def _share(self, room: int) -> list[int]:
        """Return how wide each column is; nothing if there is no room for all of them."""
        natural = [max(cell.cell_len for cell in cells) for cells in zip(*self._rows, strict=True)]
        room -= _GAP * (len(natural) - 1) + min(max(map(_excess, self._rows)), room // 3)
        if room < _LEAST * len(natural):
            return []
        widths = [min(width, _LEAST) for width in natural]
        left = room - sum(widths)
        while left > 0 and (
            short := [at for at, width in enumerate(widths) if width < natural[at]]
        ):
            for at in short[:left]:
                widths[at] += 1
            left -= len(short[:left])
        return [max(width, 1) for width in widths]

    def _row(self, console: Console, row: Sequence[Text], widths: Sequence[int]) -> RenderResult:
        cells = [wrap(cell, width) for cell, width in zip(row, widths, strict=True)]
        for at in range(max(map(len, cells))):
            line = Text(end="")
            for cell, width, side in zip(cells, widths, self._sides, strict=True):
                part = cell[at] if at < len(cell) else Text()
                blanks = max(width - part.cell_len, 0)
                before = {"right": blanks, "center": blanks // 2}.get(side, 0)
                line.append(" " * (_GAP if line.plain else 0))
                line.append(" " * before).append_text(part).append(" " * (blanks - before))
            line.rstrip()
            yield from line.render(console)
            yield Segment.line()


def _excess(row: Sequence[Text]) -> int:
    """Count the columns that a row takes more than usual in a terminal that joins nothing."""
    return sum(count_columns(cell.plain) - cell.cell_len for cell in row)
