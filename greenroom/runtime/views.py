"""What a handle shows of a conversation: the session's, or that of an agent elsewhere."""

from typing import Protocol, runtime_checkable

import trio

from greenroom.core import Message
from greenroom.session import AgentSession


class View(Protocol):
    """Where the conversation of an agent is, for those who ask its handle."""

    async def history(self) -> tuple[Message, ...]:
        """Return the conversation so far."""

    async def children(self) -> tuple[str, ...]:
        """Return the session ids of all subagents that it ever had."""


@runtime_checkable
class WorksElsewhere(Protocol):
    """An agent function whose conversation is not in the session of its agent."""

    def view(self, session: AgentSession) -> View:
        """Return where the conversation of an agent in this session is."""


class OwnView:
    """The conversation of an agent that keeps it in its own session."""

    def __init__(self, session: AgentSession) -> None:
        """Show this session."""
        self._session = session

    async def history(self) -> tuple[Message, ...]:
        """Return the conversation so far."""
        await trio.lowlevel.checkpoint()
        return tuple(self._session.history)

    async def children(self) -> tuple[str, ...]:
        """Return the session ids of all subagents that it ever had."""
        await trio.lowlevel.checkpoint()
        return tuple(self._session.child_session_ids)
