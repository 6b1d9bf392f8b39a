"""What an agent has told: its ring, and what is kept beside it for those who come late."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from greenroom.core import (
    Custom,
    OutputChunk,
    PermissionRequest,
    SubAgentOutput,
    TextComplete,
    TextDelta,
    ToolEnd,
    ToolProgress,
    ToolResult,
    ToolStart,
    ToolStatus,
    TurnStart,
    Usage,
    UsageReport,
    serde,
)
from greenroom.runtime.output.partial import PartialText
from greenroom.runtime.output.ring import OutputRing

if TYPE_CHECKING:
    from greenroom.runtime.actor import Actor

_PROGRESS = 10_000
"""Characters that are kept of what an unfinished call tells; its newest ones."""


@dataclass(frozen=True)
class _ToolInHand:
    """A tool that was started, and when, by trio's clock."""

    name: str
    since: float


class Output:
    """The output of one agent. A chunk also goes, wrapped, into that of the agents above."""

    def __init__(self, actor: "Actor") -> None:
        """Start with nothing told."""
        limits = actor.limits
        self._actor = actor
        self.ring = OutputRing(limits.ring_chunks, limits.ring_bytes)
        self.partial = PartialText(limits.partial_text)
        self.usage = Usage()
        self.tree_usage = Usage()
        """What this agent and all below it have used, those that have ended included."""
        self.open_tools: dict[str, _ToolInHand] = {}
        """The tools that were started and have not ended, by tool-use id."""
        self._progress: dict[str, PartialText] = {}

    def publish(self, chunk: OutputChunk) -> None:
        """Put a chunk into the ring, and wrapped into the rings of the agents above.

        Raises:
            AgentNotRunningError: the agent has ended, and `Exited` was its last chunk.
        """
        if self.ring.closed:
            self._actor.refuse_if_ended()
        if isinstance(chunk, ToolStart | PermissionRequest | Custom):
            # What readers do to the input must not reach the call that is about to run, nor what
            # the agent does to its data the readers.
            chunk = serde.decode(serde.encode(chunk), type(chunk))
        if isinstance(chunk, UsageReport):
            chunk = self._count(chunk)
        self.ring.publish(chunk)
        self._note(chunk)
        if self._actor.parent is not None:
            wrapped = SubAgentOutput(self._actor.session.session_id, chunk)
            self._actor.parent.output.publish(wrapped)

    def open_tool_labels(self) -> list[str]:
        """Name the open calls, for people."""
        return [self.tool_label(tool_use_id) for tool_use_id in self.open_tools]

    def tool_label(self, tool_use_id: str) -> str:
        """Name a call for people; empty where there is none."""
        if not tool_use_id:
            return ""
        tool = self.open_tools.get(tool_use_id)
        return f"call {tool_use_id}" if tool is None else f"tool {tool.name} ({tool_use_id})"

    def close_tools(self) -> dict[str, str]:
        """Say of the calls that were cut off that they have ended; return what they had told."""
        told = {key: str(text) for key, text in self._progress.items()}
        for tool_use_id in tuple(self.open_tools):
            text = "\n".join(filter(None, [told.get(tool_use_id), "interrupted"]))
            result = ToolResult.error(text, ToolStatus.INTERRUPTED, error_message="interrupted")
            self.publish(ToolEnd(tool_use_id, result, is_error=True))
        return told

    def _note(self, chunk: OutputChunk) -> None:
        match chunk:
            case TextDelta(text=text):
                self.partial.add(text)
            case TextComplete() | Custom(kind="reply.restarted"):
                self.partial.clear()
            case TurnStart():
                self.ring.turn = self.ring.next - 1
            case ToolStart(id=tool_use_id, name=name):
                self.open_tools[tool_use_id] = _ToolInHand(name, trio.current_time())
            case ToolProgress(id=tool_use_id, output=text) if tool_use_id in self.open_tools:
                self._progress.setdefault(tool_use_id, PartialText(_PROGRESS)).add(text)
            case ToolEnd(id=tool_use_id):
                self.open_tools.pop(tool_use_id, None)
                self._progress.pop(tool_use_id, None)
            case _:
                pass

    def _count(self, report: UsageReport) -> UsageReport:
        self.usage += report.usage
        if self._actor.turns.current is not None:
            self._actor.turns.current.usage += report.usage
        for actor in (self._actor, *self._actor.ancestors()):
            actor.output.tree_usage += report.usage
        self._actor.budgets.count(report.usage)
        return UsageReport(report.usage, self.usage, report.model)
