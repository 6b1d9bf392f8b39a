"""The results of an agent's work: receipts, turn results, reports and outcomes.

`Answers` keeps the results of an agent's last turns, for those who wait for the answer to an input.
"""

from collections.abc import Sequence
from typing import Literal, Self

import msgspec
import trio
from msgspec import UNSET

from greenroom.core import Done, InputMessage, Message, StopReason, TurnStatus, Usage
from greenroom.core._internal import EndStatus, describe_error, freeze_fields
from greenroom.runtime.errors import AgentNotRunningError, SupervisionError

MAX_NAMES = 1000  # kept in each list that grows with what happens, the newest


class Receipt(msgspec.Struct, frozen=True):
    """Confirms that an input has arrived.

    Attributes:
        input_id: the id that the turn's `TurnStart` and `Done` will carry.
        status: "delivered" if the agent was waiting and has it: an interrupt from now on is meant
            for its turn, and a shutdown lets that turn finish. "steered" if the open turn takes it
            at its next step, or a turn of its own if no step follows. Else
            "queued": it waits for its turn, which no interrupt changes, and is in
            `Outcome.undelivered` should the agent end before.
        replaced: the id of the input that was withdrawn for it (`instead_of`); else empty.
    """

    input_id: str
    status: Literal["delivered", "queued", "steered"]
    replaced: str = ""


class TurnResult(msgspec.Struct, frozen=True):
    """How one turn ended.

    Attributes:
        status: completed, interrupted, failed, or waiting if the turn was suspended.
        text: the text of the turn's last reply, empty where there was none.
        stop_reason: why that reply ended; None if it broke off with an error.
        usage: tokens of the turn's model calls.
        error: what went wrong, or empty.
        value: the argument of `turn.set_result` if the turn completed; else `msgspec.UNSET`.
        kind: the class of the error, such as "ModelOverloadedError"; empty where there was none.
    """

    status: TurnStatus
    text: str = ""
    stop_reason: StopReason | None = None
    usage: Usage = Usage()
    error: str = ""
    value: object = UNSET
    kind: str = ""

    def __post_init__(self) -> None:
        if self.value is not UNSET:  # as it is for most turns
            freeze_fields(self, "value")


class InterruptReport(msgspec.Struct, frozen=True):
    """What an interrupt did, in names for people.

    Attributes:
        stopped: what was running: tools, subagents and what ran in those, or the turn itself.
        cleaned: whose clean-ups ran to their end, one entry for each: a tool's, a subagent's, or
            the turn's; the newest 1,000.
        abandoned: what is still alive: what did not end within the grace, and threads, the newest
            1,000.
        repaired: ids of the tool calls that were answered with "interrupted".
    """

    stopped: tuple[str, ...] = ()
    cleaned: tuple[str, ...] = ()
    abandoned: tuple[str, ...] = ()
    repaired: tuple[str, ...] = ()


class Outcome(msgspec.Struct, frozen=True):
    """How an agent ended.

    Attributes:
        status: completed, crashed, cancelled or killed.
        value: what the agent's function returned, if it completed; else None.
        error: the exception that crashed it; the `SupervisionError` for which its supervisor ended
            it; else None.
        undelivered: inputs that it never took, and those that it had taken, but opened no turn for,
            when it was cancelled or killed.
        abandoned: threads that could not be stopped and may still run.
        restarts: how often its supervisor started it again.
    """

    status: EndStatus
    value: object = None
    error: BaseException | None = None
    undelivered: tuple[InputMessage, ...] = ()
    abandoned: tuple[str, ...] = ()
    restarts: int = 0


def ended_error(agent: str, outcome: Outcome) -> AgentNotRunningError:
    """Make the error of a call to an agent that has ended."""
    problem = describe_error(outcome.error)
    return AgentNotRunningError(
        f"the agent {agent} has ended: {outcome.status}{problem and f': {problem}'}",
        outcome=outcome,
        hint="spawn an agent with the loaded session to go on with it",
    )


class SupervisorOutcome(msgspec.Struct, frozen=True):
    """How a supervisor ended.

    Attributes:
        status: completed on `shutdown`; crashed if it gave up; cancelled if it ended with
            the runtime, agent or supervisor that it belongs to.
        error: why it gave up, or why the supervisor above it ended it; else None.
        restarts: how many restarts it ordered; one of a group counts once.
    """

    status: EndStatus
    error: SupervisionError | None = None
    restarts: int = 0


MOST_KEPT = 100
"""How many inputs keep the results of their turns, the newest."""


def describe_turn(
    replies: Sequence[Message],
    status: TurnStatus,
    usage: Usage,
    given: TurnResult | None,
    *,
    error: str,
    value: object,
    kind: str,
) -> TurnResult:
    """Describe a turn with these replies, by the last of them; without one, by what was given."""
    text, stop_reason = "", None
    if replies:
        last = replies[-1]
        # Why a reply broke off with an error, the error says.
        broke_off = status is TurnStatus.FAILED and last.stop_reason is StopReason.INTERRUPTED
        text, stop_reason = last.text, None if broke_off else last.stop_reason
    elif given is not None:
        text, stop_reason, usage = given.text, given.stop_reason, given.usage
    return TurnResult(status, text, stop_reason, usage, error, value, kind)


def describe_end(inputs: Sequence[str], result: TurnResult) -> Done:
    """Make the chunk that says how a turn has ended, given its inputs, its own first."""
    return Done(
        inputs[0],
        result.status,
        result.stop_reason,
        result.usage,
        result.error,
        result.value,
        tuple(inputs),
    )


class Waiter:
    """What a task waits on in its block: the end of the turn that takes an input."""

    __slots__ = ("_input_id", "_waiting", "event", "result")

    def __init__(self, waiting: "dict[str, list[Waiter]]", input_id: str) -> None:
        """Made by `Answers.wait_for`, with all that wait."""
        self._waiting = waiting
        self._input_id = input_id
        self.event = trio.Event()
        self.result: TurnResult | None = None
        """Set with the event; None if no turn was opened for the input."""

    def __enter__(self) -> Self:
        self._waiting.setdefault(self._input_id, []).append(self)
        return self

    def __exit__(self, *_exit: object) -> None:
        waiting = self._waiting.get(self._input_id, [])
        if self in waiting:
            waiting.remove(self)
        if not waiting:
            self._waiting.pop(self._input_id, None)


class Answers:
    """The results of the last turns, by the ids of their inputs, and the tasks that wait."""

    __slots__ = ("_kept", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[str, list[Waiter]] = {}
        self._kept: dict[str, TurnResult] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def find(self, input_id: str) -> TurnResult | None:
        """Return the result of the turn that took this input, if that is kept."""
        return self._kept.get(input_id)

    def wait_for(self, input_id: str) -> Waiter:
        """Return the block in which to wait for the end of the turn that takes this input."""
        return Waiter(self._waiting, input_id)

    def give(self, input_ids: Sequence[str], result: TurnResult) -> None:
        """Keep the result of the turn that took these inputs, and wake those who wait for it."""
        for input_id in input_ids:
            self._kept.pop(input_id, None)
            self._kept[input_id] = result
            self._wake(input_id, result)
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]

    def drop(self, input_id: str) -> None:
        """Wake those who wait for an input that was answered without a turn."""
        self._wake(input_id, None)

    def end(self) -> None:
        """Wake all who still wait: no turn follows."""
        for input_id in tuple(self._waiting):
            self._wake(input_id, None)

    def _wake(self, input_id: str, result: TurnResult | None) -> None:
        for waiter in self._waiting.pop(input_id, ()):
            waiter.result = result
            waiter.event.set()
