"""Text behind a margin, without blanks at the ends of lines that would wrap in a narrower window."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

__all__ = ["Prefixed", "indented", "stripped"]

_NARROWEST = 20


class Prefixed:
    """Any content with the same text before each of its lines."""

    def __init__(self, prefix: Text, content: RenderableType) -> None:
        """Put this prefix before the content; it must be one line."""
        self._prefix = prefix
        self._content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(options.max_width - self._prefix.cell_len, _NARROWEST)
        prefix = [each for each in console.render(self._prefix, options) if each.text != "\n"]
        for line in console.render_lines(self._content, options.update(width=width), pad=False):
            yield from (*prefix, *stripped(line), Segment.line())


def indented(content: RenderableType, columns: int = 2) -> Prefixed:
    """Move content to the right."""
    return Prefixed(Text(" " * columns), content)


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
