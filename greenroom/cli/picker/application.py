"""The list of sessions on the whole screen: prompt_toolkit's side.

Nothing here knows of trio. All methods but `run` and `close` are called in the application's own loop.
"""

import sys
import termios
from collections.abc import Callable
from contextlib import suppress

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import AnyFormattedText
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    VSplit,
    Window,
)
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style

from greenroom.cli.drawing.painter import Colors
from greenroom.cli.picker.choice import Choice
from greenroom.cli.picker.controls import ListControl, PreviewControl
from greenroom.cli.picker.entry import Entry
from greenroom.cli.picker.preview import Preview
from greenroom.cli.terminal.prompt_io import open_file, output_to, terminal_size

_ESCAPE = 0.03  # seconds until an escape is the key, not the start of a sequence
_META = 0.05  # seconds until an escape is the key, not the Alt of the next one
_WIDE, _TALL = 110, 16  # from where on the preview stands beside the list, or below it
_STYLE = {"note": "ansibrightblack", "current": "bold ansicyan", "head": "bold"}
_HELP = "Enter resumes · Tab {other} · Esc leaves"


class PickerApplication:
    """Shows a choice until the person takes one of it or leaves."""

    def __init__(
        self, choice: Choice, colors: Colors, follow: Callable[[Entry | None], None]
    ) -> None:
        """Tell `follow` whose preview is wanted, each time that this changes."""
        self._choice = choice
        self._follow = follow
        self._wanted: Entry | None = None
        self._preview: Preview | None = None
        self._is_closed = False
        self._buffer = Buffer(multiline=False, on_text_changed=self._search)
        self._list = Window(ListControl(choice))
        self._file = open_file()
        self._app: Application[str | None] = Application(
            layout=self._layout(colors),
            key_bindings=self._keys(),
            color_depth=ColorDepth.DEPTH_1_BIT if colors is None else None,
            style=Style.from_dict(_STYLE),
            full_screen=True,
            input=create_input(sys.stdin),
            output=output_to(self._file),
        )
        self._app.ttimeoutlen = _ESCAPE
        self._app.timeoutlen = _META

    def run(self) -> str | None:
        """Return the id that was taken, or None; it blocks this thread.

        Leaving, `close` and the end of the terminal take none.
        """
        taken = None
        with suppress(EOFError, OSError, termios.error):
            taken = self._app.run(
                pre_run=self._started, set_exception_handler=False, handle_sigint=False
            )
        with suppress(OSError):
            self._file.close()
        return taken

    def close(self) -> None:
        """End `run`, from any thread; if it has not begun yet, it ends as it begins."""
        self._is_closed = True
        self.post(self._leave)

    def post(self, function: Callable[[], None]) -> None:
        """Have a function called in the application's loop; nothing happens if that has ended."""
        loop = self._app.loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop closed this moment
                loop.call_soon_threadsafe(function)

    def show(self, preview: Preview) -> None:
        """Show a preview, if it is still wanted."""
        if self._wanted is not None and preview.session_id == self._wanted.session_id:
            self._preview = preview
            self._app.invalidate()

    def redraw(self) -> None:
        """Draw everything anew, in the size that the terminal has now."""
        self._app.renderer.erase(leave_alternate_screen=False)
        self._app.invalidate()

    def _started(self) -> None:
        if self._is_closed:
            self._leave()
        self._changed()

    def _leave(self, taken: str | None = None) -> None:
        if self._app.is_running and not self._app.is_done:
            self._app.exit(result=taken)

    # -- what the person does -------------------------------------------------------------------

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        for name in ("up", "c-p"):
            keys.add(name)(lambda _: self._move(-1))
        for name in ("down", "c-n"):
            keys.add(name)(lambda _: self._move(1))
        keys.add("pageup")(lambda _: self._move(-self._page))
        keys.add("pagedown")(lambda _: self._move(self._page))
        keys.add("tab")(lambda _: self._toggle())
        keys.add("enter")(self._take)
        for name in ("escape", "c-c", "c-d"):
            keys.add(name)(lambda _: self._leave())
        return keys

    def _move(self, by: int) -> None:
        self._choice.move(by)
        self._changed()

    @property
    def _page(self) -> int:
        shown = self._list.render_info
        return max(shown.window_height - 1, 1) if shown is not None else 1

    def _toggle(self) -> None:
        self._choice.toggle()
        self._changed()

    def _search(self, buffer: Buffer) -> None:
        self._choice.search(buffer.text)
        self._changed()

    def _take(self, event: KeyPressEvent) -> None:
        if self._choice.current is None:
            event.app.output.bell()
        else:
            self._leave(self._choice.current.session_id)

    def _changed(self) -> None:
        if self._choice.current is not self._wanted:
            self._wanted, self._preview = self._choice.current, None
            self._follow(self._wanted)

    # -- layout ---------------------------------------------------------------------------------

    def _layout(self, colors: Colors) -> Layout:
        is_wide = Condition(lambda: terminal_size().columns >= _WIDE)
        is_tall = Condition(lambda: terminal_size().rows >= _TALL)
        line = Window(
            BufferControl(self._buffer, input_processors=[BeforeInput("> ")]),
            height=1,
        )
        beside = VSplit(
            [
                Window(width=0),
                Window(width=1, char="│", style="class:note"),
                self._preview_window(colors, width=lambda: terminal_size().columns * 2 // 5),
            ],
            padding=1,
        )
        below = HSplit(
            [
                Window(height=1, char="─", style="class:note"),
                self._preview_window(colors, height=lambda: terminal_size().rows // 3),
            ]
        )
        return Layout(
            HSplit(
                [
                    Window(FormattedTextControl(self._head), height=1, style="class:head"),
                    line,
                    VSplit([self._list, ConditionalContainer(beside, is_wide)]),
                    ConditionalContainer(below, is_tall & ~is_wide),
                    Window(FormattedTextControl(self._help), height=1, style="class:note"),
                ]
            ),
            focused_element=line,
        )

    def _preview_window(
        self,
        colors: Colors,
        width: Callable[[], int] | None = None,
        height: Callable[[], int] | None = None,
    ) -> Window:
        return Window(PreviewControl(lambda: self._preview, colors), width=width, height=height)

    def _head(self) -> AnyFormattedText:
        place = "all folders" if self._choice.is_everywhere else "this folder"
        return f"Sessions of {place} · {len(self._choice.shown):,} of {self._choice.total:,}"

    def _help(self) -> AnyFormattedText:
        return _HELP.format(other="this folder" if self._choice.is_everywhere else "all folders")
