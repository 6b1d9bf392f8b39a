"""Renderables in, text with ANSI codes (or without any) out."""

import io
import os
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias, cast

from rich.console import Console, RenderableType

Colors: TypeAlias = Literal["standard", "256", "truecolor"] | None
"""How many colours a terminal has; None for text without any codes."""


class Painter:
    r"""Paints for one kind of terminal.

    Example:
        >>> Painter(None).paint(["plain"], width=20)
        'plain\n'
    """

    def __init__(self, colors: Colors) -> None:
        """Paint with these colours, or with None without any control code."""
        self._colors = colors

    def paint(self, renderables: Iterable[RenderableType], width: int) -> str:
        """Return the renderables one below the other; a line takes at most `width` columns."""
        console = Console(
            file=io.StringIO(),
            width=max(width, 20),
            color_system=self._colors,
            force_terminal=self._colors is not None,
            no_color=False,
            markup=False,
            highlight=False,
            emoji=False,
            legacy_windows=False,
        )
        with console.capture() as captured:
            for renderable in renderables:
                console.print(renderable)
        text = captured.get()
        if self._colors is not None:
            return text
        return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def colors_of(env: Mapping[str, str] = os.environ) -> Colors:
    """Tell how many colours the terminal has; None where `NO_COLOR` is set.

    Example:
        >>> colors_of({"TERM": "xterm-256color"}), colors_of({"TERM": "xterm", "NO_COLOR": "1"})
        ('256', None)
    """
    if env.get("NO_COLOR"):
        return None
    console = Console(file=io.StringIO(), force_terminal=True, _environ=env)
    return cast("Colors", console.color_system)
