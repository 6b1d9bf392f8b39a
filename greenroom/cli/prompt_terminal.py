"""The live terminal: an input line that is always open at the bottom, and everything else above it.

prompt_toolkit runs on asyncio, so its application runs in its own thread. `_PromptTerminal` is
trio's side: it passes frames with `call_soon_threadsafe`, and waits until each is written.
`PromptApplication` is the other side: it passes events with `trio.from_thread`; when the queue is
full, the text stays in the line. It knows nothing of trio or of agents, and all of its methods but
`run` are called in the application's own loop.

While a question is open the line is for its answer alone. Text that was in it is set aside and
comes back afterwards; keys typed before the question could be seen are refused.
"""

import re
import select
import termios
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import trio
from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, vi_insert_mode
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style

from greenroom.cli.commands import Command
from greenroom.cli.input_line import InputLine, bind_line_keys
from greenroom.cli.late_answers import open_input
from greenroom.cli.menu import Candidate
from greenroom.cli.page_pane import PagePane, bind_page_keys
from greenroom.cli.painter import Colors, detect_colors
from greenroom.cli.prompt_layout import (
    BatchedOutput,
    HiddenLine,
    PromptLayout,
    terminal_size,
)
from greenroom.cli.question_pane import QuestionPane
from greenroom.cli.stdio import count_unread
from greenroom.cli.terminal import (
    GUARD,
    Closed,
    Frame,
    Key,
    KeyName,
    Line,
    LineOptions,
    PersonEvent,
    PromptQuestion,
    Terminal,
    Wanted,
)

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop  # noqa: TID251 (prompt_toolkit's loop, for typing)


_MAX_EVENTS = 256
_KEYS = {"escape": KeyName.ESCAPE, "c-c": KeyName.CTRL_C, "c-d": KeyName.CTRL_D}


_STYLES = {
    "status": "ansibrightblack",
    "hint": "ansiyellow",
    "question": "bold ansiyellow",
    "chip": "ansicyan",
    "menu": "ansibrightblack",
    "menu.marked": "bold",
    "menu.preview": "ansicyan",
}
# Keys that look through earlier inputs, or otherwise mean nothing while a question is open.
_UNUSED = ("c-p", "c-n", "c-r", "c-s", "c-x", "c-q", "c-v", "s-tab", "c-t", "c-g")
_ESCAPE = 0.03  # seconds until an escape is the key, not the start of a sequence
_META = 0.05  # seconds until an escape is the key, not the Alt of the next one
_LABEL, _SEARCH, _COMMANDS = "> ", "search: ", ": "
_LINK = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
)  # the address of a link, which stays unseen
_MOST_RECENT = 200  # lines that were printed last, which stand above a question
_EARLY = "too early, not taken: read the question first"
_RESIZED = "not taken: the window has another size now; look at the question again"
_PASTED = "not taken: a question takes no pasted text; type the answer"
_LATE = "not taken: the question is closed, and what is typed now would be seen"
_TOO_SMALL = "not taken: make the window larger, so that the question can be read"

# A window that gains or loses the focus says so, where another program left that switched on. It is
# no key: taken for one, it would be an escape and two letters.
ANSI_SEQUENCES.update({"\x1b[I": Keys.Ignore, "\x1b[O": Keys.Ignore})


