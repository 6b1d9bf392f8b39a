"""How agents ended, as JSON that crosses machines: errors as their kind and text, never pickled."""

import msgspec

from greenroom.core import AgentCrashError, GreenroomError, TurnStatus
from greenroom.core._internal import EndStatus, clip, describe_error, find_error, serde
from greenroom.runtime import AgentNotRunningError, Outcome, TurnResult

_LONGEST = 2_000

UNREAD = serde.encode(
    TurnResult(TurnStatus.FAILED, error="the agent has ended", kind=AgentNotRunningError.__name__)
)
"""The result of an input that an agent has not taken before its end, as JSON."""


class _Written(msgspec.Struct):
    """An outcome as JSON."""

    status: EndStatus
    error: str = ""
    kind: str = ""
    abandoned: tuple[str, ...] = ()
    restarts: int = 0


def write_outcome(outcome: Outcome) -> bytes:
    """Return an outcome as JSON; the value and the inputs that it has not taken stay out."""
    error = outcome.error
    told = "" if error is None else clip(describe_error(error), _LONGEST)
    kind = "" if error is None else type(error).__name__
    return serde.encode(_Written(outcome.status, told, kind, outcome.abandoned, outcome.restarts))


def read_outcome(data: bytes | None) -> Outcome:
    """Return the outcome of an agent; one that nobody has recorded was cancelled."""
    if data is None:
        return Outcome(EndStatus.CANCELLED)
    told = serde.decode(data, _Written)
    error = make_error(told.error, told.kind) if told.error else None
    return Outcome(told.status, None, error, (), told.abandoned, told.restarts)


def make_error(message: str, kind: str) -> GreenroomError:
    """Make an error that was told: of its own class, where that is one of ours."""
    known = find_error(kind)
    if known is None:
        return AgentCrashError(message)
    error = known.__new__(known)  # whatever else its class wants to be told
    GreenroomError.__init__(error, message)
    return error
