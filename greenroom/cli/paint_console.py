"""Draws anything with rich's console, which takes a while to load."""

import io
from collections.abc import Iterable
from typing import Literal

from rich.console import Console

from greenroom.cli.renderables import Group, RenderableType, Unfolding


class PaintConsole(Unfolding, Console):
    """What rich draws on while something is painted."""


def draw(
    renderables: Iterable[RenderableType],
    width: int,
    colors: Literal["standard", "256", "truecolor"] | None,
    *,
    unfolds: bool = False,
) -> str:
    """Return what rich draws, with control codes if there are colours."""
    console = PaintConsole(
        file=io.StringIO(),
        width=width,
        color_system=colors,
        force_terminal=colors is not None,
        no_color=False,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    console.unfolds = unfolds
    with console.capture() as captured:
        console.print(Group(*renderables), crop=False)
    return captured.get()
