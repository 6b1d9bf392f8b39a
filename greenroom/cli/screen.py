"""Makes frames of an agent: lasting output, live output, the question, the status."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf

import trio
from rich.text import Text

from greenroom import core
from greenroom.cli.agent_view import AgentView
from greenroom.cli.awaited import fit_parts, spin
from greenroom.cli.choices import is_plan
from greenroom.cli.formatting import describe_seconds
from greenroom.cli.markdown_view import is_parser_loaded, load_parser, render_markdown
from greenroom.cli.notices import LONG, call_person, reset_title
from greenroom.cli.painter import ColorScheme, Painter, is_simple
from greenroom.cli.question_queue import QuestionQueue
from greenroom.cli.question_view import QuestionView, render_record
from greenroom.cli.renderables import RenderableType
from greenroom.cli.terminal import Frame, Paint, PromptQuestion, Terminal
from greenroom.core import OutputChunk, PermissionRequest
from greenroom.core._internal import visible

_MARGIN = 8  # lines of the terminal that are left to the input line and to what was printed
_PLAN = 12  # lines of a plan that is carried out, in a terminal with room for them
_LIVE = 3  # lines of a text that is not finished; few, since a narrower window makes more of them
_KEPT = 500  # parts that were printed, kept to be unfolded
_PAGE = 200_000  # characters of what is unfolded
_FULL = 1_000  # parts that wait to be printed, before the agent's chunks have to wait too
_PAINTING = 0.1  # seconds until what is painted is shown, however much is still to come
_INTERVAL = 0.05  # seconds between two frames of an agent that has much to say
_QUIET = 0.2  # seconds without a chunk after which a text stands in one line
_TICK = 0.25  # seconds between two frames of an agent that works and says nothing

_MODES = {"default": "", "bypass": "BYPASS: nothing is asked"}


def innermost(chunk: OutputChunk) -> OutputChunk:
    """Return what a descendant has said, where a chunk is about that."""
    while isinstance(chunk, core.SubAgentOutput):
        chunk = chunk.chunk
    return chunk


def _window_of(model: str) -> int | None:
    """Return the tokens that a model takes, as the catalogue says."""
    if not model:
        return None
    from greenroom.llm import model_profile  # who names a model has loaded what knows it

    return model_profile(model).context_window


class Screen:
    """Collects what to show, and shows it as one frame."""

    def __init__(
        self,
        terminal: Terminal,
        scheme: ColorScheme,
        model: str,
        mode: Callable[[], str] = lambda: "default",
        currency: str = "",
        window: int | None = None,
        notify: Sequence[str] = (),
        place: Callable[[], Sequence[str]] = tuple,
        remark: Callable[[], str] = str,
    ) -> None:
        """Draw on this terminal.

        Args:
            terminal: where to draw.
            scheme: the styles.
            model: the model's name, as `provider:model`.
            mode: returns the permission mode, which may change.
            currency: that of the cost.
            window: the tokens that the model takes, if not as the catalogue says.
            notify: how the person is called; see `notices`.
            place: returns what the status line says about where the agent works.
            remark: returns what stands above the input line, if anything.
        """
        self._terminal = terminal
        self.scheme = scheme
        self._painter = Painter(terminal.colors)
        self._view = AgentView(scheme, model, redraws=terminal.is_live, clock=trio.current_time)
        self._window = window or _window_of(model)
        self._mode = mode
        self._currency = currency
        self._place = place
        self._remark = remark
        self._ways = notify if terminal.is_live else ()
        self._signal = ""
        self._own_command: tuple[str, float] | None = None  # of the person, and since when
        self._begun_at = float("inf")  # when the turn began
        self._unwritten = deque[RenderableType]()
        self._has_marks = False  # whether any part of it is more than text
        self._kept = deque[RenderableType](maxlen=_KEPT)
        self._page = ""
        self._painted = list[str]()  # of the frame to come
        self._one_frame = trio.Lock()
        self._changed = trio.Event()
        self._fed_at = float("-inf")
        self.questions = QuestionQueue(can_hide=terminal.is_live)
        self._asked: QuestionView | None = None
        self._unrecorded: dict[str, PermissionRequest] = {}  # asked, and what came of it not shown
        self.queued_inputs: tuple[str, ...] = ()
        self.hint = ""

    @property
    def terminal(self) -> Terminal:
        """Where it draws."""
        return self._terminal

    @property
    def columns(self) -> int:
        """How wide what it prints may be."""
        return self._columns

    def show_model(self, name: str, window: int | None) -> None:
        """Show that the agent talks to another model, and how many tokens that takes, if known."""
        self._view.model = name
        self._window = window or _window_of(name)

    def restyle(self, scheme: ColorScheme, line_styles: Mapping[str, str]) -> None:
        """Draw in these styles from now on."""
        self.scheme = scheme
        self._view.restyle(scheme)
        self._terminal.restyle(line_styles)

    @property
    def is_full(self) -> bool:
        """Whether so much waits to be printed that the agent's chunks have to wait."""
        return len(self._unwritten) > _FULL

    def feed(self, chunk: OutputChunk) -> None:
        """Take a chunk of the agent."""
        said, parts = innermost(chunk), self._view.feed(chunk)
        if isinstance(said, core.PermissionResponse) and said.request_id in self._unrecorded:
            self._record(said.request_id, said)  # in place of what the view says about it
        else:
            self.print(*parts)
        if isinstance(chunk, core.TurnStart):
            self._begun_at = trio.current_time()
        if isinstance(chunk, core.Done) and trio.current_time() - self._begun_at > LONG:
            self._call(f"the turn has ended: {chunk.status}")
        if isinstance(said, core.Lagged | core.Done):
            self._record_missed()
        self._fed_at = trio.current_time()
        self._changed.set()

    def _call(self, words: str) -> None:
        """Call the person with the next frame."""
        self._signal = call_person(words, self._ways)

    def print(self, *renderables: RenderableType) -> None:
        """Add something that stays; the next `draw` shows it."""
        self._unwritten.extend(renderables)
        self._has_marks = self._has_marks or not all(map(is_simple, renderables))
        self._kept.extend(renderables)

    def finish(self) -> None:
        """Print what the agent has said so far, where it was left in the middle."""
        self.print(*self._view.finish())

    def note(self, text: str) -> None:
        """Add a remark of the program."""
        self.print(Text(visible(text), self.scheme.note))

    def error(self, text: str) -> None:
        """Add an error."""
        self.print(Text(visible(text), self.scheme.error))

    def ask(self, request: PermissionRequest, warning: str = "") -> None:
        """Show this request until it is decided; from now on it may be answered."""
        self._page = ""
        self._call(f"{request.tool_name} waits for an answer")
        self._asked = QuestionView(
            request, self._painter, self.scheme, warning, is_live=self._terminal.is_live
        )
        if self._terminal.is_live:  # a plain terminal has printed the question itself
            self._unrecorded[request.request_id] = request
        if is_plan(request):  # it stays, as what the model says does
            self.print(render_markdown(str(request.input["plan"]), self.scheme), Text(""))

    def _record(self, request_id: str, response: core.PermissionResponse | None) -> None:
        """Print one line about a question that is over."""
        request = self._unrecorded.pop(request_id)
        self._signal = reset_title(self._ways)
        self.print(render_record(request, response, self.scheme, self._columns))
        if self._asked is not None and self._asked.request is request:
            self._asked = None

    def _record_missed(self) -> None:
        """Print a line about each question whose end was missed."""
        for id_, request in tuple(self._unrecorded.items()):
            if request is not self.questions.current:
                self._record(id_, None)

    def refuse(self, why: str) -> None:
        """Show briefly why the input was rejected."""
        if self._terminal.is_live:
            self.hint = visible(why)
        else:
            self.note(why)

    def put_back(self, text: str) -> None:
        """Return unsent text to the person."""
        if self._terminal.is_live:
            self._terminal.put_back(text)
        else:
            self.note(f"not sent: {text}")

    def show_own_command(self, command: str) -> None:
        """Show that a command of the person runs, until it is an empty text."""
        self._own_command = (command, trio.current_time()) if command else None
        self._changed.set()

    def clear_line(self) -> None:
        """Clear the input line."""
        self._terminal.clear_line()

    async def unfold(self) -> None:
        """Show what was printed with all that is folded in it, or go back; then `draw` it.

        While a question is open, nothing is unfolded.
        """
        painted = list[str]()
        for part in [] if self._page else [*self._kept, *self._view.live()]:
            painted.append(self._painter.paint([part], self._columns, links=False, unfolds=True))
            await trio.lowlevel.checkpoint()
        # A question that came meanwhile takes its place: keys would be for the one that is hidden.
        self._page = "" if self.questions.current else "".join(painted)[-_PAGE:]

    def toggle_todos(self) -> None:
        """Hide the to-do list, or show it again."""
        self._view.shows_todos = not self._view.shows_todos

    async def draw_changes(self) -> None:
        """Draw what `feed` was told, a few times a second at the most; runs until cancelled."""
        while True:
            with trio.move_on_after(self._patience):
                await self._changed.wait()
            self._changed = trio.Event()
            await self.draw()
            await trio.sleep(_INTERVAL)

    @property
    def _patience(self) -> float:
        """Seconds until the next frame where nothing comes."""
        if not self._terminal.is_live or (self._view.awaited.is_over and self._own_command is None):
            return inf
        return _TICK if self._is_quiet else _QUIET

    @property
    def _is_quiet(self) -> bool:
        return trio.current_time() - self._fed_at >= _QUIET

    async def draw_rest(self, seconds: float) -> None:
        """Show all that is left, as long as the terminal takes each frame within these seconds."""
        while await self.draw(seconds) and self._unwritten:
            pass

    async def draw(self, patience: float = inf) -> bool:
        """Show everything as it is now; return whether the terminal took it in so many seconds."""
        async with self._one_frame:
            return await self._draw(patience)

    async def _draw(self, patience: float) -> bool:
        await self._load_parser()
        begun = trio.current_time()
        while self._unwritten and trio.current_time() - begun < _PAINTING:
            self._painted.append(self._painter.paint([self._unwritten.popleft()], self._columns))
            await trio.lowlevel.checkpoint()  # other tasks run in between
        if self._unwritten:
            self._changed.set()  # the next frame goes on
        if self._asked is not None and self.questions.current is not self._asked.request:
            self._asked = None
        printed, self._painted = "".join(self._painted), []
        parts = (printed, self._live(), self._status(), self._question())
        signal, self._signal = self._signal, ""
        frame = Frame(*parts, self.hint, bool(self.queued_inputs), self._page, signal)
        with trio.move_on_after(patience) as waiting:
            await self._terminal.show(frame)
        return not waiting.cancelled_caught

    async def _load_parser(self) -> None:
        """Load what the first text with marks needs, in a thread."""
        if is_parser_loaded() or (not self._has_marks and all(map(is_simple, self._view.live()))):
            return
        await trio.to_thread.run_sync(load_parser)

    def _question(self) -> PromptQuestion | None:
        """Return the question that the next line may answer; it takes none until it is shown."""
        if self.questions.current is None:
            return None
        if self._asked is None:
            return PromptQuestion("", "")
        questions = self.questions
        words = questions.asks_for_words
        return questions.question(self._asked.show(questions.state, asks_for_words=words))

    @property
    def _columns(self) -> int:
        # The last column stays free: a terminal may wrap there.
        return self._terminal.size[0] - 1

    def _live(self) -> str:
        room = max(self._terminal.size[1] - _MARGIN, 3)
        queued = [self._describe_queued(text) for text in self.queued_inputs[-room:]]
        if queued:
            queued.append(Text("  Up takes it back into the line", self.scheme.note))
        text_rows = 1 if self._is_quiet else _LIVE
        live = self._view.live(min(room, _PLAN), text_rows)
        remark = Text(self._remark(), self.scheme.note, no_wrap=True, overflow="ellipsis")
        parts = [*live, *([remark] if remark else []), *self._spinner(), *queued]
        lines = self._painter.paint(parts, self._columns, links=False).splitlines()
        return "\n".join(lines[-room:])

    def _describe_queued(self, text: str) -> Text:
        """Show the beginning of an input that waits, in a row."""
        words = " ".join(text[: 2 * self._columns].split())
        end = "" if len(text) <= 2 * self._columns else " …"
        style, row = self.scheme.note, f"queued: {visible(words)}{end}"
        return Text(row, style, no_wrap=True, overflow="ellipsis")

    def _spinner(self) -> list[RenderableType]:
        """Say what the agent waits for, unless it is the person."""
        awaited = self._view.awaited
        rows = list[RenderableType]()
        if self._own_command is not None:
            what, since = self._own_command
            rows.append(
                spin(what, trio.current_time() - since, "Esc ends it", self._columns, self.scheme)
            )
        if not awaited.is_over and self.questions.current is None:
            rows.append(awaited.spinner(self._view.model, self._columns, self.scheme))
        return rows

    def _status(self) -> Paint:
        """Return what paints the status line, for a window that may change its size meanwhile."""
        view, mode = self._view, self._mode()
        shown_mode = _MODES.get(mode, f"mode {mode}")
        cost = f"{view.cost:,.4f} {self._currency}".strip() if view.cost else ""
        parts = [
            self._state(),
            view.model,
            shown_mode,
            self._context() if view.tokens else "",
            f"{view.tokens:,} tokens" if view.tokens else "",
            view.cache_note,
            cost,
            *self._place(),
            "/help" if view.awaited.is_over else "Esc interrupts",
        ]
        kept = shown_mode if mode == "bypass" else ""
        return partial(fit_parts, [visible(part) for part in parts], kept=kept)

    def _context(self) -> str:
        """Say how much of the model's window the conversation takes, where that is known."""
        return f"context {self._view.context / self._window:.0%}" if self._window else ""

    def _state(self) -> str:
        awaited = self._view.awaited
        asked = self.questions.current  # a subagent's too, for which the agent itself only waits
        if asked is not None:
            return f"waiting for permission: {asked.tool_name}"
        if awaited.is_over:
            return " ".join(str(awaited.state).split())
        return f"working {describe_seconds(awaited.turn_seconds)}"
