"""What went wrong where, and what is done about it: the words of the recovery table.

An `ErrorContext` is one error that was handled. It says what failed, what kind of error it was, how often
that has come, and what was decided. It is published as a `Custom("recovery")` chunk, and logged.
"""

import logging
from enum import StrEnum

import msgspec

from greenroom import core
from greenroom.core import (
    BudgetExceededError,
    Custom,
    GreenroomError,
    ModelAuthenticationError,
    ModelBadRequestError,
    ModelContentFilterError,
    ModelContextTooLongError,
    ModelOutputError,
    ModelQuotaError,
    NoProgressError,
    Wire,
    clip,
    serde,
    visible,
)

RECOVERY = "recovery"
"""The kind of the `Custom` chunks."""

_REASON = 300  # characters
_log = logging.getLogger("greenroom.planning")


class Component(StrEnum):
    """What has failed.

    `MODEL`: one model call, or what a model does in its calls. `AGENT`: the agent of a subtask. `TOOL`: a
    subtask's call of a tool that may be called twice. `EFFECT`: one of a tool that may not. `PLAN`: what
    a subtask needs of others.
    """

    MODEL = "model"
    AGENT = "agent"
    TOOL = "tool"
    EFFECT = "effect"
    PLAN = "plan"


class ErrorClass(StrEnum):
    """What kind of error it was; `classify` finds it for an exception.

    `TRANSIENT`: it may go away by itself. `UNUSABLE`: a key, a quota or a request is refused. `OVERFLOW`:
    the conversation does not fit the model. `FORMAT`, `REFUSAL`, `UNKNOWN_TOOL`, `INVALID_INPUT`,
    `REPETITION`, `ENDLESS`: what a model does. `TIMEOUT`, `FAILED` (the tool says so itself), `CRASH` and
    `DENIED` (or someone has interrupted it): how a call ends. `MISSING`: a result that a subtask names is
    not there. `SPENT`: a budget is.
    """

    TRANSIENT = "transient"
    UNUSABLE = "unusable"
    OVERFLOW = "overflow"
    FORMAT = "format"
    REFUSAL = "refusal"
    UNKNOWN_TOOL = "unknown_tool"
    INVALID_INPUT = "invalid_input"
    REPETITION = "repetition"
    ENDLESS = "endless"
    TIMEOUT = "timeout"
    FAILED = "failed"
    CRASH = "crash"
    DENIED = "denied"
    MISSING = "missing"
    SPENT = "spent"


class Decision(StrEnum):
    """What is done about an error.

    `RETRY`: the same call is made again. `GO_ON`: a new agent goes on in the conversation of the one that
    has failed. `ASK_AGAIN`: the model is told what is wrong. `COMPACT`: the conversation is made shorter.
    `OTHER_MODEL`: another model is asked. `REPLAN`: the plan is revised. `ASK_PERSON`: a person says
    whether to try again. `GIVE_UP`: nothing is done.
    """

    RETRY = "retry"
    GO_ON = "go_on"
    ASK_AGAIN = "ask_again"
    COMPACT = "compact"
    OTHER_MODEL = "other_model"
    REPLAN = "replan"
    ASK_PERSON = "ask_person"
    GIVE_UP = "give_up"


class Cause(StrEnum):
    """Why that was decided: the table says so, or the error budget is spent."""

    ROW = "row"
    BUDGET = "budget"


class Severity(StrEnum):
    """How far an error reaches: the call, its component, the plan, or a person."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


_SEVERITY = {
    Decision.COMPACT: Severity.MEDIUM,
    Decision.OTHER_MODEL: Severity.MEDIUM,
    Decision.REPLAN: Severity.HIGH,
    Decision.ASK_PERSON: Severity.CRITICAL,
    Decision.GIVE_UP: Severity.CRITICAL,
}


class ErrorContext(Wire, frozen=True):
    """One error that was handled.

    Attributes:
        component: what has failed; with `error` it names the row of the table.
        error: what kind of error it was.
        attempt: how often that has come by now, counted from 1.
        decision: what is done about it.
        cause: why that was decided.
        correlation_id: the session in which it happened: all errors of one agent share it, and so does
            the failure of the subtask that the agent worked on.
        subtask: the id of the subtask, where it is about one as a whole.
        detail: what went wrong, in words.
        seconds: how long is waited before the next try.

    Example:
        >>> found = ErrorContext(Component.TOOL, ErrorClass.TIMEOUT, 1, Decision.RETRY, subtask="hotel")
        >>> found.severity.value, found.chunk().text
        ('low', 'hotel: tool timeout 1: retry')
    """

    component: Component
    error: ErrorClass
    attempt: int
    decision: Decision
    cause: Cause = Cause.ROW
    correlation_id: str = ""
    subtask: str = ""
    detail: str = ""
    seconds: float = 0.0

    @property
    def severity(self) -> Severity:
        """How far it reaches."""
        return _SEVERITY.get(self.decision, Severity.LOW)

    def __str__(self) -> str:
        about = f"{self.subtask}: " if self.subtask else ""
        why = f" ({clip(self.detail, _REASON)})" if self.detail else ""
        spent = ", since the error budget is spent" if self.cause is Cause.BUDGET else ""
        wait = f" in {self.seconds:.1f} s" if self.seconds else ""
        row = f"{self.component} {self.error} {self.attempt}"
        return f"{about}{row}{why}: {self.decision}{wait}{spent}"

    def chunk(self) -> Custom:
        """Write it to the log, and return it as a chunk: its fields and its severity as data."""
        text = " ".join(visible(str(self)).split())
        _log.info("%s", text)
        data = serde.loads_object(msgspec.json.encode(self).decode())
        return Custom(RECOVERY, {**data, "severity": str(self.severity)}, text)


_CLASSES: tuple[tuple[type[GreenroomError], ErrorClass], ...] = (
    (ModelContextTooLongError, ErrorClass.OVERFLOW),
    (ModelContentFilterError, ErrorClass.REFUSAL),
    (ModelOutputError, ErrorClass.FORMAT),
    (NoProgressError, ErrorClass.REPETITION),
    (BudgetExceededError, ErrorClass.SPENT),
    (ModelQuotaError, ErrorClass.UNUSABLE),
    (ModelAuthenticationError, ErrorClass.UNUSABLE),
    (ModelBadRequestError, ErrorClass.UNUSABLE),
)


def classify(error: Exception | str) -> ErrorClass:
    """Return what kind of error an exception is; or one of which only the name of the class is known.

    Example:
        >>> from greenroom.core import ModelOverloadedError
        >>> classify(ModelOverloadedError("busy")).value, classify("KeyError").value
        ('transient', 'crash')
    """
    kind: object = getattr(core, error, None) if isinstance(error, str) else type(error)
    if not isinstance(kind, type) or not issubclass(kind, GreenroomError):
        return ErrorClass.CRASH
    found = next((each for base, each in _CLASSES if issubclass(kind, base)), None)
    source = kind if isinstance(error, str) else error
    return found or (
        ErrorClass.TRANSIENT if getattr(source, "retryable", False) else ErrorClass.FAILED
    )
