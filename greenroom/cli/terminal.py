"""The interface of a terminal, and the plain one; `prompt_terminal` has the live one."""

import os
import shutil
import termios
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec
import trio

from greenroom.cli.commands import Command
from greenroom.cli.menu import Candidate
from greenroom.cli.stdio import OutputWriter, count_unread, read_some
from greenroom.core._internal import Reticent, visible

if TYPE_CHECKING:  # it loads rich, and the first key would wait for that
    from greenroom.cli.painter import Colors

GUARD = 0.5
"""Seconds for a person to see a question before a key may answer it."""

NARROWEST = 20
"""Columns below which no question is answered, since it could not be read."""


Paint: TypeAlias = Callable[[int], str]
"""Paints something for a terminal of so many columns."""


def _paint_nothing(columns: int) -> str:
    return ""


class QuestionText(msgspec.Struct, frozen=True):
    """What a question shows; the same functions for as long as it looks the same.

    Attributes:
        paint: paints what has to be read before a yes.
        content: paints what may be cut in the middle, above that, such as a file's content.
        choices: paints the choices, which a live terminal always shows whole.
    """

    paint: Paint = _paint_nothing
    content: Paint = _paint_nothing
    choices: Paint = _paint_nothing

    def whole(self, columns: int) -> str:
        """Paint all of it."""
        return self.content(columns) + self.paint(columns) + self.choices(columns)


_NOTHING = QuestionText()


class PromptQuestion(msgspec.Struct, frozen=True):
    """A question that the next line may answer.

    Attributes:
        id: what the answer is bound to; empty while one is coming that takes no answer yet.
        label: the text before the line while the line would be the answer.
        shown: what it shows.
        place: which question of how many it is; empty for the only one.
        is_follow_up: whether the person asked for it, and so expects it at once.
        takes_text: whether the answer is any text, which may be pasted, and no choice.
        text: the initial text of the line, if the terminal supports it.
        is_hidden: whether typed text is never shown and never stored; for live terminals.
        opens_editor: whether the text is at once opened in the person's editor, likewise.
    """

    id: str
    label: str
    shown: QuestionText = _NOTHING
    place: str = ""
    is_follow_up: bool = False
    takes_text: bool = False
    text: str = ""
    is_hidden: bool = False
    opens_editor: bool = False


class Frame(msgspec.Struct, frozen=True):
    """What a terminal shows from now on.

    Attributes:
        scrollback: text that stays, above everything else.
        live: text that may still change.
        status: paints one line about the agent.
        question: the question that is open, or None.
        hint: what the person should know for the moment.
        has_queued: whether inputs wait that the person can take back.
        page: painted text that a person scrolls through in place of all else, until it is empty.
        signal: control codes that call the person, sent once; for live terminals.
    """

    scrollback: str = ""
    live: str = ""
    status: Paint = _paint_nothing
    question: PromptQuestion | None = None
    hint: str = ""
    has_queued: bool = False
    page: str = ""
    signal: str = ""


class Line(Reticent, frozen=True):
    """A line that the person has entered.

    Attributes:
        text: what it says.
        question: the id of the question that it answers, or empty: it was shown whole or in part,
            for long enough, from before the first letter was typed.
        is_read: whether all of that question has been on the screen.
        shown: what stood in the line for it, where long pasted texts are chips; or empty.
    """

    text: str
    question: str = ""
    is_read: bool = True
    shown: str = ""

    def __repr__(self) -> str:
        """Say which question it answers, and nothing that was typed."""
        return f"<a line for {self.question or 'the agent'}>"


class KeyName(StrEnum):
    """The keys that mean something besides text."""

    ESCAPE = "escape"
    CTRL_C = "ctrl-c"
    CTRL_D = "ctrl-d"
    TAKE_BACK = "take back"
    STEER = "steer"
    TAB = "tab"
    NEXT_CHOICE = "next choice"
    PREVIOUS_CHOICE = "previous choice"
    NEXT_MODE = "next mode"
    UNFOLD = "unfold"
    TODOS = "todos"


class Key(msgspec.Struct, frozen=True):
    """A key that is not text.

    Attributes:
        name: which.
        line: the text in the line when it was pressed, which stays there.
        is_first: whether any other key or paste came since the last time that it was pressed.
        question: the id of the question that was open, or empty.
    """

    name: KeyName
    line: str = ""
    is_first: bool = False
    question: str = ""


class Wanted(msgspec.Struct, frozen=True):
    """A menu has opened that needs candidates of a kind; `Terminal.offer` takes them."""

    kind: str


class Closed(msgspec.Struct, frozen=True):
    """No more lines will come; what has come may still be worked on."""


PersonEvent: TypeAlias = Line | Key | Wanted | Closed
"""Anything that a person does."""


