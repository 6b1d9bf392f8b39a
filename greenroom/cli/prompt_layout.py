"""What the live terminal shows around its input line: the layout, an open question, a hidden line.

Everything is laid out for the terminal's size at that moment. The question gets its rows first and
what may still change gets the rest, so nothing ever comes between a question and the line.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from textwrap import wrap

from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Filter
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output.vt100 import Vt100_Output

from greenroom.cli.input_line import InputLine
from greenroom.cli.line_window import LineWindow
from greenroom.cli.page_pane import PAGE_KEYS, PagePane
from greenroom.cli.paste_chips import ShowChips
from greenroom.cli.question_pane import QuestionPane, fold, join
from greenroom.cli.terminal import Frame
from greenroom.core._internal import visible

_MAX_LENGTH = 65_536  # characters of a hidden line; more is ignored
_MASK = "•••"


class HiddenLine:
    """A line that is never shown, such as a password; the screen shows only that it is not empty.

    It is not in prompt_toolkit's buffer, since that has an undo stack, a history, a kill ring and
    macros, and each of them would remember it.
    """

    def __init__(self) -> None:
        self.text = ""
        """What was typed so far."""
        self._is_finished = False

    @property
    def mask(self) -> str:
        """The text that is shown instead; it does not reveal the length."""
        return _MASK if self.text else ""

    def bind(self, keys: KeyBindings, when: Filter) -> None:
        """Bind the keys that edit it; the line editor's own keys are off meanwhile."""
        for name, do in (
            (Keys.Any, self._type),
            (Keys.BracketedPaste, lambda event: self._add(event.data)),
            (Keys.Backspace, lambda _: self._replace(self.text[:-1])),
            (Keys.ControlU, lambda _: self._replace("")),
        ):
            keys.add(name, filter=when, eager=True, record_in_macro=False)(do)

    def finish(self) -> None:
        """Forget the text, once it was passed on or refused."""
        self.text, self._is_finished = "", True

    def close(self) -> bool:
        """Forget everything; return whether the person may be in the middle of typing."""
        is_typing = bool(self.text) or not self._is_finished
        self.text, self._is_finished = "", False
        return is_typing

    def _type(self, event: KeyPressEvent) -> None:
        if event.key_sequence[0].key == event.data:  # a letter, and no key with a name
            self._add(event.data)

    def _add(self, text: str) -> None:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if len(self.text) + len(text) <= _MAX_LENGTH:
            self.text += text

    def _replace(self, text: str) -> None:
        self.text = text


class PromptLayout:
    """The windows of the input line's application, and what they show."""

    def __init__(self, line: InputLine, label: Callable[[], str]) -> None:
        """Lay out this line, after this label."""
        self._line = line
        self._label = label
        self._above, self._hint = StyleAndTextTuples(), StyleAndTextTuples()
        self._menu = StyleAndTextTuples()
        self._status = ""
        self._heights = (0, 1, 0, 0)  # of the text above the line, the line, its menu, the hint
        processors = [BeforeInput(label), ShowChips(line.chips)]
        control = BufferControl(line.buffer, input_processors=processors)
        hint = FormattedTextControl(lambda: self._hint, style="class:hint")
        status = FormattedTextControl(lambda: self._status, style="class:status")
        windows = [
            Window(FormattedTextControl(lambda: self._above), height=self._height(0)),
            LineWindow(control, wrap_lines=True, height=self._height(1)),
            Window(FormattedTextControl(lambda: self._menu), height=self._height(2)),
            Window(hint, height=self._height(3)),
            Window(status, height=1, dont_extend_height=True),
        ]
        self.layout = Layout(HSplit(windows))

    def arrange(
        self,
        size: tuple[int, int],
        frame: Frame,
        hint: str,
        pane: QuestionPane | None = None,
        aside: str = "",
        before: Sequence[str] = (),
        page: PagePane | None = None,
    ) -> None:
        """Share out the terminal's lines.

        Args:
            size: its columns and lines.
            frame: what to show.
            hint: what to say below the line.
            pane: the open question.
            aside: text that comes back after the question.
            before: lines that were printed, to repeat where there is room left.
            page: what a person scrolls through, in place of all else.
        """
        columns, lines = size
        if page is not None:
            self._above, self._status = join(page.fit(columns, lines - 1)), PAGE_KEYS[:columns]
            self._heights = (lines - 1, 0, 0, 0)
            return
        words = "\n".join(wrap(hint, max(columns - 1, 1)))
        hints = fold(words, columns)[: max(min(max(lines // 3, 1), lines - 2), 0)]
        height = len(fold(visible(f"{self._label()}{self._line.shown} "), columns))
        height = min(height, lines // (4 if pane else 2)) or 1
        room = max(lines - 1 - height - len(hints), 0)
        menu = (
            []
            if pane
            else [StyleAndTextTuples([row]) for row in self._line.update_menu().rows(columns, room)]
        )
        room -= len(menu)
        rows = pane.fit(columns, room, frame.question.place) if pane and frame.question else []
        later = f"for afterwards: {visible(' '.join(aside.split()))}" if pane and aside else ""
        live = fold("\n".join([*before, *filter(None, (frame.live, later))]), columns)
        live = live[-(room - len(rows)) :] if room > len(rows) else []
        self._above, self._hint = join([*live, *rows]), join(hints)
        self._status = frame.status(max(columns - 1, 1))
        self._menu = join(menu)
        self._heights = (len(live) + len(rows), height, len(menu), len(hints))

    def _height(self, window: int) -> Callable[[], Dimension]:
        return lambda: Dimension.exact(self._heights[window])


_BEGIN_UPDATE, _END_UPDATE = "\x1b[?2026h", "\x1b[?2026l"


class BatchedOutput(Vt100_Output):
    """Draws on the terminal of standard output; a batch of changes reaches it at once."""

    is_batching = False

    def __init__(self) -> None:
        """Open the terminal once more, to leave nothing in standard output's buffer."""
        file = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", errors="replace")
        super().__init__(file, terminal_size, term=os.environ.get("TERM"), enable_cpr=False)

    def close(self) -> None:
        """Close the terminal, if it is still there."""
        with suppress(OSError):
            self.stdout.close()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Write nothing before the block ends, and then all of it in one piece."""
        self.is_batching = True
        try:
            yield
        finally:
            self.is_batching = False
            self.flush()

    def erase_down(self) -> None:
        """Erase all from the beginning of this row on.

        Not at once: told to erase the whole screen, tmux moves it to the scrollback first.
        """
        self.write_raw("\x1b[2K\x1b[C\x1b[J\r")

    def flush(self) -> None:
        """Write what was drawn, unless a block collects it."""
        if self.is_batching or not self._buffer:
            return
        # A terminal that knows of synchronized updates shows all of it at once.
        self._buffer = [_BEGIN_UPDATE, *self._buffer, _END_UPDATE]
        # The window may be closed at any moment. Then reading from it ends too, and that ends the
        # application in good order.
        with suppress(OSError):
            super().flush()


def terminal_size() -> Size:
    """Return its size at this moment; any thread may ask."""
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except OSError:  # it was closed this moment
        return Size(rows=24, columns=80)
    # Some, such as a serial line, do not know theirs.
    return Size(rows=size.lines or 24, columns=size.columns or 80)
