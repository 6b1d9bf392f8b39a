"""Turns the chunks of one agent into what is printed for good, and what may still change."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec
from rich.cells import cell_len
from rich.text import Text

from greenroom import core
from greenroom.cli.awaited import Awaited
from greenroom.cli.formatting import describe_seconds, shorten
from greenroom.cli.markdown_stream import Block, MarkdownStream
from greenroom.cli.markdown_view import render_markdown
from greenroom.cli.painter import ColorScheme, LastRows, Prefixed
from greenroom.cli.render_chunk import (
    render_call,
    render_chunk,
    render_progress,
    render_result,
    render_thinking,
    render_todos,
)
from greenroom.cli.renderables import (
    Console,
    ConsoleOptions,
    Group,
    RenderableType,
    RenderResult,
    Unfolding,
)
from greenroom.core import OutputChunk
from greenroom.core._internal import EndStatus, exact, find_error, quantity, visible

if TYPE_CHECKING:
    from greenroom.cli.plan_view import PlanView

PLAN_STEP = "plan.step"
"""The kind of the chunks of plans, which `greenroom.flow` sends."""

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
    and waits for nothing. A subagent that a call has started is one line, and what it said is shown
    where all is unfolded; the members of a team speak for themselves. If nothing can be redrawn,
    all of it is printed, and each step of a plan is a line.
    """

    def __init__(
        self,
        scheme: ColorScheme,
        model: str = "",
        *,
        is_nested: bool = False,
        redraws: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start with nothing shown; the clock says for how many seconds a subagent works."""
        self._clock = clock
        self._is_nested = is_nested
        self._redraws = redraws
        self._scheme = scheme
        self._plan: PlanView | None = None
        self._text = MarkdownStream()
        self._thinking = ""
        self._calls: dict[str, tuple[core.ToolStart, str]] = {}
        self._asking: dict[str, str] = {}  # the calls that wait for an answer, by request
        self._children: dict[str, _Child] = {}
        self._name_width = 0  # of the widest name so far, for lines that begin in one column
        self._todos: list[object] = []
        self.shows_todos = True
        """Whether the to-do list stands among what may still change."""
        self.call_count = 0
        self.awaited = Awaited(clock)
        """What the agent waits for."""
        self._error: core.Error | None = None
        self.tokens = 0
        self.cost: float | None = None
        self.context = 0
        """The tokens of the last request and its reply."""
        self.cache_note = ""
        self.model = model

    def restyle(self, scheme: ColorScheme) -> None:
        """Draw in these styles from now on."""
        self._scheme = scheme
        for child in self._children.values():
            child.scheme = scheme
            child.view.restyle(scheme)
        if self._plan is not None:
            self._plan.scheme = scheme

    def feed(self, chunk: OutputChunk) -> list[RenderableType]:
        """Take the next chunk and return the output that it finishes."""
        self.awaited.feed(chunk)
        if isinstance(chunk, core.Custom) and chunk.kind == PLAN_STEP and self._redraws:
            # Most runs have no plan; in those that have, the agent has loaded what this loads.
            from greenroom.cli.plan_view import PlanView

            self._plan = self._plan or PlanView(self._scheme)
            return self._plan.feed(chunk)
        return [*self._end_plan(chunk), *self._handle(chunk)]

    def _end_plan(self, chunk: OutputChunk) -> list[RenderableType]:
        """Print the plan that this chunk ends."""
        if isinstance(chunk, core.Lagged):
            self._miss()
        if self._plan is None:
            return []
        is_end = isinstance(chunk, _ENDS) or (isinstance(chunk, _GOES_ON) and self._plan.is_over)
        return self._plan.close() if is_end else []

    def _miss(self) -> None:
        """Forget the plans of this agent and its subagents: steps of any may have been missed.

        Of a text that was cut here, the rest comes once the whole is known.
        """
        self._plan = None
        self._text.miss()
        for child in self._children.values():
            child.view._miss()

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
                return []
            case core.UsageReport():
                self.tokens, self.cost = chunk.total.total, chunk.total.cost
                self.cache_note = chunk.usage.cache_note
                self.context = chunk.usage.sent + (chunk.usage.output_tokens or 0)
                self.model = chunk.model or self.model
                return []
            case core.PermissionRequest():
                self._asking[chunk.request_id] = chunk.tool_use_id
                return []  # questions are shown one by one
            case core.PermissionResponse():
                self._asking.pop(chunk.request_id, None)
                return self._render(chunk)
            case core.Custom(kind="model.wait" | "model.retry") if self._redraws:
                return []  # `awaited` says it while it lasts
            case core.Exited() if self._is_nested:
                return self._end_all()  # its parent says how it ended
            case core.Exited() if self._repeats_error(chunk.error):
                return [*self._end_all(), Text("the agent has ended", self._scheme.note)]
            case core.Error():
                self._error = chunk
                return [*self._end_all(), *self._render(chunk)]
            case core.Lagged():
                return self._render(chunk)
            case (
                core.Done() | core.Restarted() | core.Exited() | core.Custom(kind="reply.restarted")
            ):
                return [*self._end_all(), *self._render(chunk)]
            case _:
                return self._render(chunk)

    def _repeats_error(self, reason: str) -> bool:
        """Whether the reason of an end is the error shown last, and not a bug."""
        error = self._error
        if error is None or not find_error(error.kind):
            return False
        return reason.startswith(f"{error.kind}: {error.message}")

    def _render(self, chunk: OutputChunk) -> list[RenderableType]:
        rendered = render_chunk(chunk, self._scheme)
        return [] if rendered is None else [rendered]

    def _render_blocks(self, blocks: Iterable[Block]) -> list[RenderableType]:
        parts = list[RenderableType]()
        for block in blocks:
            parts.append(render_markdown(block.markdown, self._scheme))
            if not block.is_part:
                parts.append(Text(""))
        return parts

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
        for child in self._children.values():
            rest = child.prefixed(child.view.finish())
            parts += [child.summary("", rest)] if child.is_folded else rest
        return [*parts, *(self._plan.close() if self._plan else ())]

    def _feed_tool(
        self, chunk: core.ToolStart | core.ToolProgress | core.ToolEnd
    ) -> list[RenderableType]:
        if isinstance(chunk, core.ToolStart):
            self._calls[chunk.id] = (chunk, "")
            self.call_count += 1
            return self._end_all()
        start, output = self._calls.get(chunk.id, (None, ""))
        if isinstance(chunk, core.ToolProgress):
            if start is not None:
                self._calls[chunk.id] = (start, (output + chunk.output)[-_PROGRESS:])
            return []
        self._calls.pop(chunk.id, None)
        if start is not None and self._is_pinned(start, chunk):
            return []
        head = [] if start is None else [render_call(start, self._scheme)]
        return [*head, render_result(start, chunk, self._scheme), Text("")]

    def _is_pinned(self, start: core.ToolStart, end: core.ToolEnd) -> bool:
        """Take a new to-do list; return whether it stays in sight, until all of it is done."""
        todos = start.input.get("todos")
        if start.name != "Todo" or end.is_error or not isinstance(todos, list):
            return False
        self._todos = todos if self._redraws and any(map(_is_open, todos)) else []
        return bool(self._todos)

    def _feed_subagent(
        self, chunk: core.SubAgentSpawned | core.SubAgentOutput | core.SubAgentComplete
    ) -> list[RenderableType]:
        if isinstance(chunk, core.SubAgentSpawned) and chunk.detached:
            return self._render(chunk)  # its chunks go to other readers
        child = self._children.get(chunk.session_id) or self._add_child(chunk)
        if isinstance(chunk, core.SubAgentOutput):
            parts = child.view.feed(chunk.chunk)
            return child.take(parts) if child.is_folded else child.prefixed(parts)
        if isinstance(chunk, core.SubAgentSpawned):
            return [] if child.is_folded else child.prefixed(self._render(chunk))
        self._children.pop(chunk.session_id, None)
        if not child.is_folded:
            if child.view._repeats_error(chunk.result):
                chunk = core.SubAgentComplete(chunk.session_id, chunk.status)
            return child.prefixed(self._render(chunk))
        is_done = chunk.status is EndStatus.COMPLETED
        reason = "" if is_done else ": ".join(filter(None, (chunk.status, chunk.result)))
        return [child.summary(reason, []), Text("")]

    def _add_child(
        self, chunk: core.SubAgentSpawned | core.SubAgentOutput | core.SubAgentComplete
    ) -> "_Child":
        """Make the view of a subagent; if its start was missed, its session's id is its name."""
        name = chunk.session_id
        if isinstance(chunk, core.SubAgentSpawned):
            name = chunk.name or chunk.agent_type
        view = AgentView(self._scheme, is_nested=True, redraws=self._redraws, clock=self._clock)
        is_called = isinstance(chunk, core.SubAgentSpawned) and bool(chunk.tool_use_id)
        is_folded = is_called and self._redraws
        name = visible(name)
        self._name_width = max(self._name_width, cell_len(shorten(name, _NAME)))
        parts = (view, self._scheme, is_folded, self._clock, self._clock())
        child = _Child(name, *parts, lambda: self._name_width)
        self._children[chunk.session_id] = child
        return child

    def live(self, rows: int = 12, text_rows: int = 4) -> list[RenderableType]:
        """Return unfinished output: the end of a thought or a text, tools, subagents, a plan.

        The plan comes last, in at most so many rows, so that it stays in place while the others
        change. Of a thought and of a text there are at most `text_rows`.
        """
        parts: list[RenderableType] = []
        if self._thinking:
            thinking = render_thinking(self._thinking[-_LIVE_THINKING:], self._scheme)
            parts.append(LastRows(thinking, text_rows))
        if self._text.tail.strip():
            parts.append(LastRows(render_markdown(self._text.tail, self._scheme), text_rows))
        waiting = set(self._asking.values())
        for start, output in self._calls.values():
            is_waiting = start.id in waiting
            seconds = self.awaited.call_seconds(start.id) if len(self._calls) > 1 else 0.0
            parts.append(render_call(start, self._scheme, is_waiting=is_waiting, seconds=seconds))
            if output:
                parts.append(render_progress(output, self._scheme))
        for child in self._children.values():
            now = child.view.live(rows, text_rows)
            parts += [child.live()] if child.is_folded else child.prefixed(now)
        if self._todos and self.shows_todos:
            parts.append(render_todos(self._todos, self._scheme, rows))
        return [*parts, *(self._plan.live(rows) if self._plan else ())]


def _is_open(todo: object) -> bool:
    return isinstance(todo, dict) and todo.get("status") != "completed"


_MAX_PARTS = 1_000  # of what a subagent said, kept to be unfolded


class _Child(msgspec.Struct):
    """A subagent, as its parent's view shows it."""

    name: str
    view: AgentView
    scheme: ColorScheme
    is_folded: bool
    clock: Callable[[], float]
    began: float
    name_width: Callable[[], int]
    parts: deque[RenderableType] = msgspec.field(default_factory=lambda: deque(maxlen=_MAX_PARTS))

    @property
    def prefix(self) -> Text:
        """What stands before each of its lines."""
        name = shorten(self.name, _NAME)
        blanks = " " * (self.name_width() - cell_len(name))
        return Text(f"{name}{blanks} │ ", self.scheme.subagent)

    def prefixed(self, parts: Iterable[RenderableType]) -> list[RenderableType]:
        """Put its name before what it said."""
        return [Prefixed(self.prefix, part) for part in parts]

    def take(self, parts: Iterable[RenderableType]) -> list[RenderableType]:
        """Keep what it said, to be unfolded; print nothing."""
        self.parts.extend(self.prefixed(parts))
        return []

    def live(self) -> Text:
        """Show in a line what it does."""
        return self._line(self.view.awaited.describe(self.view.model), "")

    def summary(self, reason: str, rest: Iterable[RenderableType]) -> RenderableType:
        """Show in a line what it did, before that all that it said where all is unfolded."""
        return _Unfolding([*self.parts, *rest], self._line("", reason))

    def _line(self, state: str, reason: str) -> Text:
        view, line = self.view, Text("◆ ", no_wrap=True, overflow="ellipsis")
        line.append(self.name, self.scheme.subagent)
        did = [exact(state), describe_seconds(self.clock() - self.began)]
        did += [quantity(view.call_count, "call")] if view.call_count else []
        did += [f"{view.tokens:,} tokens"] if view.tokens else []
        line.append(f"  {' · '.join(filter(None, did))}", self.scheme.note)
        if reason:
            line.append(f"  {visible(' '.join(reason.split()))}", self.scheme.error)
        return line


class _Unfolding:
    """A line that stands for more, which is shown above it where all is unfolded."""

    def __init__(self, parts: list[RenderableType], line: Text) -> None:
        self._parts = parts
        self._line = line

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if isinstance(console, Unfolding) and console.unfolds:
            yield Group(*self._parts)
        yield self._line
