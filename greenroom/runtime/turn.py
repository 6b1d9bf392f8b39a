"""Turns: from an input to the end of the agent's answer to it.

A turn is in one of these states; its input's id ties it to the tasks that wait for its end:

    queued ──taken──▶ taken ──entered──▶ open ──left──▶ ending ──▶ closed
                        └──dropped (answered without a turn), or put back (the life broke off)

*Queued* inputs are in the mailbox. *Taken*: a task has the input and is about to open a turn, and
an interrupt is already meant for that turn. The agent decides which task opens it; the task that
took the input may take another one meanwhile (`is_handed_on`). At most one turn is *open*. Entering
it has no checkpoint: the one step that may fail comes first, since an entered scope must be left.

A cancel may fall anywhere into the body, and nowhere else. However the body is left (an end, an
error, an interrupt, the end of the agent), *ending* is shielded and takes these steps in order: end
the turn's subagents, unless it completed; publish a `ToolEnd` for each open call; give every call
in the history a result, and save it within `flush_grace`; set the state to idle; publish `Done`;
wake those who wait for the turn. Only a suspended turn leaves calls unanswered: those not started.

One of our typed errors fails the turn and goes no further; a cancel and any other error go on, to
the function and beyond. `abandon` closes a turn that was entered by hand and never left, at the end
of the life. A crash of the process leaves the last save, and loading it answers open calls.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Protocol, Self

import trio
from msgspec import UNSET

from greenroom.core import (
    AgentState,
    Done,
    Message,
    Resume,
    TurnError,
    TurnStatus,
    Usage,
)
from greenroom.core._internal import (
    MAX_ERROR_TEXT,
    ConversationInput,
    Hook,
    clip,
    describe_error,
    freeze,
    serde,
    type_name,
)
from greenroom.runtime.answers import Answers, describe_end, describe_reply
from greenroom.runtime.background import note_taken
from greenroom.runtime.budgets import BudgetScope
from greenroom.runtime.interruption import Interruption, InterruptMode
from greenroom.runtime.mailbox import Mailbox, as_message, begin_chunk, join_chunk
from greenroom.runtime.output_ring import Output
from greenroom.runtime.results import TurnResult
from greenroom.runtime.tasks import (
    error_chunk,
    is_cancelled,
    is_typed,
    leave_scope,
    messages_of,
    must_propagate,
    runs_below,
    split_failure,
)
from greenroom.session import AgentSession
from greenroom.session._internal import WENT_ON

logger = logging.getLogger("greenroom.runtime")


class _Agent(Protocol):
    """What a turn needs of its agent."""

    @property
    def session(self) -> AgentSession: ...
    @property
    def is_root(self) -> bool: ...
    @property
    def main_task(self) -> trio.lowlevel.Task | None: ...
    def check_loop(self, what: str) -> None: ...
    def refuse_if_ended(self) -> None: ...
    def notify(self, hook: Hook, *details: object) -> None: ...
    def set_state(self, state: AgentState) -> None: ...
    def expect_questions(self) -> None: ...
    def list_running(self, turn: "Turn") -> tuple[str, ...]: ...
    def clip_cleanups(self, deadline: float, turn: "Turn") -> None: ...
    async def end_subagents(self, turn: "Turn") -> None: ...
    async def flush(self) -> None: ...
    def begin_turn(self) -> BudgetScope | None: ...
    def close_turn(self, status: TurnStatus) -> None: ...


class Turn:
    """One turn of an agent, made when its input is taken; enter it with `async with`."""

    _timer: BudgetScope | None = None
    _is_cut_off = False  # by `suspend_now`

    def __init__(self, turns: "Turns", message: ConversationInput) -> None:
        """Made by the runtime when the agent takes the message."""
        self._turns = turns
        self._agent = agent = turns.agent
        self._scope = trio.CancelScope()
        self._before: tuple[Message, ...] = ()
        self._failures: list[BaseException] = []
        self._done = Done(message.id, TurnStatus.FAILED)
        self._is_open = False  # entered and not left
        self._value: object = UNSET
        self._reply: TurnResult | None = None  # of another agent
        # The task that entered it, and how many nurseries it had open then.
        self._task: trio.lowlevel.Task | None = None
        self._depth = 0
        self.message = message
        self.inputs = [message.id]
        """The inputs that this turn answers: its own, and those that joined it."""
        self.waited = 0.0
        """Seconds that its message waited in the mailbox."""
        self.taker: trio.lowlevel.Task | None = None
        """The task that took the message; None if the turn was made without one."""
        self.is_handed_on = False
        """Whether the task that took the message may have passed it to another one."""
        self.is_suspended = False
        """Whether calls stay open that have not started when it is left."""
        self.steer = False
        """Whether input that arrives meanwhile joins the turn at its next step."""
        self.joining = set[str]()  # the ids of inputs that join it all the same
        self.append = True
        """Whether entering appends its message to the history; if not, the body does."""
        self.shows_text = True  # whether its first chunk has the message's text
        self.steps = 0
        """How many steps have begun."""
        self.replies = 0
        """How many model calls had a reply."""
        self.usage = Usage()
        """Tokens of the turn's model calls."""
        self.interruption = Interruption(
            self._scope,
            list_running=lambda: agent.list_running(self),
            clip_cleanups=lambda deadline: agent.clip_cleanups(deadline, self),
        )

    async def __aenter__(self) -> Self:
        agent = self._agent
        agent.check_loop("a turn")
        agent.refuse_if_ended()
        if self._turns.current is not None:
            raise TurnError(
                "a turn is open already", hint="leave its `async with` block before the next one"
            )
        if self._task is not None:
            raise TurnError("a turn is entered once", hint="open another one with `agent.turn`")
        self._before = agent.session.history
        # The one step that may fail comes first; there is no checkpoint in here.
        self._begin_conversation()
        self._task = trio.lowlevel.current_task()
        self._depth = len(self._task.child_nurseries)
        self._turns.open(self)
        self._timer = agent.begin_turn()
        self._turns.output.publish(
            begin_chunk(self.message, self.waited, shows_text=self.shows_text)
        )
        agent.notify("before_turn", self.message)
        agent.set_state(AgentState.processing())
        if self._timer is not None:
            self._scope.deadline = self._timer.budget.deadline
        self._scope.__enter__()
        self._is_open = True
        return self

    def _begin_conversation(self) -> None:
        """Go on with the calls that were left open, or answer them and append the message."""
        session, message = self._agent.session, self.message
        if not isinstance(message, Resume):
            session.conversation.pair_tool_uses(WENT_ON)
            if self.append:
                session.add_message(as_message(message))
            note_taken(session, message)
            session.conversation.begin_turn(message.id)
        elif not {call.id for call in message.calls} <= {call.id for call in session.unstarted}:
            raise TurnError(
                "these calls are no longer open", hint="a Resume gets one turn, the first"
            )
        elif session.cut_off is not None:
            self.inputs.append(session.cut_off)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if self._turns.current is not self:
            return self._scope.__exit__(kind, error, trace)  # it was abandoned, and is over
        self._is_open = False
        left = leave_scope(self._scope, error)  # what is raised, its own cancel apart
        was_ended = self._is_cut_off or self.interruption.took_effect
        if left is None and self._scope.cancelled_caught and not was_ended and self._timer:
            left = self._timer.make_error("seconds")
        status = self._find_status(left)
        self.interruption.end_body(is_completed=status is TurnStatus.COMPLETED)
        failure, further = split_failure(left)
        if failure is not None:
            self._failures.append(failure)
        broken = await self._end(status, left)
        further = broken if further is None else further
        if further is None:
            return True
        if further is error:
            return False
        raise further

    async def abandon(self) -> None:
        """Close a turn that was entered by hand, or by a task that was lost, and never left."""
        self._is_open = False
        self._failures.append(
            TurnError(
                "the agent's function ended inside of this turn",
                hint="open it with `async with agent.turn(message):`",
            )
        )
        self.interruption.end_body(is_completed=False)
        await self._end(TurnStatus.FAILED, None)

    def suspend(self) -> None:
        """Leave calls open that have not started, when the block is left: the answer comes later.

        Questions that the block itself has asked stay open as well.

        The turn ends with `Done(status="waiting")`, and the files are as after a kill at the
        question. The next agent, if its session is loaded with `keep_open`, begins with a `Resume`;
        in this one the next input answers the calls as not run. Suspend before you cancel the task
        that asks. Subagents of the turn end with it. Without an open call the turn completes.

        Raises:
            TurnError: the turn is not open, or is a subagent's: the readers of its root are asked.
            EventLoopError: called from another thread.
        """
        self._check_open("suspend")
        if not self._agent.is_root:
            hint = "its questions go to the readers of its root"
            raise TurnError("a subagent's turn can't be suspended", hint=hint)
        self.is_suspended = True

    def suspend_now(self) -> None:
        """Suspend it, and end its body at once; raises the errors of `suspend`."""
        self.suspend()
        self._is_cut_off = True
        self._scope.cancel()

    def _check_open(self, method: str) -> None:
        self._agent.check_loop(f"{method}()")
        if not self._is_open:
            raise TurnError(
                f"{method} was called for a turn that is not open",
                hint=f"call turn.{method} inside of `async with agent.turn(message) as turn:`",
            )

    def set_result(self, value: object) -> None:
        """Set the turn's result for programs: a JSON value, which is copied; the last one counts.

        When the turn completes, the value is in `TurnResult.value` and `Done.value`, and after the
        last turn of a subagent in `SubAgentResult.value`. Without this call, and for a turn that is
        interrupted or fails, it is `msgspec.UNSET`, which is not None.

        Raises:
            TurnError: the turn is not open.
            InvalidJSONError: it is not a JSON value; what was set before still counts.
            EventLoopError: called from another thread.
        """
        self._check_open("set_result")
        self._value = freeze(serde.plain(value, "the result of a turn"))

    def set_reply(self, result: TurnResult) -> None:
        """Set the text, stop reason and usage of a turn that adds no reply to the history.

        So they are the turn's where another agent has answered. If the turn adds a reply of its
        own, that counts. The status, the error and the value are not taken over.

        Raises:
            TurnError: the turn is not open.
            EventLoopError: called from another thread.
        """
        self._check_open("set_reply")
        self._reply = result

    @property
    def value(self) -> object:
        """Its result; `msgspec.UNSET` without one."""
        return self._value

    @property
    def is_cancelled(self) -> bool:
        """Whether its body was cancelled: by an interrupt, or at a budget's deadline."""
        return self._scope.cancel_called

    def encloses(self, task: trio.lowlevel.Task) -> bool:
        """Whether a task runs inside the turn's block, so the block waits for it."""
        return self._task is not None and runs_below(task, self._task, self._depth)

    @property
    def is_steerable(self) -> bool:
        """Whether input that arrives now joins this turn."""
        return self.steer and not self.interruption.is_ordered

    def take_steering(self) -> None:
        """Take what waits in the mailbox, but never between a call and its result."""
        session, mailbox = self._agent.session, self._turns.mailbox
        if self.interruption.is_ordered or any(each.tool_uses for each in session.history[-1:]):
            return
        for message in mailbox.take_all() if self.steer else mailbox.take(self.joining):
            self.inputs.append(message.id)
            session.add_message(as_message(message))
            note_taken(session, message)
            self._turns.output.publish(join_chunk(message, mailbox.end_wait(message)))

    def _find_status(self, left: BaseException | None) -> TurnStatus:
        if self.interruption.took_effect or is_cancelled(split_failure(left)[1]):
            return TurnStatus.INTERRUPTED
        if left is not None:
            return TurnStatus.FAILED
        is_waiting = self.is_suspended and (self._is_cut_off or self._agent.session.unstarted)
        return TurnStatus.WAITING if is_waiting else TurnStatus.COMPLETED

    async def _end(self, status: TurnStatus, left: BaseException | None) -> BaseException | None:
        """Clean up, save and publish; return what a broken store raised, unless it is typed."""
        try:
            return await self._clean_up(status, left)
        finally:
            self.interruption.finish()
            self._agent.notify("after_turn", self._done)

    async def _clean_up(
        self, status: TurnStatus, left: BaseException | None
    ) -> BaseException | None:
        refused = await self._settle(status)
        if refused is not None and status in (TurnStatus.COMPLETED, TurnStatus.WAITING):
            status = TurnStatus.FAILED
            self.interruption.end_body(is_completed=False)
            await self._agent.end_subagents(self)
        broken = refused if refused is not None and not is_typed(refused) else None
        if refused is not None and broken is None:
            self._failures.append(refused)
        for failure in self._failures:
            self._turns.output.publish(error_chunk(failure))
        self._agent.set_state(AgentState.idle())
        further = left if broken is None else broken
        failures = "; ".join(map(messages_of, self._failures))
        problem = clip(failures, MAX_ERROR_TEXT) or describe_error(further)
        self._publish_end(status, problem)
        return broken

    async def _settle(self, status: TurnStatus) -> BaseException | None:
        """End its subagents unless it completed, pair and save; return what the store raised."""
        conversation = self._agent.session.conversation
        if status is not TurnStatus.COMPLETED:
            await self._agent.end_subagents(self)
        outputs = self._turns.output.close_tools()
        waits = status is TurnStatus.WAITING
        conversation.keep_open |= waits
        repaired = conversation.pair_tool_uses(outputs=outputs, keep_unstarted=waits)
        self.interruption.repaired = repaired
        if not waits:
            conversation.end_turn(self.inputs, status)
        try:
            await self._agent.flush()
        except BaseException as refused:
            if must_propagate(refused):
                raise
            return refused
        return None

    def _publish_end(self, status: TurnStatus, problem: str) -> None:
        if status is not TurnStatus.COMPLETED:
            self._value = UNSET
        new = self._agent.session.conversation.transcript.messages_since(self._before)
        replies = [message for message in new if message.role == "assistant"]
        asked = [reply for reply in replies if reply.model]  # others no model has written
        self._turns.compare_replies(len(asked), self.replies)
        result = replace(
            describe_reply(replies, status, self.usage, self._reply),
            error=problem if status is TurnStatus.FAILED or self._failures else "",
            value=self.value,
            kind=type_name(self._failures[0]) if self._failures else "",
        )
        self._done = describe_end(self.inputs, result)
        self._turns.output.publish(self._done)
        self._turns.close(self, result)


