"""Standard output of a headless run, written in a thread so that a slow reader stops no agent."""

import os
import sys

import trio

from greenroom.core import visible


class OutputWriter:
    """Writes lines to standard output, each at once."""

    def __init__(self, descriptor: int = 1) -> None:
        """Write to this file descriptor."""
        self._descriptor = descriptor
        self.is_terminal = os.isatty(descriptor)

    async def text(self, text: str) -> None:
        """Write a text and a newline; for a terminal, control characters are made visible.

        Raises:
            BrokenPipeError: nobody reads any more.
            OSError: the disk that it goes to is full, or broken.
        """
        shown = visible(text) if self.is_terminal else text
        await self.line(shown.encode("utf-8", "replace"))

    async def line(self, line: bytes) -> None:
        """Write bytes and a newline.

        Raises:
            BrokenPipeError: nobody reads any more.
            OSError: the disk that it goes to is full, or broken.
        """
        await trio.to_thread.run_sync(self._write, line + b"\n", abandon_on_cancel=True)

    def write(self, text: str) -> None:
        """Write a piece of a text at once, in the thread that calls; as `text` does.

        Raises:
            BrokenPipeError: nobody reads any more.
            OSError: the disk that it goes to is full, or broken.
        """
        shown = visible(text) if self.is_terminal else text
        self._write(shown.encode("utf-8", "replace"))

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from error


def tell(*notes: str) -> None:
    """Write notes for the user to standard error, a line each."""
    for note in notes:
        print(f"greenroom: {visible(note)}", file=sys.stderr, flush=True)