class Terminal(Protocol):
    """A terminal that is open.

    No line answers a question that the person can't see: a live terminal keeps the question above
    the line, a plain one prints it again after any other output. A terminal refuses lines that were
    typed too early for an answer, and says so.
    """

    @property
    def events(self) -> trio.MemoryReceiveChannel[PersonEvent]:
        """What the person does, in order."""

    @property
    def colors(self) -> "Colors":
        """How many colours it has."""

    @property
    def size(self) -> tuple[int, int]:
        """Its columns and lines at this moment."""

    @property
    def echoes(self) -> bool:
        """Whether it shows itself what is typed, so that a sent line need not be printed."""

    @property
    def is_live(self) -> bool:
        """Whether it redraws what it shows and has a line that a program can change, and hide."""

    async def show(self, frame: Frame) -> None:
        """Show a frame in place of the one before; returns once it is written.

        Frames appear in the order of the calls.
        """

    def clear_line(self) -> None:
        """Clear the line."""

    def put_back(self, text: str) -> None:
        """Put text before the text in the line; do nothing if the terminal is not live."""

    def adopt(self, options: "LineOptions") -> None:
        """Edit the line as these options say from now on, if the terminal is live."""

    def restyle(self, styles: Mapping[str, str]) -> None:
        """Draw what stands around the line in these styles of `themes`, if the terminal is live."""

    def know(self, commands: Sequence[Command]) -> None:
        """Offer these commands in a menu while they are typed, if the terminal is live."""

    def offer(self, kind: str, candidates: Sequence[Candidate]) -> None:
        """Offer these where a word of this kind belongs, if the terminal is live."""


class LineOptions(msgspec.Struct, frozen=True):
    """How an input line is edited.

    Attributes:
        vi: whether its keys are those of vi, not those of Emacs.
        editor: the command of the editor for a draft.
        history: earlier inputs, the oldest first.
    """

    vi: bool = False
    editor: str = "vi"
    history: Sequence[str] = ()


TerminalOpener: TypeAlias = Callable[[], AbstractAsyncContextManager[Terminal]]
"""Opens the terminal, and restores it when the block ends."""


_MAX_EVENTS = 64
_MAX_LINE = 1_000_000  # bytes of a line; a longer one is taken in pieces
_EARLY = "too early, not taken"
_NARROW = f"not taken: a question needs {NARROWEST} columns"


@asynccontextmanager
async def open_plain_terminal(descriptor: int = 0) -> AsyncIterator[Terminal]:
    """Print finished output and read lines; nothing is ever redrawn.

    While a question is open it is printed again, whole, after any other output. A line can answer
    it only if all of the line was typed after the question and its label were printed. Lines from
    before the question go to the agent; lines typed between question and label are refused. The
    beginning of a line that a person had not finished by then is discarded, since such a terminal
    does not show it to a program.
    """
    async with trio.open_nursery() as nursery:
        terminal = _PlainTerminal(descriptor, nursery)
        nursery.start_soon(terminal.read_lines)
        yield terminal
        nursery.cancel_scope.cancel()


