"""Live output: what a running call shows, up to a limit."""

from collections.abc import Callable

LIVE_CHARACTERS = 1_000_000
"""Characters that one call shows while it runs; more than a person reads, less than a disk holds."""


class LiveOutput:
    """Shows the first million characters of one call as they come, and says where it ends.

    Example:
        >>> shown = []
        >>> live = LiveOutput(shown.append)
        >>> live.show("half way")
        >>> shown
        ['half way']
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        """Show text with this function, such as `context.progress`."""
        self._show = show
        self._room = LIVE_CHARACTERS

    def show(self, text: str) -> None:
        """Show as much of a text as there is room for."""
        if not text or self._room <= 0:
            return
        self._show(text[: self._room])
        self._room -= len(text)
        if self._room <= 0:
            self._show("\n… the rest of the output is not shown live …\n")
