"""Draws text as rich's console does, without loading that."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, cast

from rich.color import ColorSystem
from rich.errors import StyleSyntaxError
from rich.segment import Segment
from rich.style import Style

from greenroom.cli.renderables import Console, ConsoleOptions, RenderableType

COLOR_SYSTEMS = {
    None: None,
    "standard": ColorSystem.STANDARD,
    "256": ColorSystem.EIGHT_BIT,
    "truecolor": ColorSystem.TRUECOLOR,
}
"""What rich calls the colours that a terminal has."""


def draw_text(renderables: Iterable[RenderableType], width: int, colors: str | None) -> str:
    """Return what rich would draw of text, and of what consists of text.

    Args:
        renderables: the texts, each of which begins in a new line.
        width: the columns of a line.
        colors: the colours, a key of `COLOR_SYSTEMS`; None for no control codes.
    """
    console, options, system = _TextConsole(), _Options(width), COLOR_SYSTEMS[colors]
    parts = list[str]()
    for each in renderables:
        for text, style, _ in console.render(each, options):
            parts.append(style.render(text, color_system=system) if style else text)
    return "".join(parts)


class _Options(NamedTuple):
    """What text asks about the place where it is drawn."""

    max_width: int
    justify: None = None
    overflow: None = None
    no_wrap: None = None

    def update(self, *, width: int) -> "_Options":
        return self._replace(max_width=width)


class _TextConsole:
    """What text asks of a console."""

    tab_size = 8

    def get_style(self, name: str | Style, *, default: str | Style = "") -> Style:
        if isinstance(name, Style):
            return name
        try:
            style = _read_style(name)
        except StyleSyntaxError:
            return self.get_style(default)
        return style.copy() if style.link else style

    def render(self, renderable: RenderableType, options: _Options) -> Iterator[Segment]:
        drawn = renderable.__rich_console__(  # type: ignore[union-attr]
            cast("Console", self), cast("ConsoleOptions", options)
        )
        for each in drawn:
            if isinstance(each, Segment):
                yield each
            else:
                yield from self.render(each, options)


def _read_style(name: str) -> Style:
    """Read a style as rich does, which knows some by names of its own, such as "code".

    Raises:
        StyleSyntaxError: it is neither the name of a style nor the words of one.
    """
    try:
        return Style.parse(name)
    except StyleSyntaxError:
        from rich.default_styles import DEFAULT_STYLES

        if name not in DEFAULT_STYLES:
            raise
        return DEFAULT_STYLES[name]
