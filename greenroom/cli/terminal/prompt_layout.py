"""What is where on the screen: what may still change, the open question, the line, a hint, the status.

All of it is laid out for the size that the terminal has at that moment. The question is first to get
room and what may change is last, so that nothing ever comes between a question and the line.
"""

from collections.abc import Callable
from textwrap import wrap

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout import (
    BufferControl,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.processors import BeforeInput

from greenroom.cli.terminal.question_pane import QuestionPane, fold, join
from greenroom.cli.terminal.terminal import Frame
from greenroom.core import visible


class PromptLayout:
    """The windows of the input line's application, and what they show."""

    def __init__(self, buffer: Buffer, label: Callable[[], str]) -> None:
        """Lay out this line, behind this label."""
        self._buffer = buffer
        self._label = label
        self._above, self._hint = StyleAndTextTuples(), StyleAndTextTuples()
        self._status = ""
        self._heights = (0, 1, 0)  # what is above the line, the line, the hint
        line = BufferControl(buffer, input_processors=[BeforeInput(label)])
        hint = FormattedTextControl(lambda: self._hint, style="class:hint")
        status = FormattedTextControl(lambda: self._status, style="class:status")
        windows = [
            Window(FormattedTextControl(lambda: self._above), height=self._height(0)),
            Window(line, wrap_lines=True, height=self._height(1)),
            Window(hint, height=self._height(2)),
            Window(status, height=1, dont_extend_height=True),
        ]
        self.layout = Layout(HSplit(windows))

    def arrange(
        self, size: tuple[int, int], frame: Frame, hint: str, pane: QuestionPane | None, aside: str
    ) -> None:
        """Share the lines of the terminal out; `aside` is a text that is kept for afterwards."""
        columns, lines = size
        words = "\n".join(wrap(hint, max(columns - 1, 1)))
        hints = fold(words, columns)[: max(min(max(lines // 3, 1), lines - 2), 0)]
        height = len(fold(visible(f"{self._label()}{self._buffer.text} "), columns))
        height = min(height, lines // (4 if pane else 2)) or 1
        room = max(lines - 1 - height - len(hints), 0)
        rows = pane.fit(columns, room, frame.question.place) if pane and frame.question else []
        kept = f"kept for afterwards: {visible(' '.join(aside.split()))}" if pane and aside else ""
        live = fold("\n".join(filter(None, (frame.live, kept))), columns)
        live = live[-(room - len(rows)) :] if room > len(rows) else []
        self._above, self._hint, self._status = join([*live, *rows]), join(hints), frame.status
        self._heights = (len(live) + len(rows), height, len(hints))

    def _height(self, window: int) -> Callable[[], Dimension]:
        return lambda: Dimension.exact(self._heights[window])