class PromptApplication:
    """An application that runs until it is closed, and reports what the person does."""

    def __init__(
        self,
        on_event: Callable[[PersonEvent], bool],
        colors: Colors,
    ) -> None:
        """Pass events to `on_event`, which returns False if it has no room."""
        self._options = LineOptions()
        self._on_event = on_event
        self._frame = Frame()
        self._recent = deque[str](maxlen=_MOST_RECENT)
        self._pane: QuestionPane | None = None
        self._page: PagePane | None = None
        self._is_armed = False  # whether the line may answer the question
        self._is_painted = False
        self._saved_document = Document()  # what was in the line before the question came
        self._hidden_line = HiddenLine()
        self._is_quiet = False  # nothing is taken, since it may be the rest of a hidden line
        self._refusal = ""
        self._dismissed_hint = ""  # the hint that turning a page has removed
        self._pressed_at = float("-inf")
        # Typed before the terminal was set to keys, so that an Enter among them is a Ctrl-J.
        self._early_count = 0
        self._size = (0, 0)  # for which all is laid out
        self._line = InputLine(
            Condition(lambda: self._is_guarded),
            self._want,
        )
        self._buffer = self._line.buffer
        self._layout = PromptLayout(self._line, self._label)
        self._output = BatchedOutput()
        self._app: Application[None] = Application(
            layout=self._layout.layout,
            key_bindings=self._keys(),
            color_depth=ColorDepth.DEPTH_1_BIT if colors is None else None,
            style=Style.from_dict(_STYLES),
            erase_when_done=True,
            input=open_input(),
            output=self._output,
        )
        self._app.before_render += lambda _: self._arrange()
        self._app.after_render += lambda _: self._note_painted()
        self._app.key_processor.before_key_press += lambda _: self._note_press()
        self._app.ttimeoutlen = _ESCAPE
        self._app.timeoutlen = _META

    def run(self, on_start: Callable[[], None]) -> None:
        """Run until `close`, or until the terminal is closed; it blocks this thread."""
        self._early_count = count_unread(self._app.input.fileno())
        with suppress(EOFError, OSError, termios.error):
            self._app.run(pre_run=on_start, set_exception_handler=False, handle_sigint=False)
        self._output.close()

    @property
    def loop(self) -> "AbstractEventLoop | None":
        """The loop that it runs in, or None before and after."""
        return self._app.loop

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines of the terminal at this moment; any thread may ask."""
        size = terminal_size()
        return size.columns, size.rows

    def show(self, frame: Frame, on_written: Callable[[], None]) -> None:
        """Show a frame in place of the one before."""
        before, self._frame = self._frame.question, frame
        if self._page is None or self._page.text is not frame.page:
            self._page = PagePane(frame.page) if frame.page else None
        if frame.signal:
            self._output.write_raw(frame.signal)
            self._output.flush()
        self._ask(before, frame.question)
        self._recent.extend(_LINK.sub("", frame.scrollback).splitlines())
        if frame.scrollback and not self._app.is_done:
            # In one piece: an open question is never off the screen.
            with self._output.batch():
                self._app.renderer.erase()
                self._app.output.write_raw(frame.scrollback.replace("\n", "\r\n"))
                self._draw()
        self._app.invalidate()
        on_written()

    def clear_line(self) -> None:
        """Clear the line."""
        self._buffer.reset()

    def adopt(self, options: LineOptions) -> None:
        """Edit the line as these options say."""
        self._options = options
        self._app.editing_mode = EditingMode.VI if options.vi else EditingMode.EMACS
        self._line.remember(options.history)

    def know(self, commands: Sequence[Command]) -> None:
        """Offer these commands."""
        self._line.menu.commands = commands

    def offer(self, kind: str, candidates: Sequence[Candidate]) -> None:
        """Offer these where a word of this kind belongs."""
        self._line.menu.offer(kind, candidates)
        self._app.invalidate()

    def put_back(self, text: str) -> None:
        """Put text before the line's own, or before the text that a question set aside."""
        there = self._buffer.document if self._frame.question is None else self._saved_document
        text = self._line.chips.make(text)
        whole = f"{text}\n{there.text}" if there.text else text
        self._set_aside(Document(whole, len(whole)))
        self._app.invalidate()

    def close(self) -> None:
        """End `run`, and restore the terminal."""
        if self._app.is_running and not self._app.is_done:
            self._app.exit()

    def _ask(self, before: PromptQuestion | None, question: PromptQuestion | None) -> None:
        """Give the line to a new question, and restore it when no question is open."""
        if (question.id if question else None) == (before.id if before else None):
            self._update_pane(question, is_same=True)
            return
        if before is None:
            self._saved_document = self._buffer.document
        was_typing = before is not None and before.is_hidden and self._hidden_line.close()
        self._refusal, self._is_quiet = "", was_typing and question is None
        if self._is_quiet:
            self._call_later(self._end_quiet)
        self._buffer.reset()
        self._is_armed = question is not None and question.is_follow_up
        self._is_painted = False
        self._update_pane(question, is_same=question is not None and question.is_follow_up)
        if question is None:
            self._set_aside(self._saved_document)
            return
        self._app.vi_state.input_mode = InputMode.INSERT
        if question.text:
            self._buffer.insert_text(question.text)
        if question.opens_editor:
            self._line.edit(self._options.editor)

    def _update_pane(self, question: PromptQuestion | None, *, is_same: bool) -> None:
        """Show what the question shows now; what was read of the same one counts as read."""
        if question is None:
            self._pane = None
        elif self._pane is None or not self._pane.is_same(question.shown):
            was_read = is_same and self._pane is not None and self._pane.is_read
            self._pane = QuestionPane(question.shown, was_read=was_read)
        else:
            self._pane.shown = question.shown

    def _set_aside(self, document: Document) -> None:
        """Keep this until no question is open; if none is, put it into the line."""
        if self._frame.question is None:
            self._buffer.set_document(document, bypass_readonly=True)
            self._saved_document = Document()
        else:
            self._saved_document = document

    @property
    def _is_guarded(self) -> bool:
        """Whether there is a question that takes no answer yet."""
        return self._frame.question is not None and not self._is_armed

    def _note_painted(self) -> None:
        question = self._frame.question
        if question is None or self._pane is None or self._pane.is_too_small:
            return
        self._pane.mark_shown()
        if question.id and not self._is_painted:
            self._is_painted = True
            self._call_later(partial(self._arm, question.id))

    def _note_press(self) -> None:
        self._early_count -= 1
        if self._app.loop is not None:
            self._pressed_at = self._app.loop.time()

    def _call_later(self, function: Callable[[], None]) -> None:
        """Call a function once a person has had time to see the screen."""
        if self._app.loop is not None:
            self._app.loop.call_later(GUARD, function)

    def _arm(self, id_: str) -> None:
        """Allow an answer to a question, once keys meant for something else have stopped."""
        question, loop = self._frame.question, self._app.loop
        if question is None or loop is None or question.id != id_ or self._is_armed:
            return
        if loop.time() - self._pressed_at < GUARD or self._has_input():
            self._call_later(partial(self._arm, question.id))
            return
        self._is_armed = True
        self._app.invalidate()

    def _end_quiet(self) -> None:
        """Accept typing again, unless it may still be the rest of a hidden line."""
        loop = self._app.loop
        if loop is None or not self._is_quiet:
            return
        if loop.time() - self._pressed_at < GUARD or self._has_input():
            self._call_later(self._end_quiet)
        else:
            self._is_quiet, self._refusal = False, ""
            self._app.invalidate()

    def _has_input(self) -> bool:
        """Whether typed input is waiting to be read."""
        return bool(select.select([self._app.input.fileno()], [], [], 0)[0])

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        is_empty = Condition(lambda: not self._buffer.text)
        has_queued = Condition(lambda: self._frame.has_queued)
        is_free = Condition(lambda: self._frame.question is None and not self._is_quiet)
        is_early = Condition(lambda: self._early_count >= 0)
        keys.add("enter")(self._enter)
        keys.add(Keys.BracketedPaste)(self._paste)
        # In vi, an escape leaves the insert mode first, unless there is nothing to edit.
        keys.add("escape", filter=~(vi_insert_mode & ~is_empty))(self._presser(KeyName.ESCAPE))
        keys.add("c-c")(self._presser(KeyName.CTRL_C))
        keys.add("c-d", filter=is_empty)(self._presser(KeyName.CTRL_D))
        keys.add("s-tab", filter=is_free)(self._presser(KeyName.NEXT_MODE))
        keys.add("c-o")(self._presser(KeyName.UNFOLD))
        keys.add("c-t", filter=is_free)(self._presser(KeyName.TODOS))
        take_back = self._presser(KeyName.TAKE_BACK)
        keys.add("escape", "up", filter=has_queued)(take_back)
        keys.add("up", filter=has_queued & is_empty)(take_back)
        keys.add("enter", filter=has_queued & is_empty & is_free)(self._presser(KeyName.STEER))
        bind_line_keys(keys, self._line, is_free, self._send_text, lambda: self._options.editor)
        keys.add("c-j", filter=is_early)(self._enter)
        self._bind_question(keys, is_empty)
        keys.add("c-z")(lambda event: event.app.suspend_to_background())
        keys.add("c-l")(lambda event: event.app.renderer.clear())
        self._bind_hidden(keys)
        bind_page_keys(keys, lambda: self._page)
        is_page = Condition(lambda: self._page is not None)
        keys.add("escape", filter=is_page, eager=True)(self._presser(KeyName.UNFOLD))
        return keys

    def _bind_question(self, keys: KeyBindings, is_empty: Condition) -> None:
        """Bind the keys of an open question; those of the input line don't count meanwhile."""
        is_open = Condition(lambda: self._frame.question is not None)
        is_guarded = Condition(lambda: self._is_guarded)
        takes_text = Condition(
            lambda: bool(self._frame.question and self._frame.question.takes_text)
        )
        is_paged = Condition(lambda: self._pane is not None and self._pane.is_paged) & is_empty
        is_asked = is_open & ~is_guarded
        is_choice = is_asked & ~takes_text
        for key in _UNUSED:
            keys.add(key, filter=is_open)(lambda event: None)
        keys.add("c-j", filter=is_choice)(lambda event: None)
        keys.add(" ", filter=is_choice & is_empty)(lambda event: None)
        keys.add("tab", filter=is_asked)(self._presser(KeyName.TAB))
        for key, step in (("down", KeyName.NEXT_CHOICE), ("up", KeyName.PREVIOUS_CHOICE)):
            keys.add(key, filter=is_choice)(self._presser(step))
        keys.add("down", filter=is_asked & takes_text)(lambda event: self._buffer.cursor_down())
        keys.add("up", filter=is_asked & takes_text)(lambda event: self._buffer.cursor_up())
        keys.add(Keys.Any, filter=is_guarded)(lambda event: self._refuse())
        for key in (" ", "pagedown"):
            keys.add(key, filter=is_paged)(lambda event: self._turn(1))
        keys.add("pageup", filter=is_paged)(lambda event: self._turn(-1))

    def _bind_hidden(self, keys: KeyBindings) -> None:
        """Bind the keys of a hidden line, and of its possible rest, before all others."""
        is_hidden = Condition(lambda: self._is_hidden)
        is_quiet = Condition(lambda: self._is_quiet)
        self._hidden_line.bind(keys, is_hidden)
        keys.add(Keys.Any, filter=is_quiet, eager=True)(lambda event: self._refuse_late())
        keys.add("enter", filter=is_hidden, eager=True)(lambda event: self._enter_hidden())
        for name, key in _KEYS.items():
            press = partial(self._press_hidden, key)
            keys.add(name, filter=is_hidden | is_quiet, eager=True)(press)

    @property
    def _is_hidden(self) -> bool:
        """Whether typed text is hidden, and answers a question."""
        question = self._frame.question
        return question is not None and question.is_hidden and self._is_armed

    def _press_hidden(self, name: KeyName, event: KeyPressEvent) -> None:
        self._on_event(Key(name))  # without the text of the line
        self._hidden_line.finish()

    def _enter_hidden(self) -> None:
        question = self._frame.question
        if question is None:
            return
        if self.size != self._size:
            self._refuse(_RESIZED)
        elif self._on_event(Line(self._hidden_line.text, question.id)):
            self._hidden_line.finish()
        else:
            self._app.output.bell()

    def _refuse_late(self) -> None:
        self._refusal = _LATE
        self._app.output.bell()

    def _presser(self, name: KeyName) -> Callable[[KeyPressEvent], None]:
        """Return what reports a key."""

        def press(event: KeyPressEvent) -> None:
            before = [press.key for press in event.previous_key_sequence]
            is_first = before != [press.key for press in event.key_sequence]
            question = self._frame.question
            self._on_event(Key(name, self._line.text, is_first, question.id if question else ""))

        return press

    def _turn(self, pages: int) -> None:
        if self._pane is not None:
            self._refusal, self._dismissed_hint = "", self._frame.hint
            self._pane.turn(pages)

    def _want(self, kind: str) -> None:
        self._on_event(Wanted(kind))

    def _refuse(self, why: str = _EARLY) -> None:
        """Reject what was typed, and say why."""
        self._refusal = _TOO_SMALL if self._pane is not None and self._pane.is_too_small else why
        self._buffer.reset()
        self._app.output.bell()

    def _paste(self, event: KeyPressEvent) -> None:
        """Insert pasted text; only a question that asks for words takes any."""
        question = self._frame.question
        if question is None:
            self._line.paste(event.data)
        elif question.takes_text and self._is_armed:
            self._buffer.insert_text(event.data.replace("\r\n", "\n").replace("\r", "\n"))
        else:
            self._refuse(_PASTED)

    def _enter(self, event: KeyPressEvent) -> None:
        question, pane = self._frame.question, self._pane
        if question is None or pane is None:
            self._send_text()
        elif self._is_guarded:
            self._refuse()
        elif self.size != self._size:
            self._refuse(_RESIZED)
        else:
            self._send_line(Line(self._line.text, question.id, pane.is_read))

    def _send_text(self) -> None:
        """Send what is typed to the agent."""
        self._line.close_menu()
        self._refusal = self._dismissed_hint = ""
        if self._on_event(Line(self._line.text, shown=self._line.shown)):
            self._line.take()
        else:
            self._app.output.bell()

    def _send_line(self, line: Line) -> None:
        self._refusal = self._dismissed_hint = ""
        if self._on_event(line):
            self._buffer.reset()
        else:
            self._app.output.bell()

    def _label(self) -> str:
        question = self._frame.question
        usual = _SEARCH if self._line.is_searching else _COMMANDS if self._is_navigating else _LABEL
        label = question.label if question is not None and self._is_armed else usual
        return f"{label}{self._hidden_line.mask}"

    @property
    def _is_navigating(self) -> bool:
        """Whether letters are commands of vi now, and no text."""
        return self._app.vi_state.input_mode is InputMode.NAVIGATION and self._options.vi

    def _draw(self) -> None:
        """Draw at once, without waiting for the loop."""
        with set_app(self._app):
            self._arrange()
            self._app.renderer.render(self._app, self._app.layout)
        self._note_painted()

    def _arrange(self) -> None:
        self._size = self.size
        self._choose_screen()
        hint = "" if self._frame.hint == self._dismissed_hint else self._frame.hint
        hint = self._refusal or hint
        above = list(self._recent)[-self._size[1] :] if self._app.renderer.full_screen else []
        aside = self._saved_document.text
        self._layout.arrange(
            self._size, self._frame, hint, self._pane, aside, above, page=self._page
        )
        if self._pane is not None and self._pane.is_too_small:
            self._is_armed = self._is_painted = False

    def _choose_screen(self) -> None:
        """Draw a question, and what is unfolded, on the alternate screen.

        A terminal that gets narrower or lower may move rows of the main screen to where nothing can
        erase them: they would look like a question that nobody has answered.
        """
        renderer, question = self._app.renderer, self._frame.question
        is_open = (question is not None and bool(question.id)) or self._page is not None
        if is_open != renderer.full_screen:
            renderer.erase()
            renderer.full_screen = is_open


