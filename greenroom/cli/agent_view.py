"""What one agent shows: its text as it streams, its tools as they run, its subagents within it."""

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from greenroom import core
from greenroom.cli.markdown_stream import MarkdownStream
from greenroom.cli.painter import ColorScheme, Prefixed
from greenroom.cli.plans import PlanView
from greenroom.cli.render_chunk import (
    render_call,
    render_chunk,
    render_markdown,
    render_progress,
    render_result,
    render_thinking,
)
from greenroom.core import OutputChunk, visible
from greenroom.planning import PLAN_STEP

_PROGRESS = 4_000  # characters of a running tool's output that are kept to be shown
_LIVE_THINKING = 600
_NAME = 16  # columns of a subagent's name before each of its lines

_GOES_ON = (
    core.TextDelta,
    core.TextComplete,
    core.ThinkingDelta,
    core.ThinkingComplete,
    core.ToolStart,
)
"""What an agent does behind a plan of which nothing is left to do."""


class AgentView:
    """Turns the chunks of one agent into what is printed for good, and what is shown meanwhile.

    `feed` returns what is finished, to be printed once; `live` is what may still change. It is pure:
    it draws nothing and waits for nothing. Where nothing can be redrawn, a plan is told step by step.
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
        self._plan = PlanView(scheme)
        self._text = MarkdownStream()
        self._thinking = ""
        self._calls: dict[str, tuple[core.ToolStart, str]] = {}
        self._children: dict[str, tuple[Text, AgentView]] = {}
        self._error: core.Error | None = None
        self.state = core.AgentState.idle()
        self.usage = core.Usage()
        self.context = 0
        """The tokens of the last request and its reply."""
        self.cache_note = ""
        self.model = model

    def feed(self, chunk: OutputChunk) -> list[RenderableType]:
        """Take the next chunk and return what is finished by it."""
        if isinstance(chunk, core.Custom) and chunk.kind == PLAN_STEP and self._redraws:
            return self._plan.feed(chunk)
        return [*self._end_plan(chunk), *self._feed(chunk)]

    def _end_plan(self, chunk: OutputChunk) -> list[RenderableType]:
        """Print a plan for good that this chunk comes behind."""
        match chunk:
            case core.Lagged():
                self._lose_plans()
                return []
            case core.Done() | core.Exited() | core.Restarted():
                return self._plan.close()
            case _ if isinstance(chunk, _GOES_ON) and self._plan.is_over:
                return self._plan.close()
            case _:
                return []

    def _lose_plans(self) -> None:
        """Follow no plan any more, of this agent and those below: steps of any may have been missed."""
        self._plan.lose()
        for _, child in self._children.values():
            child._lose_plans()

    def _feed(self, chunk: OutputChunk) -> list[RenderableType]:
        match chunk:
            case core.TextDelta():
                return self._blocks(self._text.feed(chunk.text))
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
                self.usage, self.cache_note = chunk.total, chunk.usage.cache_note
                self.context = chunk.usage.sent + (chunk.usage.output_tokens or 0)
                self.model = chunk.model or self.model
                return []
            case core.PermissionRequest():
                return []  # prompts are shown one by one
            case core.Exited() if self._is_nested:
                return self._end_all()  # its parent tells how it ended
            case core.Exited() if self._has_told(chunk.error):
                return [*self._end_all(), Text("the agent has ended", self._scheme.note)]
            case core.Error():
                self._error = chunk
                return [*self._end_all(), *self._shown(chunk)]
            case (
                core.Lagged()
                | core.Done()
                | core.Restarted()
                | core.Exited()
                | core.Custom(kind="reply.restarted")
            ):
                return [*self._end_all(), *self._shown(chunk)]
            case _:
                return self._shown(chunk)

    def _has_told(self, reason: str) -> bool:
        """Whether the reason of an end is the error shown last, and no bug."""
        error = self._error
        if error is None or not hasattr(core, error.kind):
            return False
        return reason.startswith(f"{error.kind}: {error.message}")

    def _shown(self, chunk: OutputChunk) -> list[RenderableType]:
        shown = render_chunk(chunk, self._scheme)
        return [] if shown is None else [shown]

    # -- text -----------------------------------------------------------------------------------

    def _blocks(self, blocks: Iterable[str]) -> list[RenderableType]:
        return [
            part for block in blocks for part in (render_markdown(block, self._scheme), Text(""))
        ]

    def _end_text(self, whole: str | None = None) -> list[RenderableType]:
        rest = self._text.finish(whole)
        self._text = MarkdownStream()
        return self._blocks(rest)

    def _end_all(self) -> list[RenderableType]:
        """Print what an end has left open: half a thought, half a text."""
        thought = [render_thinking(self._thinking, self._scheme)] if self._thinking else []
        self._thinking = ""
        return [*thought, *self._end_text()]

    def finish(self) -> list[RenderableType]:
        """Return all text and thought that is still open, of its subagents too; it is then over."""
        parts = self._end_all()
        for name, child in self._children.values():
            parts += [Prefixed(name, part) for part in child.finish()]
        return [*parts, *self._plan.close()]

    # -- tools ----------------------------------------------------------------------------------

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

    # -- subagents ------------------------------------------------------------------------------

    def _feed_subagent(
        self, chunk: core.SubAgentSpawned | core.SubAgentOutput | core.SubAgentComplete
    ) -> list[RenderableType]:
        if isinstance(chunk, core.SubAgentSpawned) and chunk.detached:
            return self._shown(chunk)  # nothing more comes of it here
        name, child = self._children.get(chunk.session_id) or self._meet(chunk)
        if isinstance(chunk, core.SubAgentOutput):
            return [Prefixed(name, part) for part in child.feed(chunk.chunk)]
        if isinstance(chunk, core.SubAgentComplete):
            self._children.pop(chunk.session_id, None)
            if child._has_told(chunk.result):
                chunk = core.SubAgentComplete(chunk.session_id, chunk.status)
        return [Prefixed(name, part) for part in self._shown(chunk)]

    def _meet(
        self, chunk: core.SubAgentSpawned | core.SubAgentOutput | core.SubAgentComplete
    ) -> "tuple[Text, AgentView]":
        """Make the view of a subagent; one whose start was missed goes by its session."""
        name = chunk.session_id
        if isinstance(chunk, core.SubAgentSpawned):
            name = chunk.name or chunk.agent_type
        head = Text(f"{_shortened(visible(name))} │ ", self._scheme.subagent)
        child = (head, AgentView(self._scheme, is_nested=True, redraws=self._redraws))
        self._children[chunk.session_id] = child
        return child

    # -- what may still change ------------------------------------------------------------------

    def live(self, rows: int = 12) -> list[RenderableType]:
        """Return what is not finished: the end of a thought or a text, tools, subagents, a plan.

        The plan comes last, in at most so many rows: so it stands still while the others come and go.
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
        return [*parts, *self._plan.live(rows)]


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1].rstrip()}…"
