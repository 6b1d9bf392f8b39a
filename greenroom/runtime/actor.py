"""One agent as the runtime sees it; the handle and the internals are its two faces."""

import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal, TypeAlias

import trio

from greenroom.core import (
    AgentContext,
    AgentState,
    OutputChunk,
    SelfWaitError,
    StateChange,
    SubAgentOutput,
    SubAgentResult,
    TextComplete,
    TextDelta,
    TurnError,
    TurnStart,
    Usage,
    UsageReport,
    UserInput,
    Workspace,
)
from greenroom.resilience import Budget
from greenroom.runtime.approvals import Approvals
from greenroom.runtime.client_results import ClientResults
from greenroom.runtime.mailbox import Mailbox
from greenroom.runtime.outcome import Outcome, TurnResult
from greenroom.runtime.partial import PartialText
from greenroom.runtime.ring import OutputRing
from greenroom.runtime.turn import InterruptMode, Turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.runtime.cleanup import CleanupScope
    from greenroom.runtime.limits import RuntimeLimits
    from greenroom.runtime.runtime import AgentRuntime
    from greenroom.runtime.subscription import Subscription
    from greenroom.session import AgentSession

__all__ = ["Actor", "Unattended", "current_actor"]

Unattended: TypeAlias = Literal["ask", "deny"]
"""What happens to a permission request while nobody can answer it: it waits, or is denied."""

logger = logging.getLogger("greenroom.runtime")

current_actor: ContextVar["Actor | None"] = ContextVar("greenroom_actor", default=None)
"""The agent in whose task tree the code runs, or None outside of any."""


