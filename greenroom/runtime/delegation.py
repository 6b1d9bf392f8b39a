"""What an agent does with agents of its own."""

from typing import TYPE_CHECKING, TypeVarTuple, Unpack

from greenroom.runtime.supervision.monitor import monitor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from greenroom.resilience import Backoff, Budget
    from greenroom.runtime.actor import Actor
    from greenroom.runtime.handle import AgentHandle
    from greenroom.runtime.internals import AgentInternals
    from greenroom.runtime.spawning import Scope
    from greenroom.runtime.supervision.member import Strategy
    from greenroom.runtime.supervision.monitor import Monitor
    from greenroom.runtime.supervision.supervisor import Supervisor
    from greenroom.session import AgentSession

Ts = TypeVarTuple("Ts")


class Delegation:
    """The part of `AgentInternals` that starts other agents."""

    def __init__(self, actor: "Actor") -> None:
        """Made by the runtime."""
        self._actor = actor

    @property
    def subagent_room(self) -> int:
        """How many subagents it can spawn now, beside those that are alive or untaken."""
        return max(0, self._actor.limits.subagents - self._actor.children.unsettled)

    def spawn(
        self,
        session: "AgentSession",
        agent_fn: "Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]]",
        *args: *Ts,
        detached: bool = False,
        scope: "Scope" = "turn",
        report: bool = True,
        name: str | None = None,
        budget: "Budget | None" = None,
    ) -> "AgentHandle":
        """Start a subagent and return its handle at once.

        It lives in this agent's task tree, and ends with it at the latest. Its chunks show in this
        agent's output as `SubAgentOutput`; its permission requests can be answered here.

        Args:
            session: the conversation that it continues.
            agent_fn: an async function; its first argument is the agent's `AgentInternals`.
            *args: what else it is given.
            detached: whether it belongs to the runtime alone, and to no budget of this agent.
            scope: "turn" cancels it when the turn that is open now is interrupted or fails; after a
                turn that completes it goes on. With "agent" no turn ends it.
            report: whether its end arrives here as a `SubAgentResult`, unless this agent has
                learned it through the handle: by `wait` or `shutdown`, or by `ask`, where it then
                completes and has said no more.
            name: for people and logs; by default the agent's type.
            budget: what it and all below it may use, beside the budgets that are open here.

        Raises:
            SessionInUseError: the session has an agent already.
            SessionError: the session has another parent, or is stored as a root already.
            TurnError: as many subagents as the limit allows are alive, or have untaken results.
            AgentNotRunningError: this agent's function has returned.
            RuntimeClosedError: the runtime has been left.
            ConfigurationError: `scope` is another word.
            EventLoopError: called from another thread.
            TypeError: `agent_fn` is not an async function, or `budget` not a `Budget`.
        """
        return self._actor.runtime._spawn_child(
            self._actor,
            session,
            agent_fn,
            args,
            detached=detached,
            scope=scope,
            report=report,
            name=name,
            budget=budget,
        )

    def supervisor(
        self,
        strategy: "Strategy" = "one_for_one",
        *,
        intensity: int = 3,
        period: float = 5.0,
        backoff: "Backoff | None" = None,
        name: str = "supervisor",
    ) -> "Supervisor":
        """Make a supervisor whose children are subagents of this agent.

        Should it give up, this agent crashes with its `SupervisionError`. It ends with this run of
        the agent's function. The arguments are those of `AgentRuntime.supervisor`.

        Raises:
            AgentNotRunningError: this agent's function has returned.
            RuntimeClosedError: the runtime has been left.
            ConfigurationError: an argument is none.
        """
        return self._actor.runtime._make_supervisor(
            self._actor,
            strategy,
            intensity=intensity,
            period=period,
            backoff=backoff,
            name=name,
        )

    def monitor(self, handle: "AgentHandle") -> "Monitor":
        """Ask to be told when another agent has ended for good: one `AgentExit` comes as input.

        It comes at once where that agent has ended already, and always finds room. Neither agent
        ends with the other. The monitor ends with this run of the agent's function.

        Raises:
            SelfWaitError: it is this agent's own handle.
            MailboxFullError: it monitors as many agents as the limit allows.
            AgentNotRunningError: this agent's function has returned.
        """
        return monitor(self._actor, handle._actor)
