"""Supervisors: groups of agents that are started again when they crash."""

import logging
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVarTuple, Unpack, get_args

import msgspec
import trio

from greenroom.core import AgentState, ConfigurationError, Restarted, SelfWaitError
from greenroom.core._internal import describe_error, log_error
from greenroom.resilience import Backoff, Budget
from greenroom.runtime.actor import Actor
from greenroom.runtime.approvals import Unattended
from greenroom.runtime.calls import current_actor
from greenroom.runtime.errors import SupervisionError
from greenroom.runtime.handle import AgentHandle
from greenroom.runtime.interruption import check_grace
from greenroom.runtime.restarts import (
    AgentHost,
    Member,
    Restart,
    RestartWindow,
    Strategy,
    Supervision,
)
from greenroom.runtime.results import SupervisorOutcome
from greenroom.runtime.spawning import AgentT, spawn_child, spawn_root
from greenroom.runtime.tasks import require_loop
from greenroom.session import AgentSession

logger = logging.getLogger("greenroom.runtime")

Ts = TypeVarTuple("Ts")


class SupervisedChild(msgspec.Struct, frozen=True):
    """A look at one child of a supervisor.

    Attributes:
        name: its name.
        restart: when it is started again: "permanent", "transient" or "temporary".
        restarts: how often it was.
        state: "running", or "restarting" while it waits for that or is being stopped for it.
        session_id: the session of an agent; empty for a supervisor.
        supervisor: the supervisor that this child is; None for an agent.
    """

    name: str
    restart: Restart
    restarts: int
    state: Literal["running", "restarting"]
    session_id: str = ""
    supervisor: "Supervisor | None" = None


class SupervisorStatistics(msgspec.Struct, frozen=True):
    """A look into one supervisor.

    Attributes:
        children: children that have not ended for good, its own alone.
        restarting: those of them that wait to be started again.
        restarts: restarts ordered so far; one of a group counts once.
        recent: those of them within the period that ends now.
    """

    children: int
    restarting: int
    restarts: int
    recent: int


