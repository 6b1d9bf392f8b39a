"""Turns: from an input to the end of the agent's answer to it.

A turn is in one of these stages (`_MOVES` has the moves):

    queued ──taken──▶ taken ──entered──▶ open ──left──▶ ending ──▶ closed
                        └──dropped (answered without a turn), or put back (the life broke off)

*Queued* inputs are in the mailbox. *Taken*: a task has the input and is about to open a turn, and
an interrupt is already meant for that turn. The agent decides which task opens it; the task that
took the input may take another one meanwhile (*handed on*). Until it is opened, a turn is no more
than its input: scope and interruption are made then, or by an interrupt that comes before. At most
one turn is *open*. Entering it has no checkpoint: the one step that may fail comes first, since an
entered scope must be left.

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
from enum import StrEnum
from types import TracebackType
from typing import Final, Protocol, Self

import trio
from msgspec import UNSET

from greenroom.core import AgentState, Done, Resume, TurnError, TurnStatus, Usage
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
from greenroom.runtime.background import note_taken
from greenroom.runtime.budgets import BudgetScope
from greenroom.runtime.interruption import Interruption
from greenroom.runtime.mailbox import Mailbox, as_message, begin_chunk, join_chunk
from greenroom.runtime.output_ring import Output
from greenroom.runtime.results import TurnResult, describe_end, describe_turn
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


class Stage(StrEnum):
    """Where a turn is; its input's id ties it to the tasks that wait for its end."""

    QUEUED = "queued"
    """Its input was put back into the mailbox: the life that had taken it broke off."""
    TAKEN = "taken"
    """A task has the input, and is about to open the turn."""
    HANDED_ON = "handed on"
    """That task went on, and may have passed the input to another one."""
    OPEN = "open"
    """Its block runs."""
    ENDING = "ending"
    """The block was left: its subagents end, calls are answered, and the history is saved."""
    CLOSED = "closed"
    """Its end is published."""
    DROPPED = "dropped"
    """The input was answered without a turn; whoever kept it may still open one."""


_MOVES: Final[dict[Stage, frozenset[Stage]]] = {
    Stage.QUEUED: frozenset({Stage.TAKEN, Stage.DROPPED}),
    Stage.TAKEN: frozenset({Stage.HANDED_ON, Stage.OPEN, Stage.DROPPED, Stage.QUEUED}),
    Stage.HANDED_ON: frozenset({Stage.OPEN, Stage.DROPPED, Stage.QUEUED}),
    Stage.OPEN: frozenset({Stage.ENDING}),
    Stage.ENDING: frozenset({Stage.CLOSED}),
    Stage.CLOSED: frozenset(),
    Stage.DROPPED: frozenset({Stage.OPEN}),
}


def move(before: Stage, after: Stage) -> Stage:
    """Return the stage after a move.

    Raises:
        TurnError: there is no such move.
    """
    if after not in _MOVES[before]:
        raise TurnError(f"a turn that is {before} does not become {after}")
    return after


def may_open(stage: Stage) -> bool:
    """Whether a turn of this stage may still be opened."""
    return Stage.OPEN in _MOVES[stage]


logger = logging.getLogger("greenroom.runtime")


class TurnAgent(Protocol):
    """What turns need of their agent."""

    @property
    def session(self) -> AgentSession:
        """Its session."""

    @property
    def is_root(self) -> bool:
        """Whether it belongs to the runtime itself."""

    @property
    def main_task(self) -> trio.lowlevel.Task | None:
        """The task that runs its function."""

    def check_loop(self, what: str) -> None:
        """Raise `EventLoopError` if the caller is in another thread or event loop."""

    def refuse_if_ended(self) -> None:
        """Raise `AgentNotRunningError` if it has ended."""

    def notify(self, hook: Hook, *details: object) -> None:
        """Notify the runtime's instruments."""

    def set_state(self, state: AgentState) -> None:
        """Move to a state, and publish it."""

    def expect_questions(self) -> None:
        """Expect the session's open questions to be asked again."""

    def list_running(self, turn: "Turn") -> tuple[str, ...]:
        """Name the tools and subagents of a turn that run."""

    def clip_cleanups(self, deadline: float, turn: "Turn") -> None:
        """Shorten the clean-ups that run in a turn."""

    async def end_subagents(self, turn: "Turn") -> None:
        """Cancel the subagents of a turn, and wait until they are gone; a cancel waits, too."""

    async def flush(self) -> None:
        """Save the session; a cancel waits, its own deadline does not."""

    def begin_turn(self) -> BudgetScope | None:
        """Note that a turn begins; return the budget with the first deadline."""

    def close_turn(self, status: TurnStatus) -> None:
        """Drop what belonged to the turn that has ended."""


class _Turns(Protocol):
    """What a turn needs of the others of its agent."""

    @property
    def agent(self) -> TurnAgent: ...
    @property
    def output(self) -> Output: ...
    @property
    def mailbox(self) -> Mailbox: ...
    @property
    def current(self) -> "Turn | None": ...
    def open(self, turn: "Turn") -> None: ...
    def close(self, turn: "Turn", result: TurnResult) -> None: ...
    def compare_replies(self, added: int, counted: int) -> None: ...


