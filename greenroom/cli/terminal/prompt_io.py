"""The terminal of standard input and output, as prompt_toolkit wants it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from prompt_toolkit.data_structures import Size
from prompt_toolkit.output.vt100 import Vt100_Output


def open_file() -> TextIO:
    """Open the terminal once more.

    A file of its own, so that nothing is left in standard output's buffer when it goes away.
    """
    return os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", errors="replace")


class HeldOutput(Vt100_Output):
    """Draws on a terminal; what belongs together reaches it at once."""

    is_held = False

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Write nothing before the block ends, and then all of it in one piece."""
        self.is_held = True
        try:
            yield
        finally:
            self.is_held = False
            self.flush()

    def flush(self) -> None:
        """Write what was drawn, unless it is held."""
        if self.is_held:
            return
        # Its window may be closed at any moment. What is read from it then ends as well, and with
        # that the application, in good order.
        with suppress(OSError):
            super().flush()


def output_to(file: TextIO) -> HeldOutput:
    """Return what draws on the terminal through this file, for as long as it is there."""
    return HeldOutput(file, terminal_size, term=os.environ.get("TERM"), enable_cpr=False)


def terminal_size() -> Size:
    """Return its size at this moment; any thread may ask."""
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except OSError:  # it has just gone away
        return Size(rows=24, columns=80)
    return Size(rows=size.lines, columns=size.columns)
