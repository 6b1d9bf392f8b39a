"""What a handle shows of a conversation: the session's, or that of an agent elsewhere."""

from typing import TYPE_CHECKING, Protocol, cast

import trio

from greenroom.core import Message
from greenroom.session import AgentSession

if TYPE_CHECKING:
    from collections.abc import Callable


class View(Protocol):
    """Where the conversation of an agent is, for those who ask its handle."""

    async def history(self) -> tuple[Message, ...]:
        """Return the conversation so far."""

    async def children(self) -> tuple[str, ...]:
        """Return the session ids of all subagents that it ever had."""


def find_view(agent_fn: object, session: AgentSession) -> View | None:
    """Return where the conversation of an agent is whose function keeps it outside of its session.

    Such a function is an object with a method `view(session)`; of others there is none.
    """
    view = getattr(agent_fn, "view", None)
    return cast("Callable[[AgentSession], View]", view)(session) if callable(view) else None


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