class _PlainTerminal:
    colors: "Colors" = None
    is_live = False

    def __init__(self, descriptor: int, nursery: trio.Nursery) -> None:
        self._descriptor = descriptor
        self._nursery = nursery
        self._out = OutputWriter()
        self._one_writer = trio.Lock()
        self._hint = ""
        self._question: PromptQuestion | None = None
        self._last_printed: object = None  # what the question shows, if it was printed last
        self._open_id = ""  # the id of the question whose label was printed
        self._stale_bytes = 0  # bytes that were there before the question was
        self._stale_id = ""  # the question that was open then, for which they may have been meant
        self._early_bytes = 0  # and those after them that were there before its label was
        self._partial_line = b""  # a line that has no end yet
        self._partial_id = ""  # the question that was open when it began
        self._send, self.events = trio.open_memory_channel[PersonEvent](_MAX_EVENTS)

    @property
    def size(self) -> tuple[int, int]:
        size = shutil.get_terminal_size()
        return size.columns, size.lines

    @property
    def _is_typed(self) -> bool:
        """Whether a person types the lines, and so must see a question first."""
        return os.isatty(self._descriptor)

    @property
    def _is_guarded(self) -> bool:
        """Whether a person is asked and was not given the time to see it."""
        asked = self._question
        return self._is_typed and asked is not None and self._open_id != (asked.id or None)

    @property
    def echoes(self) -> bool:
        try:
            return bool(termios.tcgetattr(self._descriptor)[3] & termios.ECHO)
        except termios.error:
            return False

    async def show(self, frame: Frame) -> None:
        question, before = frame.question, self._question
        is_new = question is not None and (before is None or before.id != question.id)
        if question is None or is_new:
            self._open_id = ""
        if question is not None and is_new and not question.is_follow_up:
            self._stale_bytes = count_unread(self._descriptor)
            if before is None or before.id:
                self._stale_id = before.id if before else ""
        self._question = question
        hint, self._hint = self._hint, frame.hint
        try:
            await self._write(
                frame.scrollback.removesuffix("\n"), "" if hint == frame.hint else frame.hint
            )
            if question is not None and question.id and is_new:
                await self._ask(question)
        except BrokenPipeError:
            self._send.close()  # the output is closed, so the person has left

    async def _write(self, *texts: str) -> None:
        """Print texts, and the open question at once if it was not printed last."""
        async with self._one_writer:
            lines, question = [text for text in texts if text], self._question
            if lines:
                self._last_printed = None
            if question is None or self._last_printed is not question.shown:
                lines += self._question_lines()
            if lines:
                await self._out.line("\n".join(lines).encode("utf-8", "replace"))

    def _question_lines(self) -> list[str]:
        """Return the open question whole, with its label if it may be answered already."""
        question = self._question
        if question is None:
            self._last_printed = None
            return []
        self._last_printed = question.shown
        place = f"  {question.place}" if question.place else ""
        label = question.label.rstrip() if self._open_id and self._open_id == question.id else ""
        whole = question.shown.whole(self.size[0]).removesuffix("\n")
        return [line for line in (whole, place, label) if line]

    async def _ask(self, question: PromptQuestion) -> None:
        """Let a question be answered; a person is given a moment to see that there is one."""
        if question.is_follow_up:
            await self._take_answers(question)
        elif self._is_typed:
            self._nursery.start_soon(self._take_answers_later, question.id)
        else:
            self._stale_bytes = count_unread(self._descriptor)
            await self._take_answers(question)

    async def _take_answers_later(self, id_: str) -> None:
        await trio.sleep(GUARD)
        if self._question is not None and self._question.id == id_ and self._open_id != id_:
            self._early_bytes = max(count_unread(self._descriptor) - self._stale_bytes, 0)
            self._discard_partial_line()
            with suppress(BrokenPipeError):  # the next frame finds that as well
                await self._take_answers(self._question)

    async def _take_answers(self, question: PromptQuestion) -> None:
        """Print the label, which says that the next line may be the answer."""
        # Before it is written, since a reader may answer before we are back.
        self._open_id = question.id
        async with self._one_writer:
            is_last = self._last_printed is question.shown
            lines = [question.label.rstrip()] if is_last else self._question_lines()
            await self._out.line("\n".join(lines).encode("utf-8", "replace"))

    def _discard_partial_line(self) -> None:
        """Throw away the line that a person has begun, once those before it were read."""
        if not self._stale_bytes and not self._early_bytes and self._is_typed:
            with suppress(termios.error):
                termios.tcflush(self._descriptor, termios.TCIFLUSH)

    def clear_line(self) -> None:
        pass  # the line is the terminal's own

    def put_back(self, text: str) -> None:
        pass  # likewise

    def adopt(self, options: LineOptions) -> None:
        pass  # likewise

    def restyle(self, styles: Mapping[str, str]) -> None:
        pass  # it has no styles

    def know(self, commands: Sequence[Command]) -> None:
        pass  # it has no menu

    def offer(self, kind: str, candidates: Sequence[Candidate]) -> None:
        pass  # likewise

    async def read_lines(self) -> None:
        with suppress(trio.ClosedResourceError):
            while more := await read_some(self._descriptor):
                await self._receive(more)
            if self._partial_line:
                await self._send_line(b"", "")
            await self._send.send(Closed())

    async def _receive(self, data: bytes) -> None:
        """Handle the bytes read; those typed before the label was printed can't answer."""
        # Of this moment: while its lines are handed on, another question may be asked.
        question, is_guarded = self._open_id, self._is_guarded
        old, data = data[: self._stale_bytes], data[self._stale_bytes :]
        self._stale_bytes -= len(old)
        count = len(data) if is_guarded else self._early_bytes
        early, data = data[:count], data[count:]
        self._early_bytes = 0 if is_guarded else self._early_bytes - len(early)
        await self._split(old, self._stale_id)
        if old or early:
            self._discard_partial_line()
        await self._refuse(early, _EARLY)
        if question and self._is_typed and self.size[0] < NARROWEST:
            await self._refuse(data, _NARROW)
        else:
            await self._split(data, question)

    async def _refuse(self, data: bytes, why: str) -> None:
        """Tell the person what was rejected; a terminal delivers whole lines."""
        text = data.decode("utf-8", "replace").strip()
        if text:
            with suppress(BrokenPipeError):
                await self._write(f"{why}: {visible(text)}")

    async def _split(self, data: bytes, question: str) -> None:
        """Send lines; each answers a question only if that was open from its beginning on."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            await self._send_line(line, question)
        if rest and not self._partial_line:
            self._partial_id = question
        self._partial_line += rest
        if len(self._partial_line) > _MAX_LINE:
            await self._send_line(b"", question)

    async def _send_line(self, end: bytes, question: str) -> None:
        opened = self._partial_id if self._partial_line else question
        line, self._partial_line = self._partial_line + end, b""
        await self._send.send(Line(line.decode("utf-8", "replace").rstrip("\r"), opened))