class Turn:
    """One turn of an agent, made when its input is taken; enter it with `async with`."""

    stage = Stage.TAKEN
    """Where it is."""
    _timer: BudgetScope | None = None
    _is_cut_off = False  # by `suspend_now`
    _interruption: Interruption | None = None
    _failures: tuple[BaseException, ...] = ()
    _value: object = UNSET
    _reply: TurnResult | None = None  # of another agent
    _done: Done | None = None
    # The task that entered it, and how many nurseries it had open then.
    _task: trio.lowlevel.Task | None = None
    _depth = 0

    waited = 0.0
    """Seconds that its message waited in the mailbox."""
    taker: trio.lowlevel.Task | None = None
    """The task that took the message; None if the turn was made without one."""
    is_suspended = False
    """Whether calls stay open that have not started when it is left."""
    steer = False
    """Whether input that arrives meanwhile joins the turn at its next step."""
    joining: frozenset[str] = frozenset()
    """The ids of inputs that join it all the same."""
    append = True
    """Whether entering appends its message to the history; if not, the body does."""
    shows_text = True  # whether its first chunk has the message's text
    steps = 0
    """How many steps have begun."""
    replies = 0
    """How many model calls had a reply."""
    usage = Usage()
    """Tokens of the turn's model calls."""

    def __init__(self, turns: _Turns, message: ConversationInput) -> None:
        """Made by the runtime when the agent takes the message."""
        self._turns = turns
        self._agent = turns.agent
        self.message = message
        self.inputs = [message.id]
        """The inputs that this turn answers: its own, and those that joined it."""

    @property
    def interruption(self) -> Interruption:
        """Its interrupts; an interrupt may come before the turn is opened."""
        if self._interruption is None:
            agent = self._agent
            self._interruption = Interruption(
                trio.CancelScope(),
                list_running=lambda: agent.list_running(self),
                clip_cleanups=lambda deadline: agent.clip_cleanups(deadline, self),
            )
        return self._interruption

    @property
    def is_handed_on(self) -> bool:
        """Whether the task that took the message may have passed it to another one."""
        return self.stage is Stage.HANDED_ON

    def take(self, task: trio.lowlevel.Task, waited: float) -> None:
        """Note that a task has taken its input, again if it was put back."""
        if self.stage is not Stage.TAKEN:
            self.stage = move(self.stage, Stage.TAKEN)
        self.taker = task
        self.waited += waited

    def hand_on(self) -> None:
        """Note that the task which took the input has gone on: nobody is kept waiting."""
        if self.stage is Stage.TAKEN:
            self.stage = move(self.stage, Stage.HANDED_ON)
        if self._interruption is not None:
            self._interruption.hand_on()

    def put_back(self) -> None:
        """Note that its input waits again; an interrupt that waits for a boundary finds none."""
        self.stage = move(self.stage, Stage.QUEUED)
        if self._interruption is not None:
            self._interruption.reach_boundary()

    def drop(self) -> None:
        """Note that its input was answered without a turn."""
        self.stage = move(self.stage, Stage.DROPPED)
        if self._interruption is not None:
            self._interruption.drop()

    @trio.lowlevel.enable_ki_protection  # a turn is open with its scope, or not at all
    async def __aenter__(self) -> Self:
        agent = self._agent
        agent.check_loop("a turn")
        agent.refuse_if_ended()
        if self._turns.current is not None:
            raise TurnError(
                "a turn is open already", hint="leave its `async with` block before the next one"
            )
        if not may_open(self.stage):
            raise TurnError("a turn is entered once", hint="open another one with `agent.turn`")
        agent.session.conversation.transcript.mark()
        # The one step that may fail comes first; there is no checkpoint in here.
        self._begin_conversation()
        self.stage = move(self.stage, Stage.OPEN)
        self._scope = self.interruption.scope
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
        if self.stage is not Stage.OPEN:
            return self._scope.__exit__(kind, error, trace)  # it was abandoned, and is over
        self.stage = move(self.stage, Stage.ENDING)
        left = leave_scope(self._scope, error)  # what is raised, its own cancel apart
        was_ended = self._is_cut_off or self.interruption.took_effect
        if left is None and self._scope.cancelled_caught and not was_ended and self._timer:
            left = self._timer.make_error("seconds")
        status = self._find_status(left)
        self.interruption.end_body(is_completed=status is TurnStatus.COMPLETED)
        failure, further = split_failure(left)
        if failure is not None:
            self._failures += (failure,)
        broken = await self._end(status, left)
        further = broken if further is None else further
        if further is None:
            return True
        if further is error:
            return False
        raise further

    async def abandon(self) -> None:
        """Close a turn that was entered by hand, or by a task that was lost, and never left."""
        self.stage = move(self.stage, Stage.ENDING)
        error = TurnError(
            "the agent's function ended inside of this turn",
            hint="open it with `async with agent.turn(message):`",
        )
        self._failures += (error,)
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
        if self.stage is not Stage.OPEN:
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
        return self._interruption is not None and self._interruption.scope.cancel_called

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
            self.interruption.close()
            self._agent.notify("after_turn", self._done or Done(self.message.id, TurnStatus.FAILED))

    async def _clean_up(
        self, status: TurnStatus, left: BaseException | None
    ) -> BaseException | None:
        refused = await self._settle(status)
        if refused is not None and status in (TurnStatus.COMPLETED, TurnStatus.WAITING):
            status = TurnStatus.FAILED
            self.interruption.end_body(is_completed=False)
        if status is not TurnStatus.COMPLETED:  # code beside it may have spawned one meanwhile
            await self._agent.end_subagents(self)
        broken = refused if refused is not None and not is_typed(refused) else None
        if refused is not None and broken is None:
            self._failures += (refused,)
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
        new = self._agent.session.conversation.transcript.take_since_mark()
        replies = [message for message in new if message.role == "assistant"]
        asked = [reply for reply in replies if reply.model]  # others no model has written
        self._turns.compare_replies(len(asked), self.replies)
        result = describe_turn(
            replies,
            status,
            self.usage,
            self._reply,
            error=problem if status is TurnStatus.FAILED or self._failures else "",
            value=self.value,
            kind=type_name(self._failures[0]) if self._failures else "",
        )
        self._done = describe_end(self.inputs, result)
        self._turns.output.publish(self._done)
        self._turns.close(self, result)