class Actor:
    """The state of one agent. Only its own tasks and the trio thread touch it."""

    def __init__(
        self,
        runtime: "AgentRuntime",
        session: "AgentSession",
        *,
        parent: "Actor | None",
        name: str | None,
        unattended: Unattended,
        workspace: Workspace,
    ) -> None:
        """Made by the runtime's `spawn`, or by an agent's."""
        limits = runtime.limits
        self.runtime = runtime
        self.limits: RuntimeLimits = limits
        self.session = session
        self.parent = parent
        self.name = name or session.agent_type
        self.unattended = unattended
        self.epoch = 1
        self.mailbox = Mailbox(limits.mailbox)
        self.ring = OutputRing(limits.ring_chunks, limits.ring_bytes)
        self.approvals = Approvals(self, limits.pending)
        self.client_results = ClientResults(limits.pending)
        self.partial = PartialText(limits.partial_text)
        self.subscriptions: set[Subscription] = set()
        self.state = AgentState.idle()
        self.usage = Usage()
        self.turns = 0
        self.turn: Turn | None = None
        # The turn whose message was taken but which is not entered yet: an interrupt counts for it.
        self.taken: Turn | None = None
        # The turn of the parent in which this agent was spawned: it is cancelled with that turn.
        self.spawn_turn = parent.turn if parent else None
        self.children: dict[str, Actor] = {}
        self.waiting_for_turn: dict[str, Callable[[TurnResult | None], None]] = {}
        self.budgets: list[Budget] = []
        self.cleanups: set[CleanupScope] = set()
        self.abandoned: list[str] = []
        self.scope = trio.CancelScope()
        self.nursery: trio.Nursery | None = None
        self.opened = False
        self.killed = False
        self.returned = False
        self.ended = trio.Event()
        self.outcome: Outcome | None = None
        self.context = self._make_context(workspace)

    def _make_context(self, workspace: Workspace) -> AgentContext:
        from greenroom.runtime.cleanup import CleanupScope

        session = self.session
        return AgentContext(
            session_id=session.session_id,
            agent_type=session.agent_type,
            name=self.name,
            parent_session_id=session.parent_session_id,
            parent_tool_use_id=session.parent_tool_use_id,
            workspace=workspace,
            on_cleanup=lambda grace: CleanupScope(self, grace),
            on_abandon=self.abandon,
        )

    # -- lineage --------------------------------------------------------------------------------

    def ancestors(self) -> list["Actor"]:
        """Return the agents above this one, its parent first."""
        line: list[Actor] = []
        actor = self.parent
        while actor is not None:
            line.append(actor)
            actor = actor.parent
        return line

    def lineage(self) -> tuple[str, ...]:
        """Return the names from the root down to this agent."""
        return tuple(actor.name for actor in reversed([self, *self.ancestors()]))

    def refuse_self_wait(self, what: str) -> None:
        """Raise `SelfWaitError` where the caller is part of what it would wait for."""
        caller = current_actor.get()
        if caller is not None and (caller is self or self in caller.ancestors()):
            raise SelfWaitError(
                f"{what} would wait for the agent that calls it",
                hint="use interrupt_nowait() or kill(), or call it from outside of the agent",
            )

    # -- output ---------------------------------------------------------------------------------

    def publish(self, chunk: OutputChunk) -> None:
        """Put a chunk into the ring, and wrapped into the rings of the agents above."""
        match chunk:
            case TextDelta():
                self.partial.add(chunk.text)
            case TextComplete():
                self.partial.clear()
            case TurnStart():
                self.ring.turn = self.ring.next
            case UsageReport():
                chunk = self._count(chunk)
            case _:
                pass
        if self.turn is not None:
            self.turn.note(chunk)
        self.ring.publish(chunk)
        if self.parent is not None:
            self.parent.publish(SubAgentOutput(self.session.session_id, chunk))

    def _count(self, report: UsageReport) -> UsageReport:
        self.usage += report.usage
        for budget in self.active_budgets():
            budget.count(tokens=report.usage.total)
        return UsageReport(report.usage, self.usage, report.model)

    def set_state(self, state: AgentState) -> None:
        """Move to a state and publish it; staying in the same one publishes nothing."""
        if state == self.state:
            return
        if not self.state.may_become(state):
            raise TurnError(f"an agent can't go from {self.state} to {state}")
        self.state = state
        self.publish(StateChange(state))

    # -- turns ----------------------------------------------------------------------------------

    def take(self, message: UserInput | SubAgentResult) -> None:
        """Remember a message that was taken: from now on an interrupt is meant for its turn."""
        self.drop_taken()
        if self.turn is None:
            self.taken = Turn(self, message)

    def drop_taken(self) -> None:
        """Forget a message that was taken and answered without a turn."""
        if self.taken is not None:
            self.taken.abandon()
            self.taken = None

    def make_turn(self, message: UserInput | SubAgentResult) -> Turn:
        """Return the turn of this message: the one that was taken, else a new one."""
        if self.taken is not None and self.taken.message is message:
            return self.taken
        return Turn(self, message)

    def open_turn(self, turn: Turn) -> None:
        """A turn is entered."""
        if self.taken is not turn:
            self.drop_taken()
        self.taken = None
        self.turn = turn
        self.turns += 1
        self.context.current_turn = self.turns

    def close_turn(self, turn: Turn, result: TurnResult) -> None:
        """A turn has ended: forget it, and wake who waits for its result."""
        self.turn = None
        self.partial.clear()
        for tool_use_id in self.client_results.drop():
            logger.warning(
                "%s: a result came for the call %s, for which nobody waited",
                self.session.session_id,
                tool_use_id,
            )
        wake = self.waiting_for_turn.pop(turn.message.id, None)
        if wake is not None:
            wake(result)

    def interrupt(self, mode: InterruptMode, grace: float) -> Turn | None:
        """Interrupt the turn in flight and return it; None where there is none."""
        turn = self.turn or self.taken
        if turn is None:
            self.mailbox.interrupt()
        else:
            turn.interrupt(mode, grace)
        return turn

    # -- clean-up -------------------------------------------------------------------------------

    @property
    def cleanup_deadline(self) -> float:
        """Until when clean-up may run here: nobody above may be kept waiting longer."""
        own = self.turn.cleanup_deadline if self.turn else float("inf")
        if self.killed:
            own = trio.current_time()
        return min(own, self.parent.cleanup_deadline) if self.parent else own

    def clip_cleanups(self, deadline: float) -> None:
        """Shorten the clean-ups that run here and below."""
        for scope in self.cleanups:
            scope.clip(deadline)
        for child in self.children.values():
            child.clip_cleanups(deadline)

    def note_cleaned(self, what: str) -> None:
        """A clean-up ran to its end: tell the turns that an interrupt is ending."""
        for actor in (self, *self.ancestors()):
            if actor.turn is not None:
                actor.turn.note_cleaned(what)

    def abandon(self, what: str) -> None:
        """Something of this agent could not be stopped."""
        self.abandoned.append(what)
        if self.turn is not None:
            self.turn.abandoned.append(what)

    def active_budgets(self) -> list[Budget]:
        """Return the budgets that count for this agent: its own and those of the agents above."""
        return [budget for actor in (self, *self.ancestors()) for budget in actor.budgets]

    # -- the end --------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Save the session; the write itself is never cut short by a cancel."""
        with trio.CancelScope(shield=True):
            await self.session.save()

    def kill(self) -> None:
        """Cancel everything now; clean-up gets no time."""
        self.killed = True
        self.clip_cleanups(trio.current_time())
        self.scope.cancel()

    async def end_children(self, of_turn: Turn | None = None) -> None:
        """Cancel the subagents, or only those of one turn, and wait until they are gone."""
        for child in self.live_children(of_turn):
            child.scope.cancel()
        for child in self.live_children(of_turn):
            await child.ended.wait()

    def live_children(self, of_turn: Turn | None = None) -> list["Actor"]:
        """Return the subagents that are alive, or only those of one turn."""
        return [
            child
            for child in self.children.values()
            if of_turn is None or child.spawn_turn is of_turn
        ]

    async def shut_down(self, grace: float) -> None:
        """Take no more input, let the turn finish within the grace, then cancel; wait for the end."""
        self.begin_shutdown()
        with trio.move_on_after(grace):
            await self.ended.wait()
        self.scope.cancel()
        await self.ended.wait()

    def begin_shutdown(self) -> None:
        """Take no more input; whoever waits for a person's answer is denied."""
        self.mailbox.close()
        self.approvals.deny_all("the agent is shutting down", by="shutdown")
