"""Turns the chunks of one agent into what is printed for good, and what may still change."""

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from greenroom import core
from greenroom.cli.formatting import shorten
from greenroom.cli.markdown_stream import Block, MarkdownStream
from greenroom.cli.markdown_view import render_markdown
from greenroom.cli.painter import ColorScheme, LastRows, Prefixed
from greenroom.cli.plan_view import PlanView
from greenroom.cli.render_chunk import (
    render_call,
    render_chunk,
    render_progress,
    render_result,
    render_thinking,
)
from greenroom.core import OutputChunk
from greenroom.core._internal import visible
from greenroom.flow._internal import PLAN_STEP

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
        for _, child in self._children.values():
            child._miss()

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
        if error is None or not hasattr(core, error.kind):
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
        for start, output in self._calls.values():
            parts.append(render_call(start, self._scheme))
            if output:
                parts.append(render_progress(output, self._scheme))
        for name, child in self._children.values():
            parts += [Prefixed(name, part) for part in child.live(rows, text_rows)]
        return [*parts, *(self._plan.live(rows) if self._plan else ())]
