"""The turns of an agent: the open one, those to come, and what waits for their ends.

`turn` has the theory of a single one.
"""

import logging
from collections.abc import Sequence

import trio

from greenroom.core import AgentState, Resume, TurnStatus
from greenroom.core._internal import ConversationInput
from greenroom.runtime.interruption import InterruptMode
from greenroom.runtime.mailbox import Mailbox
from greenroom.runtime.output_ring import Output
from greenroom.runtime.results import Answers, TurnResult
from greenroom.runtime.turn import Stage, Turn, TurnAgent, move

logger = logging.getLogger("greenroom.runtime")


class Turns:
    """The turns of an agent: the open one, those to come, and what waits for their ends."""

    __slots__ = (
        "_answers",
        "_has_warned",
        "_requeued",
        "_room",
        "_unopened",
        "agent",
        "count",
        "current",
        "last",
        "mailbox",
        "may_resume",
        "output",
    )

    def __init__(self, agent: TurnAgent, output: Output, room: int) -> None:
        """Start with none, and a mailbox with room for so many inputs."""
        self.agent = agent
        self.output = output
        self._room = room
        self.mailbox = Mailbox(room, self)
        """What was sent and not taken."""
        self.count = 0
        """How many have begun."""
        self.current: Turn | None = None
        """The open turn."""
        self.last: Turn | None = None
        """The one that ended last."""
        # The turns whose messages were taken and which are not entered yet, by the messages' ids.
        self._unopened: dict[str, Turn] = {}
        # Those whose messages were put back: an interrupt that was meant for one still is.
        self._requeued: dict[str, Turn] = {}
        self._has_warned = False  # of replies that no model call has counted
        self.may_resume = True
        """Whether this life has neither taken an input nor begun a turn."""
        self._answers: Answers | None = None

    @property
    def answers(self) -> Answers:
        """The results of the last turns, and who waits for that of an input."""
        if self._answers is None:
            self._answers = Answers()
        return self._answers

    def begin_wait(self) -> None:
        """Prepare to wait for input."""
        self.agent.check_loop("receive()")
        self._drop_answered()
        if self.current is None:
            self.agent.set_state(AgentState.idle())

    def resume(self) -> Resume | None:
        """Return what was left open before this life, if nothing else is its first input."""
        session, may_resume = self.agent.session, self.may_resume
        self.may_resume = False
        conversation = session.conversation
        calls = session.unstarted if may_resume and conversation.keep_open else ()
        is_asked = may_resume and bool(conversation.questions_of_turn)
        goes_on = is_asked or (may_resume and conversation.continues_cut_off)
        cut_off = session.cut_off if goes_on else None
        if calls or is_asked:
            self.agent.expect_questions()
        return Resume(calls, cut_off=cut_off or "") if calls or cut_off else None

    def take(self, message: ConversationInput, task: trio.lowlevel.Task) -> None:
        """Make the turn of a message that a task took; from now on an interrupt is meant for it.

        A message that is taken inside a turn is part of that turn.
        """
        self.may_resume = False
        waited = self.mailbox.end_wait(message)
        if self.current is not None and self.current.encloses(task):
            self.current.inputs.append(message.id)
            return
        if len(self._unopened) >= self._room:
            self._drop(next(iter(self._unopened.values())))
        again = self._requeued.pop(message.id, None)
        turn = self._unopened[message.id] = Turn(self, message) if again is None else again
        turn.take(task, waited)

    def make(self, message: ConversationInput, *, steer: bool, append: bool) -> Turn:
        """Return the turn that was made when this message was taken, else a new one."""
        taken = self._unopened.get(message.id)
        turn = Turn(self, message) if taken is None else taken
        turn.steer, turn.append, turn.shows_text = steer, append, append
        return turn

    def open(self, turn: Turn) -> None:
        """Open a turn that is entered."""
        self._unopened.pop(turn.message.id, None)
        self.may_resume = False
        self._drop_answered()
        self.mailbox.forget_interrupt()
        self.current = turn
        self.count += 1

    def close(self, turn: Turn, result: TurnResult) -> None:
        """Close a turn, and wake those who wait for its result."""
        self.current, self.last = None, turn
        turn.stage = move(turn.stage, Stage.CLOSED)
        self.agent.close_turn(result.status)
        self.answers.give(turn.inputs, result)

    def end_step(self) -> None:
        """End a step: an interrupt that waited for this takes effect."""
        if self.current is not None:
            self.current.interruption.reach_boundary()

    def begin_step(self) -> None:
        """Count a step of the open turn, and let input that waits join it."""
        if self.current is not None:
            self.current.steps += 1
            self.current.take_steering()

    def count_reply(self) -> None:
        """Count a model call that ended with a reply, or with a part of one."""
        if self.current is not None:
            self.current.replies += 1

    def is_in_turn(self) -> bool:
        """Whether the caller runs inside of the open turn."""
        return self.current is not None and self.current.encloses(trio.lowlevel.current_task())

    def _drop_answered(self) -> None:
        """Drop the messages that were taken before, unless another task may still open their turns.

        What another task took is not dropped: it may have passed that on, even if it has ended.
        """
        task = trio.lowlevel.current_task()
        is_alone = task is self.agent.main_task and not any(
            nursery.child_tasks for nursery in task.child_nurseries
        )
        for turn in tuple(self._unopened.values()):
            if is_alone and turn.taker is task:
                self._drop(turn)
            else:
                turn.hand_on()

    @property
    def unopened_inputs(self) -> tuple[ConversationInput, ...]:
        """The messages that were taken and have no open turn yet."""
        return tuple(turn.message for turn in self._unopened.values())

    @property
    def in_flight(self) -> Turn | None:
        """The turn that an interrupt is meant for: the open one, or the one about to begin."""
        about_to_begin = (turn for turn in self._unopened.values() if not turn.is_handed_on)
        return self.current or next(about_to_begin, None)

    def is_queued(self, input_id: str) -> bool:
        """Whether an input is on its way into the mailbox, or waits there."""
        return input_id in self.mailbox

    def find(self, input_id: str) -> Turn | None:
        """Return the turn that has taken an input, if it is open or yet to begin."""
        if self.current is not None and input_id in self.current.inputs:
            return self.current
        return self._unopened.get(input_id)

    def interrupt(self, mode: InterruptMode, grace: float) -> Turn | None:
        """Interrupt the turn in flight and return it; None without a turn to wait for.

        A message that is on its way between two tasks may never get a turn. If it does, that turn
        ends at once.
        """
        turn = self.in_flight
        if turn is not None:
            turn.interruption.order(mode, grace)
            return turn
        self.mailbox.interrupt()
        for handed_on in tuple(self._unopened.values())[:1]:
            handed_on.interruption.order(mode, grace)
        return None

    def withdraw(self, input_ids: Sequence[str]) -> None:
        """Answer those who wait for the turns of inputs that were taken back."""
        result = TurnResult(TurnStatus.INTERRUPTED, error="the input was withdrawn")
        self.answers.give(input_ids, result)

    async def abandon(self) -> None:
        """Close a turn that the agent's function never left."""
        if self.current is not None:
            await self.current.abandon()

    def drop_unopened(self) -> None:
        """Drop the messages that were taken and answered without a turn."""
        if self._unopened:
            for turn in tuple(self._unopened.values()):
                self._drop(turn)

    def put_back(self) -> None:
        """Return messages that a broken function took and did not begin to the mailbox.

        They are not in the history yet, and would be lost.
        """
        for turn in reversed(self._unopened.values()):
            turn.put_back()
            self.mailbox.put_back(turn.message)
        self._requeued, self._unopened = self._unopened, {}

    def end(self) -> None:
        """Wake those who still wait: no turn follows."""
        for turn in self._requeued.values():
            turn.drop()
        if self._answers is not None:
            self._answers.end()

    def _drop(self, turn: Turn) -> None:
        del self._unopened[turn.message.id]
        turn.drop()
        self.answers.drop(turn.message.id)

    def compare_replies(self, added: int, counted: int) -> None:
        """Warn once where replies were added that no model call has counted."""
        if added > counted and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "%s added %d replies, of which %d came out of `agent.model_call`: budgets, usage"
                " and instruments know nothing of the others",
                self.agent,
                added,
                counted,
            )
