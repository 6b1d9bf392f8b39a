"""Turns an agent's chunks into frames: lasting output, live output, the question, the status.

`AgentView` follows one agent, with a view for each of its subagents. `Screen` makes the frames.
"""

from collections.abc import Callable, Iterable
from functools import partial

from rich.console import RenderableType
from rich.text import Text

from greenroom import core
from greenroom.cli.formatting import shorten
from greenroom.cli.markdown_stream import MarkdownStream, render_markdown
from greenroom.cli.painter import ColorScheme, Painter, Prefixed
from greenroom.cli.permission_prompt import QuestionQueue, render_record, render_request
from greenroom.cli.plan_view import PlanView
from greenroom.cli.render_chunk import (
    render_call,
    render_chunk,
    render_progress,
    render_result,
    render_thinking,
)
from greenroom.cli.terminal import Frame, PromptQuestion, Terminal
from greenroom.core import OutputChunk, PermissionRequest, visible
from greenroom.flow import PLAN_STEP
from greenroom.llm import model_profile

_PROGRESS = 4_000  # characters of a running tool's output that are shown
_LIVE_THINKING = 600
_NAME = 16  # columns of a subagent's name before each of its lines

_GOES_ON = (
    core.TextDelta,
    core.TextComplete,
    core.ThinkingDelta,
    core.ThinkingComplete,
    core.ToolStart,
)
"""What an agent publishes after a finished plan."""

_ENDS = (core.Done, core.Exited, core.Restarted)


