"""One turn: from an input to the end of the agent's answer to it.

A turn is a cancel scope with a clean end. Whatever happens inside (an end, an error, an interrupt,
the end of the agent) it leaves a history in which every tool call is answered, saves it, and says
how it ended. In order: the scope closes; subagents that the turn spawned are gone, unless it
completed; open calls get their `ToolEnd`; the history is paired and saved; the state is idle;
`Done` is published; whoever waits for the turn wakes.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

import trio

from greenroom.core import (
    AgentState,
    ConversationInput,
    Done,
    GreenroomError,
    Message,
    StopReason,
    TurnError,
    TurnStart,
    TurnStatus,
    Usage,
)
from greenroom.runtime.failure import apart, describe, error_chunk, is_cancelled, leaves
from greenroom.runtime.outcome import TurnResult
from greenroom.runtime.turns.interruption import Interruption

if TYPE_CHECKING:
    from greenroom.runtime.actor import Actor
    from greenroom.runtime.budgets.budget import BudgetScope

__all__ = ["Turn"]


class Turn:
    """One turn of one agent; made when its input is taken, entered with `async with`."""

    def __init__(self, actor: "Actor", message: ConversationInput) -> None:
        """Made by the runtime when the agent takes the message."""
        self._actor = actor
        self._scope = trio.CancelScope()
        self._timer: BudgetScope | None = None
        self._is_used = False
        self._before: tuple[Message, ...] = ()
        self._failures: list[BaseException] = []
        self._done = Done(message.id, TurnStatus.FAILED)
        self.message = message
        self.inputs = [message.id]
        """The inputs that this turn answers: its own, and those that joined it."""
        self.steer = False
        """Whether input that arrives meanwhile joins the turn at its next step."""
        self.steps = 0
        """How many steps have begun."""
        self.usage = Usage()
        """Tokens of the turn's model calls."""
        self.interruption = Interruption(
            self._scope,
            running=lambda: actor.running(self),
            clip_cleanups=lambda deadline: actor.cleanups.clip(deadline, of_turn=self),
        )

    async def __aenter__(self) -> Self:
        actor = self._actor
        actor.refuse_if_ended()
        if actor.turns.current is not None:
            raise TurnError(
                "a turn is open already", hint="leave its `async with` block before the next one"
            )
        if self._is_used:
            raise TurnError("a turn is entered once", hint="open another one with `agent.turn`")
        self._before = actor.session.history
        # The one step that may fail comes first, and there is no checkpoint in here: a scope that
        # is entered must reach its exit.
        actor.session.add_message(Message.user(self.message.content))
        self._is_used = True
        actor.turns.open(self)
        actor.publish(TurnStart(self.message.id))
        actor.notify("before_turn", self.message)
        actor.set_state(AgentState.processing())
        self._timer = actor.budgets.first_to_end
        if self._timer is not None:
            self._scope.deadline = self._timer.budget.deadline
        self._scope.__enter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        left = self._close_scope(kind, error, trace)
        if left is None and self._timer is not None and self._is_out_of_time:
            left = self._timer.exceeded("seconds")
        status = self._status(left)
        self.interruption.body_is_over(is_completed=status is TurnStatus.COMPLETED)
        failure, further = apart(left)
        if failure is not None:
            self._failures.append(failure)
        try:
            broken = await self._end(status, left)
            further = further or broken
        finally:
            self.interruption.finish()
            self._actor.notify("after_turn", self._done)
        if further is None:
            return True
        if further is error:
            return False
        raise further

    @property
    def is_steerable(self) -> bool:
        """Whether input that arrives now joins this turn."""
        return self.steer and not self.interruption.is_ordered

    def take_steering(self) -> None:
        """Take what waits in the mailbox into the conversation, between two steps.

        Never between a call and its result: then it waits for the next boundary.
        """
        session = self._actor.session
        if not self.is_steerable or any(message.tool_uses for message in session.history[-1:]):
            return
        for message in self._actor.mailbox.take_all():
            self.inputs.append(message.id)
            session.add_message(Message.user(message.content))

    def _close_scope(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> BaseException | None:
        try:
            absorbed = self._scope.__exit__(kind, error, trace)
        except BaseException as rest:  # noqa: BLE001 (handed on by the caller)
            return rest
        return None if absorbed else error

    @property
    def _is_out_of_time(self) -> bool:
        """Whether it was the deadline that cancelled the body."""
        return self._scope.cancelled_caught and not self.interruption.took_effect

    def _status(self, left: BaseException | None) -> TurnStatus:
        if self.interruption.took_effect or is_cancelled(apart(left)[1]):
            return TurnStatus.INTERRUPTED
        return TurnStatus.COMPLETED if left is None else TurnStatus.FAILED

    async def _end(self, status: TurnStatus, left: BaseException | None) -> BaseException | None:
        """Clean up, save and publish; return what a broken store raised beside our own errors."""
        with trio.CancelScope(shield=True):
            refused = await self._settle(status)
            if refused is not None and status is TurnStatus.COMPLETED:
                status = TurnStatus.FAILED
                self.interruption.body_is_over(is_completed=False)
                await self._actor.children.end(of_turn=self)
        broken = refused if not isinstance(refused, GreenroomError) else None
        if refused is not None and broken is None:
            self._failures.append(refused)
        for failure in self._failures:
            self._actor.publish(error_chunk(failure))
        self._actor.set_state(AgentState.idle())
        self._publish_end(
            status, "; ".join(map(_words, self._failures)) or describe(broken or left)
        )
        return broken

    async def _settle(self, status: TurnStatus) -> Exception | None:
        actor = self._actor
        if status is not TurnStatus.COMPLETED:
            await actor.children.end(of_turn=self)
        told = actor.output.close_tools()
        self.interruption.repaired = actor.session.pair_tool_uses(told=told)
        try:
            await actor.flush()
        except Exception as refused:  # noqa: BLE001 (an error of ours ends the turn, others go on)
            return refused
        return None

    def _publish_end(self, status: TurnStatus, problem: str) -> None:
        new = _since(self._before, self._actor.session.history)
        last = next((message for message in reversed(new) if message.role == "assistant"), None)
        result = TurnResult(
            status=status,
            text=last.text if last else "",
            stop_reason=_stop_reason(last, status),
            usage=self.usage,
            error=problem if status is TurnStatus.FAILED or self._failures else "",
        )
        self._done = Done(self.message.id, status, result.stop_reason, result.usage, result.error)
        self._actor.publish(self._done)
        self._actor.turns.close(self, result)


def _since(before: Sequence[Message], now: Sequence[Message]) -> Sequence[Message]:
    """Return what was said since; a compaction or a rewind may have moved all of it meanwhile."""
    count = len(before)
    if count <= len(now) and (not count or now[count - 1] is before[-1]):
        return now[count:]
    known = {id(message) for message in before}
    return [message for message in now if id(message) not in known]


def _stop_reason(last: Message | None, status: TurnStatus) -> StopReason | None:
    """Say why the last reply ended; where it broke off with an error, the error says it."""
    if last is None:
        return None
    broke_off = status is TurnStatus.FAILED and last.stop_reason is StopReason.INTERRUPTED
    return None if broke_off else last.stop_reason


def _words(failure: BaseException) -> str:
    return "; ".join(map(str, leaves(failure)))
