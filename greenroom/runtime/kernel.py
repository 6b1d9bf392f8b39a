"""What all agents of one runtime share: its limits, its gates, and who of them is alive."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import trio

from greenroom.core import ResourceMap, SessionInUseError, Workspace
from greenroom.core._internal import EndStatus, Instruments
from greenroom.runtime.errors import RuntimeClosedError
from greenroom.runtime.limits import RuntimeLimits
from greenroom.runtime.results import Outcome
from greenroom.runtime.tasks import Dependent, LiveTasks, is_cancelled, require_loop
from greenroom.runtime.tool_runs import Gates
from greenroom.session import AgentSession, SessionStore
from greenroom.session._internal import holder_of

# Hooks are the program's own code, and may take long: a Ctrl-C ends one even in a protected step.
trio.lowlevel.disable_ki_protection(Instruments.notify)


class _Agent(Protocol):
    """What is needed of an agent in order to list it."""

    @property
    def session(self) -> AgentSession: ...
    @property
    def session_id(self) -> str: ...
    @property
    def is_root(self) -> bool: ...
    @property
    def outcome(self) -> Outcome | None: ...


A = TypeVar("A", bound=_Agent)


class Registry(Generic[A]):
    """All agents of a runtime from spawn to end, subagents included, oldest first."""

    def __init__(self) -> None:
        self._agents: dict[str, A] = {}
        self.spawned = 0
        """How many agents were ever added."""
        self.most = 0
        """How many there were at once, at the most."""
        self.ended: dict[EndStatus, int] = {}
        """How many have ended, by how they did."""

    def __len__(self) -> int:
        return len(self._agents)

    def __iter__(self) -> Iterator[A]:
        return iter(tuple(self._agents.values()))

    def get(self, session_id: str) -> A | None:
        """Return the agent with this session, or None."""
        return self._agents.get(session_id)

    @property
    def roots(self) -> list[A]:
        """The agents that belong to the runtime itself."""
        return [actor for actor in self if actor.is_root]

    def refuse(self, session: AgentSession) -> None:
        """Refuse a session that has a running agent.

        Raises:
            SessionInUseError: an agent with this session is running, here or in another runtime.
        """
        if session.session_id in self._agents or session.journal.has_agent:
            raise SessionInUseError(
                f"the session {session.session_id} has a running agent",
                session_id=session.session_id,
                pid=os.getpid(),
                holder=holder_of(session.store),
                hint="get its handle from its runtime, or fork the session; "
                "with on_busy='queue' a run waits for other runs",
            )

    def add(self, actor: A) -> None:
        """Add an agent that was spawned."""
        self._agents[actor.session_id] = actor
        actor.session.journal.has_agent = True
        self.spawned += 1
        self.most = max(self.most, len(self._agents))

    def forget(self, actor: A) -> None:
        """Remove an agent that has ended."""
        del self._agents[actor.session_id]
        actor.session.journal.has_agent = False
        if actor.outcome is not None:
            status = actor.outcome.status
            self.ended[status] = self.ended.get(status, 0) + 1


class Kernel(Generic[A]):
    """What all agents of one runtime share."""

    def __init__(
        self,
        limits: RuntimeLimits,
        gates: Gates,
        instruments: Instruments,
        store: SessionStore | None,
        workspace: str | Path,
        make_internals: Callable[[A], object],
    ) -> None:
        """Made with its runtime, whose block is not open yet."""
        self.limits = limits
        self.gates = gates
        self.instruments = instruments
        self.store = store
        self.workspace = Workspace(workspace)
        """Where agents begin; each gets a copy."""
        self.make_internals = make_internals
        """Makes what an agent function is given first."""
        self.resources = ResourceMap()
        self.registry: Registry[A] = Registry()
        self.live_tasks = LiveTasks()
        """The tasks of the agents that are alive."""
        self.supervisions: dict[Dependent, None] = {}
        """The supervisors that belong to the runtime itself."""
        self.is_open = False
        self.is_broken = False
        """Whether the runtime itself has failed, which is no agent's crash: the error goes up."""
        self.nursery: trio.Nursery | None = None
        """The nursery of the agents that belong to the runtime itself."""
        self.token: trio.lowlevel.TrioToken | None = None
        """The event loop in which it is open."""
        self.opened_by: A | None = None
        """The agent that has opened this runtime, or None."""

    def note_failure(self, error: BaseException) -> None:
        """Note that the runtime itself has failed, unless this is a cancel."""
        self.is_broken |= not is_cancelled(error)

    def require_nursery(self) -> trio.Nursery:
        """Return the nursery, or raise `RuntimeClosedError`."""
        if self.nursery is None or not self.is_open:
            raise RuntimeClosedError(
                "the runtime is not open", hint="use it inside of its `async with` block"
            )
        require_loop(self.token, "spawn()")
        return self.nursery