class Turns:
    """The turns of an agent: the open one, those to come, and what waits for their ends."""

    def __init__(self, agent: _Agent, output: Output, room: int) -> None:
        """Start with none, and a mailbox with room for so many inputs."""
        self.agent = agent
        self.output = output
        self._room = room
        self.mailbox = Mailbox(room, self.take, self.resume)
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
        self.answers = Answers()
        """The results of the last turns, and who waits for that of an input."""

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
        turn.taker = task
        turn.waited += waited

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
                turn.is_handed_on = True
                turn.interruption.hand_on()

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
        for turn in tuple(self._unopened.values()):
            self._drop(turn)

    def put_back(self) -> None:
        """Return messages that a broken function took and did not begin to the mailbox.

        They are not in the history yet, and would be lost.
        """
        for turn in reversed(self._unopened.values()):
            # An interrupt that waits for a boundary will not find one.
            turn.interruption.reach_boundary()
            turn.is_handed_on = False
            self.mailbox.put_back(turn.message)
        self._requeued, self._unopened = self._unopened, {}

    def end(self) -> None:
        """Wake those who still wait: no turn follows."""
        for turn in self._requeued.values():
            turn.interruption.finish()
        self.answers.end()

    def _drop(self, turn: Turn) -> None:
        del self._unopened[turn.message.id]
        turn.interruption.drop()
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
