"""The turns of one agent: which is open, which input each takes, and who waits for it."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from greenroom.core import (
    AgentState,
    ConversationInput,
    Resume,
    TurnStatus,
)
from greenroom.runtime.caller import require_loop
from greenroom.runtime.outcome import TurnResult
from greenroom.runtime.turns.interruption import InterruptMode
from greenroom.runtime.turns.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from greenroom.runtime.actor import Actor

logger = logging.getLogger("greenroom.runtime")


class Turns:
    """Which turn is open, which ones are to come, and what waits for the end of each.

    An input that was taken is about to get a turn, and an interrupt counts for it already. Which
    task opens that turn is for the agent to decide: it may be another one than took the input, and
    meanwhile the first may take the next. So turns and inputs belong together by the input's id.
    """

    def __init__(self, actor: "Actor") -> None:
        """Start with none."""
        self._actor = actor
        self.count = 0
        """How many have begun."""
        self.current: Turn | None = None
        """The open turn."""
        self.last: Turn | None = None
        """The one that ended last."""
        # The turns whose messages were taken and which are not entered yet, by the messages' ids.
        self._taken: dict[str, Turn] = {}
        # Those whose messages were put back: an interrupt that was meant for one still is.
        self._put_back: dict[str, Turn] = {}
        self._said_uncounted = False
        self.may_resume = True
        """Whether this life has neither taken an input nor begun a turn."""
        self.waiting: dict[str, Callable[[TurnResult | None], None]] = {}
        """What to call at the end of the turn that takes an input, by the input's id."""

    # -- the agent's side -----------------------------------------------------------------------

    def await_input(self) -> None:
        """The agent is about to wait for input."""
        require_loop(self._actor.runtime, "receive()")
        self._let_go()
        if self.current is None:
            self._actor.set_state(AgentState.idle())

    def resume(self) -> Resume | None:
        """Return what was left open before this life, where nothing else is its first input."""
        session = self._actor.session
        calls = session.unstarted if self.may_resume and session.keep_open else ()
        self.may_resume = False
        if not calls:
            return None
        self._actor.approvals.expect(session.open_questions)
        return Resume(calls)

    def take(self, message: ConversationInput, task: trio.lowlevel.Task) -> None:
        """A task of the agent has taken a message: from now on an interrupt is meant for its turn.

        One that is taken inside of a turn is part of that turn.
        """
        self.may_resume = False
        if self.current is not None and self.current.encloses(task):
            self.current.inputs.append(message.id)
            return
        if len(self._taken) >= self._actor.limits.mailbox:
            self._drop(next(iter(self._taken.values())))
        again = self._put_back.pop(message.id, None)
        turn = self._taken[message.id] = Turn(self._actor, message) if again is None else again
        turn.taker = task

    def make(self, message: ConversationInput, *, steer: bool, append: bool) -> Turn:
        """Return the turn of this message: the one that was taken, else a new one."""
        taken = self._taken.get(message.id)
        turn = Turn(self._actor, message) if taken is None else taken
        turn.steer, turn.append = steer, append
        return turn

    def open(self, turn: Turn) -> None:
        """A turn is entered."""
        self._taken.pop(turn.message.id, None)
        self.may_resume = False
        self._let_go()
        self._actor.mailbox.forget_interrupt()
        self.current = turn
        self.count += 1
        self._actor.context.current_turn = self.count

    def close(self, turn: Turn, result: TurnResult) -> None:
        """A turn has ended: wake what waits for its result."""
        actor = self._actor
        self.current, self.last = None, turn
        actor.output.partial.clear()
        actor.approvals.expect(())
        actor.children.turn_ended(result.status)
        for tool_use_id in actor.client_results.drop():
            logger.warning(
                "%s: a result came for the call %s, for which nobody waited",
                actor.signature,
                tool_use_id,
            )
        self._wake(turn.inputs, result)

    def is_in_turn(self) -> bool:
        """Whether the caller runs inside of the open turn."""
        return self.current is not None and self.current.encloses(trio.lowlevel.current_task())

    def _let_go(self) -> None:
        """What was taken before is answered, unless another task may still open its turn.

        Nor is what another task has taken, though it may have ended since: it has passed that on.
        """
        task = trio.lowlevel.current_task()
        is_alone = task is self._actor.task and not any(
            nursery.child_tasks for nursery in task.child_nurseries
        )
        for turn in tuple(self._taken.values()):
            if is_alone and turn.taker is task:
                self._drop(turn)
            else:
                turn.is_handed_on = True

    # -- the outside ----------------------------------------------------------------------------

    @property
    def taken(self) -> tuple[ConversationInput, ...]:
        """The messages that were taken, and have no turn yet."""
        return tuple(turn.message for turn in self._taken.values())

    @property
    def in_flight(self) -> Turn | None:
        """The turn that an interrupt is meant for: the open one, or the one about to begin."""
        about_to_begin = (turn for turn in self._taken.values() if not turn.is_handed_on)
        return self.current or next(about_to_begin, None)

    def find(self, input_id: str) -> Turn | None:
        """Return the turn that has taken an input, if it is open or yet to begin."""
        if self.current is not None and input_id in self.current.inputs:
            return self.current
        return self._taken.get(input_id)

    def interrupt(self, mode: InterruptMode, grace: float) -> Turn | None:
        """Interrupt the turn in flight and return it; None where there is none to wait for.

        For a message that may be on its way between two tasks, it is not known whether a turn of
        it will begin. Should it, it ends at once.
        """
        turn = self.in_flight
        if turn is not None:
            turn.interruption.order(mode, grace)
            return turn
        self._actor.mailbox.interrupt()
        for handed_on in tuple(self._taken.values())[:1]:
            handed_on.interruption.order(mode, grace)
        return None

    def withdraw(self, input_ids: Sequence[str]) -> None:
        """Inputs were taken back before a turn took them: answer what waits for that turn."""
        self._wake(input_ids, TurnResult(TurnStatus.INTERRUPTED, error="the input was withdrawn"))

    # -- the end of a life ----------------------------------------------------------------------

    async def abandon(self) -> None:
        """The function has ended: close a turn that it never left."""
        if self.current is not None:
            await self.current.abandon()

    def drop_taken(self) -> None:
        """Forget what was taken and answered without a turn."""
        for turn in tuple(self._taken.values()):
            self._drop(turn)

    def put_back(self) -> None:
        """The agent's function broke off: messages that it took and did not begin wait again.

        They are not in the history yet, and would be lost.
        """
        for turn in reversed(self._taken.values()):
            # An interrupt that waits for a boundary finds none in what is over.
            turn.interruption.at_boundary()
            turn.is_handed_on = False
            self._actor.mailbox.put_back(turn.message)
        self._put_back, self._taken = self._taken, {}

    def end(self) -> None:
        """No turn follows: wake what still waits for one."""
        for turn in self._put_back.values():
            turn.interruption.finish()
        for wake in tuple(self.waiting.values()):
            wake(None)
        self.waiting.clear()

    def _drop(self, turn: Turn) -> None:
        del self._taken[turn.message.id]
        turn.interruption.drop()
        self._wake(turn.inputs, None)

    def compare_replies(self, added: int, counted: int) -> None:
        """Say once where replies were added that no model call has counted."""
        if added > counted and not self._said_uncounted:
            self._said_uncounted = True
            logger.warning(
                "%s added %d replies, of which %d came out of `agent.model_call`: budgets, usage and"
                " instruments know nothing of the others",
                self._actor.signature,
                added,
                counted,
            )

    def _wake(self, input_ids: Sequence[str], result: TurnResult | None) -> None:
        for input_id in input_ids:
            wake = self.waiting.pop(input_id, None)
            if wake is not None:
                wake(result)
