"""The results of an agent's work: receipts, turn results, reports and outcomes."""

from typing import Literal

import msgspec
from msgspec import UNSET

from greenroom.core import InputMessage, StopReason, TurnStatus, Usage
from greenroom.core._internal import EndStatus, freeze_fields
from greenroom.runtime.errors import SupervisionError

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
