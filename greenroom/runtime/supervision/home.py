"""Where the agents of a supervisor live: under the runtime, or under the agent that made it."""

from typing import TYPE_CHECKING, TypeVarTuple, Unpack

from greenroom.core import AgentNotRunningError
from greenroom.runtime.caller import require_loop
from greenroom.runtime.spawning import spawn_child, spawn_root

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from greenroom.core import SupervisionError
    from greenroom.resilience import Budget
    from greenroom.runtime.actor import Actor, Unattended
    from greenroom.runtime.handle import AgentHandle
    from greenroom.runtime.internals import AgentInternals
    from greenroom.runtime.runtime import AgentRuntime
    from greenroom.runtime.supervision.supervision import Supervision
    from greenroom.session import AgentSession

Ts = TypeVarTuple("Ts")


class Home:
    """The nursery in which a supervisor's agents live and its jobs run, and who learns of its end."""

    def __init__(self, runtime: "AgentRuntime", owner: "Actor | None") -> None:
        """Take the runtime, or the present life of the agent that owns the supervisor.

        Raises:
            RuntimeClosedError: the runtime is not open.
            AgentNotRunningError: the agent's function has returned.
        """
        self._runtime = runtime
        self.owner = owner
        self._life = owner.life if owner else None
        self.nursery = runtime._open_nursery()
        """Where everything of it runs."""
        if self._life is not None:
            if self._life.nursery is None:
                raise AgentNotRunningError("the agent has returned, and supervises no more")
            self.nursery = self._life.nursery

    @property
    def is_open(self) -> bool:
        """Whether it has not begun to end."""
        if self._life is not None:
            return self._life.nursery is not None
        return self._runtime._open

    def require_loop(self, what: str) -> None:
        """Raise `EventLoopError` where the caller is in another thread or loop."""
        require_loop(self._runtime, what)

    def add(self, supervision: "Supervision") -> None:
        """Remember a supervisor that nobody stands above."""
        self._supervisions[supervision] = None

    def forget(self, supervision: "Supervision", crash: "SupervisionError | None") -> None:
        """It has ended; where it gave up, the agent that owns it crashes."""
        self._supervisions.pop(supervision, None)
        if crash is not None and self._life is not None and self.is_open:
            self._life.fail(crash)

    @property
    def _supervisions(self) -> "dict[Supervision, None]":
        return self._runtime._supervisions if self._life is None else self._life.supervisions

    def spawn(
        self,
        session: "AgentSession",
        agent_fn: "Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]]",
        args: tuple[*Ts],
        *,
        unattended: "Unattended",
        name: str | None,
        budget: "Budget | None",
    ) -> "AgentHandle":
        """Start an agent here; `Supervisor.spawn` says what may be raised."""
        if self.owner is None:
            return spawn_root(
                self._runtime,
                session,
                agent_fn,
                args,
                unattended=unattended,
                name=name,
                budget=budget,
            )
        return spawn_child(
            self.owner,
            session,
            agent_fn,
            args,
            detached=False,
            scope="turn",
            report=True,
            name=name,
            budget=budget,
        )