class Supervisor:
    """Starts agents, and starts them again when they crash, within limits.

    The words are those of Erlang/OTP. Its agents live where they would live without it, under the
    runtime or under the agent that made it; a supervisor only decides what follows a crash.

    Example:
        ```python
        supervisor = runtime.supervisor("rest_for_one", intensity=3, period=5.0)
        feed = supervisor.spawn(AgentSession.new("feed"), feed_agent, restart="permanent")
        desk = supervisor.spawn(AgentSession.new("desk"), desk_agent, restart="transient")
        ```
    """

    def __init__(self, supervision: Supervision) -> None:
        """Made by `supervisor()` of a runtime, an agent or another supervisor."""
        self._supervision = supervision

    def __repr__(self) -> str:
        count = len(self._supervision.members)
        return f"<Supervisor {self.name!r}, {self.strategy}, {count} children>"

    @property
    def name(self) -> str:
        """Its name, for people and logs."""
        return self._supervision.name

    @property
    def strategy(self) -> Strategy:
        """Who is started again when a child crashes."""
        return self._supervision.strategy

    def spawn(
        self,
        session: AgentSession,
        agent_fn: Callable[[AgentT, Unpack[Ts]], Awaitable[object]],
        *args: *Ts,
        restart: Restart = "temporary",
        unattended: Unattended = "ask",
        name: str | None = None,
        budget: Budget | None = None,
    ) -> AgentHandle:
        """Start an agent as the last child, and return its handle at once.

        The handle, the session, the mailbox and the subscribers stay the same over all restarts;
        `wait()` returns after the last of them.

        Args:
            session: the conversation that it continues; it gets it back after a restart.
            agent_fn: an async function; a restart calls it again.
            *args: its other arguments, each time.
            restart: "temporary" is never started again, which is the default, because to run an
                agent twice costs money and effects; "transient" after a crash; "permanent" also
                after its function has returned. An agent that is shut down or killed stays ended.
            unattended: as in `AgentRuntime.spawn`; a subagent's requests go by its root's.
            name: for people and logs; by default the agent's type.
            budget: a bound for all of its lives together; a restart does not refill it.

        Raises:
            SupervisionError: the supervisor has ended, or is itself being restarted.
            SessionInUseError: an agent with this session is running.
            TypeError: `agent_fn` is not an async function, or `budget` not a `Budget`.
            ConfigurationError: `restart` is another word.
            RuntimeClosedError: the runtime has been left.
            AgentNotRunningError: the agent that owns the supervisor has returned.
            SessionError: under an agent: the session has another parent.
            TurnError: under an agent: it has as many subagents as the limit allows.
        """
        self._refuse(restart)
        supervision = self._supervision
        host = supervision.host
        if host.owner is None:
            handle = spawn_root(
                host.kernel,
                session,
                agent_fn,
                args,
                unattended=unattended,
                name=name,
                budget=budget,
            )
        else:
            handle = spawn_child(host.owner, session, agent_fn, args, name=name, budget=budget)
        member = SupervisedAgent(handle._actor, supervision, restart)
        handle._actor.member = member
        supervision.add(member)
        return handle

    def supervisor(
        self,
        strategy: Strategy = "one_for_one",
        *,
        restart: Restart = "permanent",
        intensity: int = 3,
        period: float = 5.0,
        backoff: Backoff | None = None,
        name: str = "supervisor",
    ) -> "Supervisor":
        """Make a supervisor as the last child: should it give up, this one may restart it.

        It then starts its children again that have not ended for good. The arguments are those of
        `AgentRuntime.supervisor`.

        Raises:
            SupervisionError: this supervisor has ended, or is itself being restarted.
            ConfigurationError: an argument makes no sense.
        """
        self._refuse(restart)
        parent = self._supervision
        below = make_supervisor(
            parent.host,
            strategy,
            intensity=intensity,
            period=period,
            backoff=backoff,
            name=name,
            parent=parent,
            restart=restart,
        )
        parent.add(below._supervision)
        return below

    def _refuse(self, restart: str) -> None:
        if restart not in get_args(Restart):
            raise ConfigurationError(
                f"restart={restart!r} is not one of 'permanent', 'transient', 'temporary'"
            )
        if not self._supervision.is_running:
            raise SupervisionError(
                f"the supervisor {self.name} takes no children: it has ended, or is being stopped"
            )

    @property
    def children(self) -> tuple[SupervisedChild, ...]:
        """The children that have not ended for good, in the order in which they were started."""
        return tuple(map(_describe_child, self._supervision.members))

    def statistics(self) -> SupervisorStatistics:
        """Return figures about its children and their restarts."""
        supervision = self._supervision
        return SupervisorStatistics(
            children=len(supervision.members),
            restarting=sum(child.state == "restarting" for child in self.children),
            restarts=supervision.restart_count,
            recent=supervision.window.count(trio.current_time()),
        )

    async def wait(self) -> SupervisorOutcome:
        """Wait until it has ended and all of its agents with it, and return how.

        It ends by `shutdown`, by giving up, or with the runtime or agent that it belongs to; never
        for lack of children.

        Raises:
            SelfWaitError: called from inside one of its agents.
            EventLoopError: called outside of the runtime's event loop.
        """
        self._refuse_wait("wait()")
        await self._supervision.ended.wait()
        outcome = self._supervision.outcome
        assert outcome is not None  # set in the same step as the event
        return outcome

    async def shutdown(self, grace: float = 5.0) -> SupervisorOutcome:
        """End its children for good, the last started first, and return how it ended.

        Each has `grace` seconds for the open turn before it is cancelled. A second call joins
        the first; a call that is cancelled does not call the shutdown off.

        Raises:
            SelfWaitError: called from inside one of its agents.
            EventLoopError: called outside of the runtime's event loop.
            ValueError: the grace is negative or not a number.
        """
        self._refuse_wait("shutdown()")
        check_grace(grace)
        self._supervision.close(grace)
        return await self.wait()

    def _refuse_wait(self, what: str) -> None:
        require_loop(self._supervision.host.kernel.token, what)
        caller = current_actor()
        while caller is not None:
            member = caller.member
            if isinstance(member, Member) and self._supervision in member.supervisors:
                raise SelfWaitError(
                    f"{what} of a supervisor would wait for the agent that calls it"
                )
            caller = caller.above


