"""Standard output as a page: renderables for a terminal, plain text for a pipe or a file."""

import os
import shutil
from typing import TYPE_CHECKING

from greenroom.cli.streams.output_writer import OutputWriter

if TYPE_CHECKING:
    from rich.console import RenderableType

_ENDLESS = 10_000  # columns where nobody has said how wide a line may be


class Page(OutputWriter):
    """Writes what a command prints, painted for whoever reads it; nothing is redrawn."""

    @property
    def columns(self) -> int | None:
        """How wide the terminal is; None where it is none."""
        return shutil.get_terminal_size().columns if self.is_terminal else None

    async def show(self, *renderables: "RenderableType") -> None:
        """Write these one below the other; without colours where nobody would see them.

        The renderables have to keep control characters to themselves.

        Raises:
            BrokenPipeError: nobody reads any more.
            OSError: the disk that it goes to is full, or broken.
        """
        from greenroom.cli.drawing.painter import Painter, colors_of

        painter = Painter(colors_of(os.environ) if self.is_terminal else None)
        painted = painter.paint(renderables, self.columns or _ENDLESS)
        await self.line(painted.removesuffix("\n").encode("utf-8", "replace"))
