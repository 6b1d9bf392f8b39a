"""What comes of an agent's work: receipts, results, reports and outcomes; and which failures end what."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import trio
from msgspec import UNSET

from greenroom.core import (
    MAX_ERROR_TEXT,
    EndStatus,
    Error,
    GreenroomError,
    InputMessage,
    Message,
    StopReason,
    SupervisionError,
    TurnStatus,
    Usage,
    clip,
    is_a,
    leaves,
    message_of,
    read_text,
    type_name,
)

MAX_NAMES = 1000  # kept in each list that grows with what happens, the newest


@dataclass(frozen=True)
class Receipt:
    """Says that an input has arrived.

    Attributes:
        input_id: the id that the turn's `TurnStart` and `Done` will carry.
        status: "delivered" where the agent was waiting for it: it has it, so an interrupt from now
            on is meant for its turn, and a shutdown lets that turn finish. "steered" where the open
            turn takes it at its next step, or, should there be none, a turn of its own. Else
            "queued": it waits for its turn, which no interrupt changes, and is in
            `Outcome.undelivered` should the agent end before.
        replaced: the id of the input that was withdrawn for it (`instead_of`); empty where none
        was.
    """

    input_id: str
    status: Literal["delivered", "queued", "steered"]
    replaced: str = ""


@dataclass(frozen=True)
class TurnResult:
    """How one turn ended.

    Attributes:
        status: completed, interrupted, failed, or waiting where the turn was suspended.
        text: the text of the turn's last reply, empty where there was none.
        stop_reason: why that reply ended; None where it broke off with an error, which says it.
        usage: tokens of the turn's model calls.
        error: what went wrong, empty where nothing did.
        value: what `turn.set_result` was given, where the turn completed; else `msgspec.UNSET`.
        kind: the class of the error, such as "ModelOverloadedError"; empty where there was none.
    """

    status: TurnStatus
    text: str = ""
    stop_reason: StopReason | None = None
    usage: Usage = Usage()  # noqa: RUF009 (a frozen value)
    error: str = ""
    value: object = UNSET
    kind: str = ""


@dataclass(frozen=True)
class InterruptReport:
    """What an interrupt did; everything in it is a name for people.

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


@dataclass(frozen=True)
class Outcome:
    """How an agent ended.

    Attributes:
        status: completed, crashed, cancelled or killed.
        value: what the agent's function returned, where it completed; else None.
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


@dataclass(frozen=True)
class SupervisorOutcome:
    """How a supervisor ended.

    Attributes:
        status: completed on `shutdown`; crashed where it gave up; cancelled where it ended with
            the runtime, agent or supervisor that it belongs to.
        error: why it gave up, or why the supervisor above it ended it; else None.
        restarts: how many restarts it ordered; one of a group counts once.
    """

    status: EndStatus
    error: SupervisionError | None = None
    restarts: int = 0


# -- how the messages of a turn become its result -------------------------------------------------


def messages_since(before: Sequence[Message], now: Sequence[Message]) -> Sequence[Message]:
    """Return what was said since; a compaction or a rewind may have moved all of it meanwhile."""
    count = len(before)
    if count <= len(now) and (not count or now[count - 1] is before[-1]):
        return now[count:]
    known = {id(message) for message in before}
    return [message for message in now if id(message) not in known]


def stop_reason_of(last: Message | None, status: TurnStatus) -> StopReason | None:
    """Say why the last reply ended; where it broke off with an error, the error says it."""
    if last is None:
        return None
    broke_off = status is TurnStatus.FAILED and last.stop_reason is StopReason.INTERRUPTED
    return None if broke_off else last.stop_reason


# -- which failures end a turn, which crash an agent, and how subscribers learn of them -----------


def is_typed(error: BaseException) -> bool:
    """Whether an error is one of ours, or a group of nothing else."""
    return all(is_a(leaf, GreenroomError) for leaf in leaves(error))


def is_cancelled(error: BaseException | None) -> bool:
    """Whether this is a cancel, or a group of nothing else."""
    return error is not None and all(is_a(leaf, trio.Cancelled) for leaf in leaves(error))


def split_failure(error: BaseException | None) -> tuple[BaseException | None, BaseException | None]:
    """Split what left a turn's body: the typed failure that ends the turn, and what goes further.

    A cancel goes further even where typed errors came with it; together with a bug, all of it does.
    """
    if error is None:
        return None, None
    if is_typed(error):
        return error, None
    found = leaves(error)
    cancelled = [leaf for leaf in found if is_a(leaf, trio.Cancelled)]
    typed = [leaf for leaf in found if is_a(leaf, GreenroomError)]
    if cancelled and typed and len(cancelled) + len(typed) == len(found):
        return ExceptionGroup("the turn failed", typed), cancelled[0]
    return None, error


def leave_scope(scope: trio.CancelScope, error: BaseException | None) -> BaseException | None:
    """Leave a scope with what has left its block, and return what goes further."""
    try:
        absorbed = scope.__exit__(
            None if error is None else type(error),
            error,
            None if error is None else error.__traceback__,
        )
    except BaseException as rest:  # noqa: BLE001 (handed on by the caller)
        return rest
    return None if absorbed else error


def strip_cancelled(error: BaseException) -> BaseException:
    """Take the cancels out of a group that holds other errors too."""
    others = [leaf for leaf in leaves(error) if not is_a(leaf, trio.Cancelled)]
    if not others or len(others) == len(leaves(error)):
        return error
    return BaseExceptionGroup("errors beside a cancel", others)


def unwrap(error: BaseException) -> BaseException:
    """Take a group that holds one error, beside cancels, for that error."""
    found = leaves(error)
    others = [leaf for leaf in found if not is_a(leaf, trio.Cancelled)]
    if len(others) == 1:
        return others[0]
    return error if others else found[0]


def must_propagate(error: BaseException) -> bool:
    """Whether an error must not be kept as a value: a cancel, or a KeyboardInterrupt in it."""
    return is_cancelled(error) or any(is_a(leaf, KeyboardInterrupt) for leaf in leaves(error))


def messages_of(error: BaseException) -> str:
    """Return the messages of an error's leaves, clipped."""
    parts: list[str] = []
    length = 0
    for leaf in leaves(error):
        parts.append(message_of(leaf))
        length += len(parts[-1])
        if length > MAX_ERROR_TEXT:
            break
    return clip("; ".join(parts), MAX_ERROR_TEXT)


def error_chunk(error: BaseException) -> Error:
    """Tell subscribers of an error: its message, its class, and what to do about it."""
    kind = type_name(error)
    # A subclass may have set these to anything, or not at all.
    if is_a(error, GreenroomError):
        return Error(read_text(lambda: error.message), kind, read_text(lambda: error.hint))
    return Error(messages_of(error) or kind, kind)
