"""The window of the input line, which draws the cursor itself.

The terminal's own cursor stays in the first row of what is live, out of sight. A terminal that
wraps its rows again when the window gets narrower moves the cursor along with its row, so whatever
it made of the rows below, to erase from the cursor on erases all of them and nothing else. How many
rows there are then can't be known: some terminals wrap, others cut.
"""

from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout import Window
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.screen import Char, Screen, WritePosition


class LineWindow(Window):
    """A window whose cursor is drawn, in reverse."""

    def write_to_screen(
        self,
        screen: Screen,
        mouse_handlers: MouseHandlers,
        write_position: WritePosition,
        parent_style: str,
        erase_bg: bool,
        z_index: int | None,
    ) -> None:
        """Write the line and its cursor."""
        super().write_to_screen(
            screen, mouse_handlers, write_position, parent_style, erase_bg, z_index
        )
        if not write_position.height:
            screen.show_cursor = False
            return
        at = screen.get_cursor_position(self)
        cell = screen.data_buffer[at.y][at.x]
        screen.data_buffer[at.y][at.x] = Char(cell.char, f"{cell.style} reverse")
        screen.set_menu_position(self, at)
        screen.set_cursor_position(self, Point(0, 0))
        screen.show_cursor = False
