"""The vocabulary of the recovery table: components, classes of errors, and decisions.

Each error that was handled is an `ErrorContext`, which is logged, and published as a chunk.
"""

import logging
from enum import StrEnum
from typing import Literal, TypeAlias

from greenroom.agents._internal import NoProgressError
from greenroom.core import BudgetExceededError, Custom, GreenroomError
from greenroom.core._internal import Wire, clip, find_error, serde, visible
from greenroom.llm import (
    ModelAuthenticationError,
    ModelBadRequestError,
    ModelContextTooLongError,
    ModelOutputError,
)
from greenroom.llm._internal import ModelContentFilterError, ModelQuotaError

RECOVERY = "recovery"
"""The kind of the `Custom` chunks."""

_REASON = 300  # characters
_log = logging.getLogger("greenroom.flow")


class Component(StrEnum):
    """What has failed.

    Attributes:
        MODEL: a model call, or a model's mistake.
        AGENT: the agent of a subtask.
        TOOL: a subtask's call of a tool that may be called twice.
        EFFECT: a subtask's call of any other tool.
        PLAN: a result that a subtask needs.
    """

    MODEL = "model"
    AGENT = "agent"
    TOOL = "tool"
    EFFECT = "effect"
    PLAN = "plan"


class ErrorClass(StrEnum):
    """What kind of error it was; `classify` finds it for an exception.

    Attributes:
        TRANSIENT: a retry may help.
        UNUSABLE: a key, a quota or a request was refused.
        OVERFLOW: the conversation does not fit into the model's window.
        FORMAT: a model's reply can't be read.
        REFUSAL: a model refused.
        UNKNOWN_TOOL: a model called a tool that does not exist.
        INVALID_INPUT: a call's input does not fit the tool's schema.
        REPETITION: a model repeats a call.
        ENDLESS: a model has used all its steps.
        TIMEOUT: a call, or a silent agent, took too long.
        FAILED: a tool reported an error.
        CRASH: a tool or agent raised an exception.
        DENIED: it was denied, or interrupted.
        MISSING: a subtask refers to a missing result.
        SPENT: a budget is spent.
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


class RecoveryDecision(StrEnum):
    """What is done about an error.

    Attributes:
        RETRY: make the same call again.
        GO_ON: continue the failed agent's conversation with a new agent.
        ASK_AGAIN: tell the model what is wrong.
        COMPACT: shorten the conversation.
        OTHER_MODEL: ask another model.
        REPLAN: revise the plan.
        ASK_PERSON: ask a person whether to try again.
        GIVE_UP: do nothing.
    """

    RETRY = "retry"
    GO_ON = "go_on"
    ASK_AGAIN = "ask_again"
    COMPACT = "compact"
    OTHER_MODEL = "other_model"
    REPLAN = "replan"
    ASK_PERSON = "ask_person"
    GIVE_UP = "give_up"


Severity: TypeAlias = Literal["low", "medium", "high", "critical"]
"""How far an error reaches: the call, its component, the plan, or a person."""

_SEVERITY: dict[RecoveryDecision, Severity] = {
    RecoveryDecision.COMPACT: "medium",
    RecoveryDecision.OTHER_MODEL: "medium",
    RecoveryDecision.REPLAN: "high",
    RecoveryDecision.ASK_PERSON: "critical",
    RecoveryDecision.GIVE_UP: "critical",
}


class ErrorContext(Wire, frozen=True):
    """One error that was handled.

    Attributes:
        component: what has failed.
        error: what kind of error it was.
        attempt: how often it has occurred, counted from 1.
        decision: what is done about it.
        cause: why: by the row of the table, or because the error budget is spent.
        correlation_id: the session in which it happened.
        subtask: the id of the subtask, if it is about one as a whole.
        detail: what went wrong, in words.
        seconds: the wait before the next try.

    Example:
        >>> timeout = ErrorContext(Component.TOOL, ErrorClass.TIMEOUT, 1, RecoveryDecision.RETRY)
        >>> timeout.severity, timeout.chunk().text
        ('low', 'tool timeout 1: retry')
    """

    component: Component
    error: ErrorClass
    attempt: int
    decision: RecoveryDecision
    cause: Literal["row", "budget"] = "row"
    correlation_id: str = ""
    subtask: str = ""
    detail: str = ""
    seconds: float = 0.0

    @property
    def severity(self) -> Severity:
        """How far it reaches."""
        return _SEVERITY.get(self.decision, "low")

    def __str__(self) -> str:
        about = f"{self.subtask}: " if self.subtask else ""
        why = f" ({clip(self.detail, _REASON)})" if self.detail else ""
        spent = ", since the error budget is spent" if self.cause == "budget" else ""
        wait = f" in {self.seconds:.1f} s" if self.seconds else ""
        row = f"{self.component} {self.error} {self.attempt}"
        return f"{about}{row}{why}: {self.decision}{wait}{spent}"

    def chunk(self) -> Custom:
        """Log it, and return it as a chunk with its fields and its severity."""
        text = " ".join(visible(str(self)).split())
        _log.info("%s", text)
        data = serde.loads_object(serde.encode(self).decode())
        return Custom(RECOVERY, {**data, "severity": self.severity}, text)


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
    """Return the class of an error, given an exception or the name of its type.

    Example:
        >>> from greenroom.llm import ModelOverloadedError
        >>> classify(ModelOverloadedError("busy")).value, classify("KeyError").value
        ('transient', 'crash')
    """
    kind = find_error(error) if isinstance(error, str) else type(error)
    if kind is None or not issubclass(kind, GreenroomError):
        return ErrorClass.CRASH
    found = next((each for base, each in _CLASSES if issubclass(kind, base)), None)
    source = kind if isinstance(error, str) else error
    return found or (
        ErrorClass.TRANSIENT if getattr(source, "retryable", False) else ErrorClass.FAILED
    )