class AgentView:
    """Turns the chunks of one agent into finished output, and output that may still change.

    `feed` returns finished output, to be printed once; `live` returns the rest. It draws nothing
    and waits for nothing. If nothing can be redrawn, each step of a plan is a line.
    """

    def __init__(
        self,
        scheme: ColorScheme,
        model: str = "",
        *,
        is_nested: bool = False,
        redraws: bool = True,
    ) -> None:
        """Start with nothing shown."""
        self._is_nested = is_nested
        self._redraws = redraws
        self._scheme = scheme
        self._plan: PlanView | None = None
        self._text = MarkdownStream()
        self._thinking = ""
        self._calls: dict[str, tuple[core.ToolStart, str]] = {}
        self._children: dict[str, tuple[Text, AgentView]] = {}
        self._error: core.Error | None = None
        self.state = core.AgentState.idle()
        self.tokens = 0
        self.cost: float | None = None
        self.context = 0
        """The tokens of the last request and its reply."""
        self.cache_note = ""
        self.model = model

    def feed(self, chunk: OutputChunk) -> list[RenderableType]:
        """Take the next chunk and return the output that it finishes."""
        if isinstance(chunk, core.Custom) and chunk.kind == PLAN_STEP and self._redraws:
            self._plan = self._plan or PlanView(self._scheme)
            return self._plan.feed(chunk)
        return [*self._end_plan(chunk), *self._handle(chunk)]

    def _end_plan(self, chunk: OutputChunk) -> list[RenderableType]:
        """Print the plan that this chunk ends."""
        if isinstance(chunk, core.Lagged):
            self._forget_plans()
        if self._plan is None:
            return []
        is_end = isinstance(chunk, _ENDS) or (isinstance(chunk, _GOES_ON) and self._plan.is_over)
        return self._plan.close() if is_end else []

    def _forget_plans(self) -> None:
        """Forget the plans of this agent and its subagents: steps of any may have been missed."""
        self._plan = None
        for _, child in self._children.values():
            child._forget_plans()

    def _handle(self, chunk: OutputChunk) -> list[RenderableType]:
        match chunk:
            case core.TextDelta():
                return self._render_blocks(self._text.feed(chunk.text))
            case core.TextComplete():
                return self._end_text(chunk.text)
            case core.ThinkingDelta():
                self._thinking += chunk.text
                return []
            case core.ThinkingComplete():
                self._thinking = ""
                return [render_thinking(chunk.text, self._scheme)]
            case core.ToolStart() | core.ToolProgress() | core.ToolEnd():
                return self._feed_tool(chunk)
            case core.SubAgentSpawned() | core.SubAgentOutput() | core.SubAgentComplete():
                return self._feed_subagent(chunk)
            case _:
                return self._feed_event(chunk)

    def _feed_event(self, chunk: OutputChunk) -> list[RenderableType]:
        match chunk:
            case core.StateChange():
                self.state = chunk.state
                return []
            case core.UsageReport():
                self.tokens, self.cost = chunk.total.total, chunk.total.cost
                self.cache_note = chunk.usage.cache_note
                self.context = chunk.usage.sent + (chunk.usage.output_tokens or 0)
                self.model = chunk.model or self.model
                return []
            case core.PermissionRequest():
                return []  # questions are shown one by one
            case core.Exited() if self._is_nested:
                return self._end_all()  # its parent says how it ended
            case core.Exited() if self._repeats_error(chunk.error):
                return [*self._end_all(), Text("the agent has ended", self._scheme.note)]
            case core.Error():
                self._error = chunk
                return [*self._end_all(), *self._render(chunk)]
            case (
                core.Lagged()
                | core.Done()
                | core.Restarted()
                | core.Exited()
                | core.Custom(kind="reply.restarted")
            ):
                return [*self._end_all(), *self._render(chunk)]
            case _:
                return self._render(chunk)

    def _repeats_error(self, reason: str) -> bool:
        """Whether the reason of an end is the error shown last, and not a bug."""
        error = self._error
        if error is None or not hasattr(core, error.kind):
            return False
        return reason.startswith(f"{error.kind}: {error.message}")

    def _render(self, chunk: OutputChunk) -> list[RenderableType]:
        rendered = render_chunk(chunk, self._scheme)
        return [] if rendered is None else [rendered]

    def _render_blocks(self, blocks: Iterable[str]) -> list[RenderableType]:
        return [
            part for block in blocks for part in (render_markdown(block, self._scheme), Text(""))
        ]

    def _end_text(self, whole: str | None = None) -> list[RenderableType]:
        rest = self._text.finish(whole)
        self._text = MarkdownStream()
        return self._render_blocks(rest)

    def _end_all(self) -> list[RenderableType]:
        """Print the unfinished thought and text."""
        thought = [render_thinking(self._thinking, self._scheme)] if self._thinking else []
        self._thinking = ""
        return [*thought, *self._end_text()]

    def finish(self) -> list[RenderableType]:
        """Return unfinished text and thought, of subagents too; call it once, as the last."""
        parts = self._end_all()
        for name, child in self._children.values():
            parts += [Prefixed(name, part) for part in child.finish()]
        return [*parts, *(self._plan.close() if self._plan else ())]

    def _feed_tool(
        self, chunk: core.ToolStart | core.ToolProgress | core.ToolEnd
    ) -> list[RenderableType]:
        if isinstance(chunk, core.ToolStart):
            self._calls[chunk.id] = (chunk, "")
            return self._end_all()
        start, output = self._calls.get(chunk.id, (None, ""))
        if isinstance(chunk, core.ToolProgress):
            if start is not None:
                self._calls[chunk.id] = (start, (output + chunk.output)[-_PROGRESS:])
            return []
        self._calls.pop(chunk.id, None)
        head = [] if start is None else [render_call(start, self._scheme)]
        return [*head, render_result(start, chunk, self._scheme), Text("")]

    def _feed_subagent(
        self, chunk: core.SubAgentSpawned | core.SubAgentOutput | core.SubAgentComplete
    ) -> list[RenderableType]:
        if isinstance(chunk, core.SubAgentSpawned) and chunk.detached:
            return self._render(chunk)  # its chunks go to other readers
        name, child = self._children.get(chunk.session_id) or self._add_child(chunk)
        if isinstance(chunk, core.SubAgentOutput):
            return [Prefixed(name, part) for part in child.feed(chunk.chunk)]
        if isinstance(chunk, core.SubAgentComplete):
            self._children.pop(chunk.session_id, None)
            if child._repeats_error(chunk.result):
                chunk = core.SubAgentComplete(chunk.session_id, chunk.status)
        return [Prefixed(name, part) for part in self._render(chunk)]

    def _add_child(
        self, chunk: core.SubAgentSpawned | core.SubAgentOutput | core.SubAgentComplete
    ) -> "tuple[Text, AgentView]":
        """Make the view of a subagent; if its start was missed, its session's id is its name."""
        name = chunk.session_id
        if isinstance(chunk, core.SubAgentSpawned):
            name = chunk.name or chunk.agent_type
        head = Text(f"{shorten(visible(name), _NAME)} │ ", self._scheme.subagent)
        child = (head, AgentView(self._scheme, is_nested=True, redraws=self._redraws))
        self._children[chunk.session_id] = child
        return child

    def live(self, rows: int = 12) -> list[RenderableType]:
        """Return unfinished output: the end of a thought or a text, tools, subagents, a plan.

        The plan comes last, in at most so many rows, so that it stays in place while the others
        change.
        """
        parts: list[RenderableType] = []
        if self._thinking:
            parts.append(render_thinking(self._thinking[-_LIVE_THINKING:], self._scheme))
        if self._text.tail.strip():
            parts.append(render_markdown(self._text.tail, self._scheme))
        for start, output in self._calls.values():
            parts.append(render_call(start, self._scheme))
            if output:
                parts.append(render_progress(output, self._scheme))
        for name, child in self._children.values():
            parts += [Prefixed(name, part) for part in child.live(rows)]
        return [*parts, *(self._plan.live(rows) if self._plan else ())]


_MARGIN = 8  # lines of the terminal that are left to the input line and to what was printed
_PLAN = 12  # lines of a plan that is carried out, in a terminal with room for them
_FULL = 65_536  # characters of painted text that are printed even by a reader that lags

_MODES = {"default": "", "bypass": "BYPASS: nothing is asked"}


