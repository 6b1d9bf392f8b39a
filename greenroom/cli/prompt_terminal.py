"""The live terminal: an input line that is always open at the bottom, and everything else above it.

prompt_toolkit runs on asyncio, so its application runs in a thread of its own; `live_terminal` is
trio's side. `PromptApplication` knows nothing of trio or of agents, and all of its methods but
`run` are called in the application's own loop.

While a question is open the line is for its answer alone. Text that was in it is set aside and
comes back afterwards; keys typed before the question could be seen are refused.
"""

import os
import select
import signal
import termios
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING

from prompt_toolkit.application import Application, run_in_terminal
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
from greenroom.cli.line_keys import making_line_keys
from greenroom.cli.line_styles import LINE_STYLES
from greenroom.cli.menu import Candidate
from greenroom.cli.page_pane import PagePane, bind_page_keys
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
    Frame,
    Key,
    KeyName,
    Line,
    LineOptions,
    PersonEvent,
    PromptQuestion,
    Wanted,
)
from greenroom.core._internal import compile_later

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop  # noqa: TID251 (prompt_toolkit's loop, for typing)


_KEYS = {"escape": KeyName.ESCAPE, "c-c": KeyName.CTRL_C, "c-d": KeyName.CTRL_D}


# Keys that look through earlier inputs, or otherwise mean nothing while a question is open.
_UNUSED = ("c-p", "c-n", "c-r", "c-s", "c-x", "c-q", "c-v", "s-tab", "c-t", "c-g")
_ESCAPE = 0.03  # seconds until an escape is the key, not the start of a sequence
_META = 0.05  # seconds until an escape is the key, not the Alt of the next one
_LABEL, _SEARCH, _COMMANDS = "> ", "search: ", ": "
_LINK = compile_later(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
)  # the address of a link, which stays unseen
_MOST_RECENT = 200  # lines that were printed last, which stand above a question
_EARLY = "too early, not taken: read the question first"
_RESIZED = "not taken: the window has another size now; look at the question again"
_PASTED = "not taken: a question takes no pasted text; type the answer"
_LATE = "not taken: the question is closed, and what is typed now would be seen"
_TOO_FAST = "keys come too fast: the last ones were not taken"
_TOO_SMALL = "not taken: make the window larger, so that the question can be read"

# A window that gains or loses the focus says so, where another program left that switched on. It is
# no key: taken for one, it would be an escape and two letters.
ANSI_SEQUENCES.update({"\x1b[I": Keys.Ignore, "\x1b[O": Keys.Ignore})


class PromptApplication:
    """An application that runs until it is closed, and reports what the person does."""

    def __init__(
        self,
        on_event: Callable[[PersonEvent], bool],
        *,
        has_colors: bool,
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
        self._styles = dict(LINE_STYLES["dark"])
        with making_line_keys():
            self._app: Application[None] = Application(
                layout=self._layout.layout,
                key_bindings=self._keys(),
                enable_page_navigation_bindings=False,
                include_default_pygments_style=False,
                color_depth=None if has_colors else ColorDepth.DEPTH_1_BIT,
                style=Style.from_dict(self._styles),
                erase_when_done=True,
                input=open_input(),
                output=self._output,
            )
        self._on_start: Callable[[], None] = lambda: None
        self._app.before_render += lambda _: self._arrange()
        self._app.after_render += lambda _: self._note_painted()
        self._app.key_processor.before_key_press += lambda _: self._note_press()
        self._app.ttimeoutlen = _ESCAPE
        self._app.timeoutlen = _META

    def run(self, on_start: Callable[[], None]) -> None:
        """Run until `close`, or until the terminal is closed; it blocks this thread.

        `on_start` is called once the line stands there.
        """
        self._on_start = on_start
        self._early_count = count_unread(self._app.input.fileno())
        with suppress(EOFError, OSError, termios.error):
            self._app.run(set_exception_handler=False, handle_sigint=False)
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
        shown_before, self._frame = self._frame, frame
        before = shown_before.question
        if self._page is None or self._page.text is not frame.page:
            self._page = PagePane(frame.page) if frame.page else None
        if frame.signal:
            self._output.write_raw(frame.signal)
            self._output.flush()
        self._ask(before, frame.question)
        self._recent.extend(_LINK.sub("", frame.scrollback).splitlines())
        shrinks = _has_longer_rows(shown_before, frame)
        if (frame.scrollback or shrinks) and not self._app.is_done:
            # In one piece: an open question is never off the screen.
            with self._output.batch():
                self._app.renderer.erase()
                self._app.output.write_raw(frame.scrollback.replace("\n", "\r\n"))
                self._draw()
        else:
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

    def restyle(self, styles: Mapping[str, str]) -> None:
        """Draw what stands around the line in these styles."""
        if styles != self._styles:  # to draw in others is to lay out all anew
            self._styles = dict(styles)
            self._app.style = Style.from_dict(self._styles)
            self._app.invalidate()

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
        self._on_start()
        self._on_start = lambda: None
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
        keys.add("c-z")(lambda event: run_in_terminal(_stop))
        keys.add("c-l")(lambda event: event.app.renderer.clear())
        self._bind_hidden(keys)
        bind_page_keys(keys, lambda: self._page)
        is_page = Condition(lambda: self._page is not None)
        for name in ("escape", "c-o", "c-c", "q"):
            keys.add(name, filter=is_page, eager=True)(self._presser(KeyName.UNFOLD))
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
        self._report(Key(name))  # without the text of the line
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
            id_ = question.id if question else ""
            self._report(Key(name, self._line.text, is_first, id_))

        return press

    def _report(self, key: Key) -> None:
        """Report a key; where it finds no room, say so."""
        if not self._on_event(key):
            self._refusal = _TOO_FAST
            self._app.output.bell()

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
        self._app.render_counter += 1  # else the windows show again what they showed before
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


def _stop() -> None:
    """Stop this process, and those beside it in its job, until the shell continues them.

    The signal to all may be another thread's: this one would take the terminal again, and draw for
    the last time, before the process stands still. So it waits for one of its own, which is lost
    where the process has stood still, and goes on, already: signals that continue a process drop
    what would stop it.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})
    signal.pthread_kill(threading.get_ident(), signal.SIGTSTP)
    os.kill(0, signal.SIGTSTP)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})


def _has_longer_rows(before: Frame, frame: Frame) -> bool:
    """Whether a row of a frame is longer than what comes in its place.

    Such rows are erased as a whole: where only their ends are, terminals such as tmux keep the
    blanks, and make rows of them in a narrower window.
    """
    old, new = (f"{each.live}\n{each.status}".split("\n") for each in (before, frame))
    rows = zip_longest(old, new, fillvalue="")
    return any(len(one) > len(other) for one, other in rows)
