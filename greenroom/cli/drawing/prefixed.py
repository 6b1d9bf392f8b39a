"""Text behind a margin, without blanks at the ends of lines that would wrap in a narrower window."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

__all__ = ["Prefixed", "hanging", "indented", "stripped"]

_NARROWEST = 20


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
