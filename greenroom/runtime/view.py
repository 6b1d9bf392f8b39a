"""The side of an agent that anybody may look at: who it is, and what it is doing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from greenroom.core import AgentState, Message, PermissionRequest, Usage, serde
from greenroom.runtime.introspection.snapshot import budgets_left
from greenroom.runtime.introspection.statistics import AgentStatistics

if TYPE_CHECKING:
    from greenroom.runtime.actor import Actor


@dataclass(frozen=True)
class ParentInfo:
    """The session that spawned an agent, and the tool call in which it did, if any."""

    session_id: str
    tool_use_id: str | None = None


class AgentView:
    """Everything of `AgentHandle` that changes nothing."""

    def __init__(self, actor: "Actor") -> None:
        """Made by `spawn` and `AgentRuntime.get`."""
        self._actor = actor

    def __repr__(self) -> str:
        return f"<AgentHandle {self.session_id} {self._actor.name!r} {self.state}>"

    @property
    def session_id(self) -> str:
        """The id of the agent's session."""
        return self._actor.session.session_id

    @property
    def agent_type(self) -> str:
        """The agent's type, such as "coder"."""
        return self._actor.session.agent_type

    @property
    def name(self) -> str:
        """The name that it was spawned with, by default its type."""
        return self._actor.name

    @property
    def state(self) -> AgentState:
        """The last state that it has published."""
        return self._actor.state

    @property
    def parent(self) -> ParentInfo | None:
        """The session and the call that it was spawned from, or None for a root."""
        session = self._actor.session
        if session.parent_session_id is None:
            return None
        return ParentInfo(session.parent_session_id, session.parent_tool_use_id)

    async def history(self) -> tuple[Message, ...]:
        """Return the conversation so far, as a copy: it does not change, and changing it does nothing."""
        await trio.lowlevel.checkpoint()
        return tuple(message.copy() for message in self._actor.session.history)

    async def metadata(self) -> Mapping[str, object]:
        """Return the session's metadata as they are now."""
        await trio.lowlevel.checkpoint()
        return self._actor.session.metadata

    async def children(self) -> tuple[str, ...]:
        """Return the session ids of all subagents that it ever had."""
        await trio.lowlevel.checkpoint()
        return tuple(self._actor.session.child_session_ids)

    async def usage(self) -> Usage:
        """Return what its model calls have used since it was spawned, its subagents' not counted.

        What its session has used before is in `session.used`.
        """
        await trio.lowlevel.checkpoint()
        return self._actor.output.usage

    async def tree_usage(self) -> Usage:
        """Return the tokens of its model calls and those of all agents below it, past and present.

        It begins at 0 with the spawn, also where a session goes on. A detached subagent is not below it.
        """
        await trio.lowlevel.checkpoint()
        return self._actor.output.tree_usage

    async def pending(self) -> tuple[PermissionRequest, ...]:
        """Return the open permission requests, its own and its descendants'."""
        await trio.lowlevel.checkpoint()
        return _pending(self._actor)

    async def partial_text(self) -> str:
        """Return the unfinished text of the reply in hand: its last 100,000 characters by default."""
        await trio.lowlevel.checkpoint()
        return str(self._actor.output.partial)

    async def statistics(self) -> AgentStatistics:
        """Return figures about its queues, its readers and what it has left."""
        await trio.lowlevel.checkpoint()
        actor = self._actor
        return AgentStatistics(
            mailbox=len(actor.mailbox),
            published=actor.output.ring.next,
            kept=len(actor.output.ring),
            kept_bytes=actor.output.ring.bytes,
            subscribers=len(actor.subscriptions),
            largest_lag=max((reader.lag for reader in actor.subscriptions), default=0),
            pending=len(actor.approvals.open),
            subagents=len(actor.children),
            turns=actor.turns.count,
            open_tools=len(actor.output.open_tools),
            abandoned=len(actor.cleanups.abandoned),
            budgets=budgets_left(actor),
        )


def _pending(actor: "Actor") -> tuple[PermissionRequest, ...]:
    own = (serde.decode(serde.encode(each), PermissionRequest) for each in actor.approvals.open)
    below = (request for child in actor.children for request in _pending(child))
    return (*own, *below)
