"""What can be drawn: the types, as rich has them, and content in a row below other content.

They are here so that nothing loads rich's console, which takes as long as thirty modules of ours,
before something is drawn that needs it; text does not.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import (
        Console,
        ConsoleOptions,
        RenderableType,
        RenderResult,
    )
else:
    Console = ConsoleOptions = RenderableType = RenderResult = object

__all__ = ["Console", "ConsoleOptions", "Group", "RenderResult", "RenderableType", "Unfolding"]


class Group:
    """Content of which each part begins below the one before."""

    def __init__(self, *parts: RenderableType) -> None:
        self._parts = parts

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._parts


class Unfolding:
    """A console that may draw long output whole."""

    unfolds = False
    """Whether it does."""