def innermost(chunk: OutputChunk) -> OutputChunk:
    """Return what a descendant has said, where a chunk is about that."""
    while isinstance(chunk, core.SubAgentOutput):
        chunk = chunk.chunk
    return chunk


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
    ) -> None:
        """Draw on this terminal.

        Args:
            terminal: where to draw.
            scheme: the styles.
            model: the model's name, as `provider:model`.
            mode: returns the permission mode, which may change.
            currency: that of the cost.
            window: the tokens that the model takes, if not as the catalogue says.
        """
        self._terminal = terminal
        self.scheme = scheme
        self._painter = Painter(terminal.colors)
        self._view = AgentView(scheme, model, redraws=terminal.is_live)
        self._window = window or model_profile(model).context_window
        self._mode = mode
        self._currency = currency
        self._unwritten = ""
        self.questions = QuestionQueue(can_hide=terminal.is_live)
        self._asked_request: PermissionRequest | None = None
        # Terminals know a question by these functions, so they stay the same while it is asked; by
        # whether a remembered yes stores a prefix, and whether it shows how its command was read.
        self._paints: dict[tuple[bool, bool], Callable[[int], str]] = {}
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
        self._window = window or model_profile(name).context_window

    @property
    def is_full(self) -> bool:
        """Whether too much waits to be printed to wait for the reader to catch up."""
        return len(self._unwritten) > _FULL

    def feed(self, chunk: OutputChunk) -> None:
        """Take a chunk of the agent."""
        said, asked_id = innermost(chunk), self._asked_request and self._asked_request.request_id
        if isinstance(said, core.PermissionResponse) and said.request_id == asked_id:
            self._close_question()
        self.print(*self._view.feed(chunk))

    def print(self, *renderables: RenderableType) -> None:
        """Add something that stays; the next `draw` shows it."""
        if renderables:
            self._unwritten += self._painter.paint(renderables, self._columns)

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
        self._close_question()
        self._asked_request = request
        paint = partial(self._paint_request, request, warning)
        both = (False, True)
        self._paints = {(p, r): partial(paint, p, r) for p in both for r in both}

    def _paint_request(
        self,
        request: PermissionRequest,
        warning: str,
        takes_prefix: bool,
        shows_reading: bool,
        columns: int,
    ) -> str:
        # The last column stays free here too, if it can.
        rendered = render_request(
            request,
            self.scheme,
            warning,
            can_hide=self._terminal.is_live,
            takes_prefix=takes_prefix,
            shows_reading=shows_reading,
        )
        return self._painter.paint([rendered], columns - 1)

    def _close_question(self) -> None:
        """Print a record of what was asked; a plain terminal has printed the question itself."""
        if self._asked_request is not None and self._terminal.is_live:
            self.print(render_record(self._asked_request, self.scheme))
        self._asked_request = None

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

    def clear_line(self) -> None:
        """Clear the input line."""
        self._terminal.clear_line()

    async def draw(self) -> None:
        """Show everything as it is now."""
        if self.questions.current is not self._asked_request:
            self._close_question()
        printed, self._unwritten = self._unwritten, ""
        parts = (printed, self._live(), self._status(), self._question())
        await self._terminal.show(Frame(*parts, self.hint, bool(self.queued_inputs)))

    def _question(self) -> PromptQuestion | None:
        """Return the question that the next line may answer; it takes none until it is shown."""
        if self.questions.current is None:
            return None
        if self._asked_request is None:
            return PromptQuestion("", "")
        questions = self.questions
        return questions.question(self._paints[questions.takes_prefix, questions.shows_reading])

    @property
    def _columns(self) -> int:
        # The last column stays free: a terminal may wrap there.
        return self._terminal.size[0] - 1

    def _live(self) -> str:
        queued = [Text(f"queued: {visible(text)}", self.scheme.note) for text in self.queued_inputs]
        if queued:
            queued.append(Text("  Up takes it back into the line", self.scheme.note))
        room = max(self._terminal.size[1] - _MARGIN, 3)
        parts = [*self._view.live(min(room, _PLAN)), *queued]
        lines = self._painter.paint(parts, self._columns).splitlines()
        return "\n".join(lines[-room:])

    def _status(self) -> str:
        view = self._view
        queued = f"{len(self.queued_inputs)} queued" if self.queued_inputs else ""
        mode = self._mode()
        parts = [
            _MODES.get(mode, f"mode {mode}"),
            queued,
            visible(self._state()),
            visible(view.model),
        ]
        if view.tokens:
            parts += [f"{view.tokens:,} tokens", view.cache_note, self._context()]
        if view.cost:
            parts.append(f"{view.cost:,.4f} {self._currency}".strip())
        parts.append(self._usual_hint())
        status = " · ".join(part for part in parts if part)
        return status[: self._columns]

    def _context(self) -> str:
        """Say how much of the model's window the conversation takes, where that is known."""
        return f"context {self._view.context / self._window:.0%}" if self._window else ""

    def _state(self) -> str:
        asked = self.questions.current  # a subagent's too, for which the agent itself only waits
        return f"waiting for permission: {asked.tool_name}" if asked else str(self._view.state)

    def _usual_hint(self) -> str:
        return "/help" if self._view.state.kind is core.StateKind.IDLE else "Esc interrupts"
