"""The registry: the running agents of one runtime, by their session ids."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING
from weakref import WeakSet

from greenroom.core import EndStatus, SessionInUseError

if TYPE_CHECKING:
    from greenroom.runtime.actor import Actor
    from greenroom.session import AgentSession

_held: "WeakSet[AgentSession]" = WeakSet()
"""The sessions that agents of this process hold: the lock can't tell two runtimes apart that were
given one object, which is open already for the second."""


class Registry:
    """Every agent from its spawn to its end, subagents included, oldest first."""

    def __init__(self) -> None:
        """Start empty."""
        self._agents: dict[str, Actor] = {}
        self.spawned = 0
        """How many agents were ever added."""
        self.most = 0
        """How many there were at once, at the most."""
        self.ended: Counter[EndStatus] = Counter()
        """How many have ended, by how they did."""

    def __len__(self) -> int:
        return len(self._agents)

    def __iter__(self) -> Iterator["Actor"]:
        return iter(tuple(self._agents.values()))

    def get(self, session_id: str) -> "Actor | None":
        """Return the agent with this session, or None."""
        return self._agents.get(session_id)

    @property
    def roots(self) -> list["Actor"]:
        """The agents that belong to the runtime itself."""
        return [actor for actor in self if actor.parent is None]

    def refuse(self, session: "AgentSession") -> None:
        """Refuse a session that runs.

        Raises:
            SessionInUseError: an agent with this session is running, here or in another runtime.
        """
        if session.session_id in self._agents or session in _held:
            raise SessionInUseError(
                f"the session {session.session_id} has a running agent",
                session_id=session.session_id,
                hint="get its handle from its runtime, or fork the session",
            )

    def add(self, actor: "Actor") -> None:
        """An agent was spawned."""
        self._agents[actor.session.session_id] = actor
        _held.add(actor.session)
        self.spawned += 1
        self.most = max(self.most, len(self._agents))

    def forget(self, actor: "Actor") -> None:
        """An agent has ended."""
        del self._agents[actor.session.session_id]
        _held.discard(actor.session)
        if actor.outcome is not None:
            self.ended[actor.outcome.status] += 1