def make_supervisor(
    host: AgentHost,
    strategy: Strategy,
    *,
    intensity: int,
    period: float,
    backoff: Backoff | None,
    name: str,
    parent: Supervision | None = None,
    restart: Restart = "temporary",
) -> Supervisor:
    """Make a supervisor under its host, below another one if there is one."""
    if strategy not in get_args(Strategy):
        raise ConfigurationError(
            f"strategy={strategy!r} is not one of 'one_for_one', 'rest_for_one', 'one_for_all'"
        )
    if backoff is not None and not isinstance(backoff, Backoff):
        raise ConfigurationError(
            f"backoff={backoff!r} is not a Backoff", hint="write backoff=Backoff(first=0.1)"
        )
    supervision = Supervision(
        host,
        parent,
        name=name,
        restart=restart,
        strategy=strategy,
        window=RestartWindow(intensity, period),
        backoff=backoff or Backoff(),
    )
    if parent is None:
        host.add(supervision)
    return Supervisor(supervision)


class SupervisedAgent(Member):
    """Parks an agent's task between two of its lives."""

    def __init__(self, actor: Actor, parent: Supervision, restart: Restart) -> None:
        super().__init__(actor.name, restart, parent)
        self.actor = actor
        self._supervision = parent
        self._go = trio.Event()

    @property
    def path(self) -> str:
        """The names of the supervisors above it, the outermost first."""
        return "/".join(each.name for each in reversed(self.supervisors))

    @property
    def restarts(self) -> int:
        """How often it was started again."""
        return self.actor.restarts

    @property
    def crash(self) -> BaseException | None:
        """What crashed its life that is over, or None."""
        return self.actor.life.crash

    @property
    def is_finished(self) -> bool:
        """Whether its function has returned."""
        return self.actor.life.has_returned and self.actor.life.crash is None

    def _begin_stop(self) -> None:
        self.actor.life.cancel()

    def announce(self, delay: float, why: str) -> None:
        """Publish `Restarted`, after the `Error` of a crash."""
        actor = self.actor
        if self.crash is None:
            logger.warning("the agent %s starts again in %.3g s: %s", actor.path, delay, why)
        else:
            log_error(logger, f"the agent {actor.path} starts again in {delay:.3g} s", self.crash)
            actor.publish_crash()
        text = describe_error(self.crash) or why
        actor.publish(Restarted(actor.restarts + 1, text, delay))
        actor.set_state(AgentState.idle())
        actor.restart_note = _describe_restart(self.crash, why)

    def _live_again(self) -> None:
        self.actor.begin_life()
        self._go.set()

    def give_up(self, why: "SupervisionError") -> None:
        """End it for good, without waiting."""
        self.stopped_by = why
        self.actor.scope.cancel()

    async def end(self, grace: float) -> None:
        """Shut it down for good."""
        self.actor.begin_shutdown(trio.current_time() + grace)
        await self.actor.wait_end()

    def try_park(self) -> bool:
        """Park if another life may follow the one that is over; return whether one may."""
        self._go = trio.Event()
        if not self._supervision.on_life_end(self):
            return False
        self.park()
        return True

    async def wait_start(self) -> None:
        """Wait to be started again; the end of the agent cancels this."""
        await self._go.wait()

    def mark_gone(self) -> None:
        """Note that the agent has ended for good."""
        self.park()
        self._supervision.forget(self)


def _describe_restart(crash: BaseException | None, why: str) -> str:
    if crash is not None:
        return f"[The agent crashed: {describe_error(crash)}; it was started again]"
    return f"[The agent was started again{f': {why}' if why else ''}]"


def _describe_child(member: Member) -> SupervisedChild:
    state: Literal["running", "restarting"] = (
        "restarting" if member.is_parked or member.stopped_by else "running"
    )
    return SupervisedChild(
        name=member.name,
        restart=member.restart,
        restarts=member.restarts,
        state=state,
        session_id=member.actor.session_id if isinstance(member, SupervisedAgent) else "",
        supervisor=Supervisor(member) if isinstance(member, Supervision) else None,
    )
