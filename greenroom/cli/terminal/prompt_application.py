"""The input line at the bottom of the terminal, and what stands around it: prompt_toolkit's side.

Nothing here knows of trio or of agents, and nothing else knows of prompt_toolkit. All methods but
`run` are called in the application's own loop.
"""

import select
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText
from prompt_toolkit.input import create_input
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style

from greenroom.cli.drawing.painter import Colors
from greenroom.cli.terminal.prompt_io import open_file, output_to, terminal_size
from greenroom.cli.terminal.terminal import Frame, Key, KeyName, Line, PersonEvent, Question

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop  # noqa: TID251 (prompt_toolkit's loop, for typing)

__all__ = ["PromptApplication"]

_GUARD = 0.4  # seconds without a key before a new question takes an answer: it was not meant
_ESCAPE = 0.03  # seconds until an escape is the key, not the start of a sequence
_META = 0.05  # seconds until an escape is the key, not the Alt of the next one
_INPUT_LINES = 10
_LABEL = "> "

# A window that gains or loses the focus says so, where another program left that switched on. It is
# no key: taken for one, it would be an escape and two letters.
ANSI_SEQUENCES.update({"\x1b[I": Keys.Ignore, "\x1b[O": Keys.Ignore})


class PromptApplication:
    """An application that never ends by itself; it tells what the person does."""

    def __init__(self, hear: Callable[[PersonEvent], bool], colors: Colors) -> None:
        """Tell events to `hear`, which is False where there is no room for one."""
        self._hear = hear
        self._frame = Frame()
        self._live: AnyFormattedText = ""
        # What a line that is begun now would answer, and what the line in hand would.
        self._armed: Question | None = None
        self._bound: Question | None = None
        self._begun = False
        self._unpainted: Question | None = None
        self._pressed_at = float("-inf")
        self._buffer = Buffer(multiline=True, on_text_changed=self._text_changed)
        self._file = open_file()
        self._app: Application[None] = Application(
            layout=self._layout(),
            key_bindings=self._keys(),
            color_depth=ColorDepth.DEPTH_1_BIT if colors is None else None,
            style=Style.from_dict({"status": "ansibrightblack"}),
            erase_when_done=True,
            input=create_input(sys.stdin),
            output=output_to(self._file),
        )
        self._app.after_render += lambda _: self._painted()
        self._app.key_processor.before_key_press += lambda _: self._pressed()
        self._app.ttimeoutlen = _ESCAPE
        self._app.timeoutlen = _META

    def run(self, started: Callable[[], None]) -> None:
        """Run until `close`, or until the terminal has gone away; it blocks this thread."""
        with suppress(EOFError, OSError, termios.error):
            self._app.run(pre_run=started, set_exception_handler=False, handle_sigint=False)
        with suppress(OSError):
            self._file.close()

    @property
    def loop(self) -> "AbstractEventLoop | None":
        """The loop that it runs in, or None before and after."""
        return self._app.loop

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines of the terminal at this moment; any thread may ask."""
        size = terminal_size()
        return size.columns, size.rows

    def show(self, frame: Frame, written: Callable[[], None]) -> None:
        """Show a frame in place of the one before."""
        if frame.printed:
            self._app.renderer.erase()
            self._app.output.write_raw(frame.printed.replace("\n", "\r\n"))
        if frame.live != self._frame.live:
            self._live = ANSI(frame.live.removesuffix("\n"))
        self._ask(frame.question)
        self._frame = frame
        self._app.invalidate()
        written()

    def clear_line(self) -> None:
        """Throw away what stands in the line."""
        self._begin_line()

    def close(self) -> None:
        """End `run`, and give the terminal back."""
        if self._app.is_running and not self._app.is_done:
            self._app.exit()

    # -- which question a line answers ----------------------------------------------------------

    def _ask(self, question: Question | None) -> None:
        if question == self._frame.question:
            return
        self._armed = self._unpainted = None
        if question is not None and question.is_follow_up:
            self._armed = question
            if question.text and not self._buffer.text:
                self._buffer.insert_text(question.text)
        else:
            self._unpainted = question

    def _painted(self) -> None:
        question, self._unpainted = self._unpainted, None
        if question is not None:
            self._arm_later(question)

    def _pressed(self) -> None:
        if self._app.loop is not None:
            self._pressed_at = self._app.loop.time()

    def _arm_later(self, question: Question) -> None:
        if self._app.loop is not None:
            self._app.loop.call_later(_GUARD, self._arm, question)

    def _arm(self, question: Question) -> None:
        """Let a question be answered, unless somebody still types what was meant for something else."""
        loop = self._app.loop
        if loop is None or question != self._frame.question:
            return
        if loop.time() - self._pressed_at < _GUARD or self._has_input():
            self._arm_later(question)
            return
        self._armed = question
        self._app.invalidate()

    def _has_input(self) -> bool:
        """Whether something was typed that was not read yet."""
        return bool(select.select([self._app.input.fileno()], [], [], 0)[0])

    def _text_changed(self, buffer: Buffer) -> None:
        if not buffer.text:
            self._bound = None
        elif not self._begun:
            self._bound = self._armed
        self._begun = bool(buffer.text)

    def _begin_line(self, *, keep: bool = False) -> None:
        # A reset does not count as a change of the text.
        self._buffer.reset(append_to_history=keep)
        self._bound, self._begun = None, False

    def _label(self) -> str:
        question = self._bound if self._buffer.text else self._armed
        return question.label if question is not None and question == self._armed else _LABEL

    # -- keys -----------------------------------------------------------------------------------

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        is_empty = Condition(lambda: not self._buffer.text)
        keys.add("enter")(self._enter)
        keys.add(Keys.BracketedPaste)(self._paste)
        keys.add("escape", "enter")(lambda event: event.current_buffer.newline())
        keys.add("escape")(lambda event: self._press(KeyName.ESCAPE))
        keys.add("c-c")(lambda event: self._press(KeyName.CTRL_C))
        keys.add("c-d", filter=is_empty)(lambda event: self._press(KeyName.CTRL_D))
        return keys

    def _press(self, name: KeyName) -> None:
        self._hear(Key(name, self._buffer.text))

    def _paste(self, event: KeyPressEvent) -> None:
        """Insert what was pasted; a line of it answers no question but one that asks for words."""
        self._buffer.insert_text(event.data.replace("\r\n", "\n").replace("\r", "\n"))
        if self._bound is not None and not self._bound.is_follow_up:
            self._bound = None

    def _enter(self, event: KeyPressEvent) -> None:
        text = self._buffer.text
        question = self._bound if text else self._armed
        if self._hear(Line(text, question.id if question else "")):
            self._begin_line(keep=question is None)
        else:
            event.app.output.bell()

    # -- layout ---------------------------------------------------------------------------------

    def _layout(self) -> Layout:
        has_live = Condition(lambda: bool(self._frame.live))
        live = Window(FormattedTextControl(lambda: self._live), dont_extend_height=True)
        line = Window(
            BufferControl(self._buffer, input_processors=[BeforeInput(self._label)]),
            wrap_lines=True,
            dont_extend_height=True,
            height=Dimension(min=1, max=_INPUT_LINES),
        )
        status = Window(
            FormattedTextControl(lambda: self._frame.status, style="class:status"),
            height=1,
            dont_extend_height=True,
        )
        return Layout(HSplit([ConditionalContainer(live, has_live), line, status]))
