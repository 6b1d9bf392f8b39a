"""Text behind a margin, without blanks at the ends of lines that would wrap in a narrower window."""

from collections.abc import Iterable, Iterator

from rich.cells import get_character_cell_size
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

_NARROWEST = 8
_TAB = 8


class Prefixed:
    """Any content with the same text before each of its lines."""

    def __init__(self, prefix: Text, content: RenderableType, *, later: Text | None = None) -> None:
        """Put this prefix before each line, or the later one before all but the first.

        Each must be one line, and they must be equally wide.
        """
        self._prefix = prefix
        self._later = later or prefix
        self._content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(options.max_width - self._prefix.cell_len, _NARROWEST)
        prefix, later = (
            [each for each in console.render(text, options) if each.text != "\n"]
            for text in (self._prefix, self._later)
        )
        for line in console.render_lines(self._content, options.update(width=width), pad=False):
            yield from (*prefix, *stripped(line), Segment.line())
            prefix = later


class Quoted:
    """Text that is shown to the letter: full rows, each behind the same prefix, with all its blanks."""

    def __init__(self, prefix: Text, text: Text) -> None:
        """Put this prefix, one line, before each row of the text."""
        self._prefix = prefix
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(options.max_width - self._prefix.cell_len, 2)
        prefix = list(self._prefix.render(console))
        for line in self._text.split("\n", allow_blank=True):
            line.expand_tabs(_TAB)
            for row in line.divide(_ends_of_rows(line.plain, width)):
                yield from (*prefix, *row.render(console), Segment.line())


def _ends_of_rows(line: str, width: int) -> Iterator[int]:
    """Find where rows of so many columns end in a line; nothing is parted from its accents."""
    used = 0
    for at, character in enumerate(line):
        cells = get_character_cell_size(character)
        if used + cells > width:
            yield at
            used = 0
        used += cells


def indented(content: RenderableType, columns: int = 2) -> Prefixed:
    """Move content to the right."""
    return Prefixed(Text(" " * columns), content)


def hanging(head: Text, content: RenderableType) -> Prefixed:
    """Put a head before content whose further lines begin below its first, not below the head."""
    return Prefixed(head, content, later=Text(" " * head.cell_len))


def stripped(line: Iterable[Segment]) -> list[Segment]:
    """Return a line without the blanks at its end that nothing shows, such as a background."""
    kept = list(line)
    while kept and not kept[-1].text.strip(" ") and not _is_filled(kept[-1]):
        del kept[-1]
    if kept and not _is_filled(kept[-1]):
        kept[-1] = Segment(kept[-1].text.rstrip(" "), kept[-1].style)
    return kept


def _is_filled(segment: Segment) -> bool:
    return segment.style is not None and segment.style.bgcolor is not None