@asynccontextmanager
async def open_prompt_terminal() -> AsyncIterator[Terminal]:
    """Use the terminal of standard input and output until the block ends.

    While a question is open it is shown whole above the line, page by page where it is longer than
    the screen, and the line is for its answer alone: what was in it before comes back afterwards.
    """
    terminal = _PromptTerminal()
    async with trio.open_nursery() as nursery:
        await nursery.start(terminal.run)
        try:
            yield terminal
        finally:
            terminal.close()


class _PromptTerminal:
    """Trio's side of the application."""

    is_live = True

    def __init__(self) -> None:
        self._send, self.events = trio.open_memory_channel[PersonEvent](_MAX_EVENTS)
        self._token = trio.lowlevel.current_trio_token()
        self._frame_events: set[trio.Event] = set()
        self._is_ended = False
        self.colors: Colors = detect_colors()
        self._application = PromptApplication(self._pass_event, self.colors)

    @property
    def size(self) -> tuple[int, int]:
        return self._application.size

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        report_start = partial(self._token.run_sync_soon, task_status.started)
        try:
            await trio.to_thread.run_sync(self._application.run, report_start)
        finally:
            self._is_ended = True
            for written in self._frame_events:
                written.set()
            self._enqueue(Closed())
            self._send.close()

    async def show(self, frame: Frame) -> None:
        written = trio.Event()
        self._frame_events.add(written)
        try:
            self._post(
                lambda: self._application.show(
                    frame, lambda: self._token.run_sync_soon(written.set)
                )
            )
            if not self._is_ended:
                await written.wait()
        finally:
            self._frame_events.discard(written)

    def clear_line(self) -> None:
        self._post(self._application.clear_line)

    def put_back(self, text: str) -> None:
        self._post(lambda: self._application.put_back(text))

    def adopt(self, options: LineOptions) -> None:
        self._post(lambda: self._application.adopt(options))

    def know(self, commands: Sequence[Command]) -> None:
        self._post(lambda: self._application.know(commands))

    def offer(self, kind: str, candidates: Sequence[Candidate]) -> None:
        self._post(lambda: self._application.offer(kind, candidates))

    def close(self) -> None:
        self._post(self._application.close)

    def _post(self, function: Callable[[], None]) -> None:
        loop = self._application.loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop closed this moment
                loop.call_soon_threadsafe(function)

    def _pass_event(self, event: PersonEvent) -> bool:
        return trio.from_thread.run_sync(self._enqueue, event, trio_token=self._token)

    def _enqueue(self, event: PersonEvent) -> bool:
        try:
            self._send.send_nowait(event)
        except (trio.WouldBlock, trio.BrokenResourceError, trio.ClosedResourceError):
            return False
        return True
