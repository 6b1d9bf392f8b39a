"""The terminal: the command `greenroom`, and `ConsoleRenderer`, which shows any agent there.

The program: `main` reads the command line (`arguments`, `options`) and runs `headless` (with
`turn_record`), `interactive`, or one of the `commands`: `sessions`, `permissions`, `doctor`, `tree`. `run` is
what a run is made of, `picker` the list to choose a session from, `completion` completes command
lines, `streams` are standard input and output.

The renderer, each room importing only those behind it: `console` shows agents and hears the person,
`questions` are permission requests, `terminal` is what is drawn on, `drawing` how things look.

Only these modules import rich and prompt_toolkit, and only once they draw.
"""

from typing import TYPE_CHECKING

from greenroom.cli.main import main as main

if TYPE_CHECKING:
    from greenroom.cli.console.renderer import ConsoleRenderer as ConsoleRenderer
    from greenroom.cli.drawing.theme import ColorScheme as ColorScheme
    from greenroom.cli.run.live_tree import tell_tree as tell_tree

__all__ = ["ColorScheme", "ConsoleRenderer", "main", "tell_tree"]


def __getattr__(name: str) -> object:
    """Load the renderer or `tell_tree` at its first use, so that `greenroom --version` starts at once."""
    if name == "ConsoleRenderer":
        from greenroom.cli.console.renderer import ConsoleRenderer

        return ConsoleRenderer
    if name == "ColorScheme":
        from greenroom.cli.drawing.theme import ColorScheme

        return ColorScheme
    if name == "tell_tree":
        from greenroom.cli.run.live_tree import tell_tree

        return tell_tree
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
