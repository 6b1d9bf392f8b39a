"""`RecoveryPolicy`: a table of what to do about errors, within an error budget.

It is used by `execute_plan` for a failed subtask, by the retry of a model call, and by
`WatchedModel`. Each decision is an `ErrorContext`.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence, Set as AbstractSet
from itertools import product
from types import MappingProxyType
from typing import TypeAlias

import trio

from greenroom.core import ConfigurationError
from greenroom.core._internal import MAX_ERROR_TEXT, clip
from greenroom.flow.error_context import Component, ErrorClass, ErrorContext, RecoveryDecision
from greenroom.flow.graph import is_above_zero, is_count, suggest
from greenroom.flow.plan_run import FailureReason, PlanRun
from greenroom.flow.revision import Failure
from greenroom.flow.text_tools import TextTools
from greenroom.flow.watched_model import WatchedModel
from greenroom.llm import LLMProvider, resilient
from greenroom.resilience import Backoff, Retry
from greenroom.resilience._internal import is_retryable, shared_time
from greenroom.tools._internal import may_repeat

Row: TypeAlias = tuple[Component, ErrorClass]

_M, _A, _T, _E, _P = Component
_C, _D = ErrorClass, RecoveryDecision
_TRIES = (_D.RETRY,) * 4
_PERSON = (_D.ASK_PERSON, _D.REPLAN, _D.GIVE_UP)
_PLAN = (_D.REPLAN, _D.GIVE_UP)

RECOVERY_TABLE: Mapping[Row, Sequence[RecoveryDecision]] = MappingProxyType(
    {
        (_M, _C.TRANSIENT): (_D.RETRY, _D.RETRY, _D.RETRY, _D.OTHER_MODEL, _D.GIVE_UP),
        (_M, _C.UNUSABLE): (_D.OTHER_MODEL, _D.GIVE_UP),
        (_M, _C.OVERFLOW): (_D.COMPACT, _D.GIVE_UP),
        (_M, _C.FORMAT): (_D.ASK_AGAIN, _D.ASK_AGAIN, _D.ASK_AGAIN, _D.GIVE_UP),
        (_M, _C.REFUSAL): (_D.GIVE_UP,),
        (_M, _C.UNKNOWN_TOOL): (_D.ASK_AGAIN, _D.OTHER_MODEL, _D.ASK_AGAIN, _D.GIVE_UP),
        (_M, _C.INVALID_INPUT): (_D.ASK_AGAIN, _D.ASK_AGAIN, _D.GIVE_UP),
        (_M, _C.REPETITION): (_D.ASK_AGAIN, _D.ASK_AGAIN, _D.GIVE_UP),
        (_M, _C.ENDLESS): (_D.ASK_AGAIN,),
        (_A, _C.TRANSIENT): (_D.GO_ON,) * 4 + _PLAN,
        (_A, _C.UNUSABLE): (_D.GIVE_UP,),
        (_A, _C.OVERFLOW): _PLAN,
        (_A, _C.FORMAT): _PLAN,
        (_A, _C.REFUSAL): (_D.REPLAN, _D.ASK_PERSON, _D.GIVE_UP),
        (_A, _C.REPETITION): (_D.GO_ON, *_PLAN),
        (_A, _C.FAILED): _PLAN,
        (_A, _C.CRASH): (_D.REPLAN, _D.ASK_PERSON, _D.GIVE_UP),
        (_A, _C.DENIED): _PLAN,
        (_A, _C.SPENT): (_D.GIVE_UP,),
        (_T, _C.TIMEOUT): (_D.RETRY, *_PLAN),
        (_T, _C.FAILED): (*_TRIES, *_PLAN),
        (_T, _C.CRASH): (*_TRIES, *_PLAN),
        (_T, _C.INVALID_INPUT): _PLAN,
        (_T, _C.DENIED): _PLAN,
        (_T, _C.SPENT): (_D.GIVE_UP,),
        (_E, _C.TIMEOUT): _PERSON,
        (_E, _C.FAILED): (_D.REPLAN, _D.ASK_PERSON, _D.GIVE_UP),
        (_E, _C.CRASH): _PERSON,
        (_E, _C.INVALID_INPUT): _PLAN,
        (_E, _C.DENIED): _PLAN,
        (_E, _C.SPENT): (_D.GIVE_UP,),
        (_P, _C.MISSING): _PLAN,
    }
)
"""For each row, the decisions about the first error, the second, and so on; then it gives up."""

_FEASIBLE: Mapping[Component, AbstractSet[str]] = {
    _M: {_D.RETRY, _D.ASK_AGAIN, _D.COMPACT, _D.OTHER_MODEL, _D.GIVE_UP},
    _A: {_D.GO_ON, *_PERSON},
    _T: {_D.RETRY, *_PERSON},
    _E: {*_PERSON},
    _P: {*_PERSON},
}
_BACKOFF = Retry().backoff


class RecoveryPolicy:
    """Decides what to do about errors of models and subtasks, within an error budget.

    Pass it as `recovery=` to `execute_plan`, `plan_and_execute`, `run_task` or `react`. The last
    three wrap their model with `model(llm)`: do the same for workers and planners of your own.

    A decision that is not possible is skipped, such as replanning without a planner. A call of a
    tool that may not be called twice is never repeated without a person's approval. An agent that
    is tried again continues its conversation, so none of its calls is repeated.

    Each handled error counts in the error budget. Once the budget is spent, further errors are
    given up until the oldest are `period` seconds old. Each policy has one budget; share
    a policy to share it.

    Args:
        rows: for a component and a class of error, the decisions about the first, the second, and
            so on; they replace those of the table.
        errors: how many errors are handled within `period` seconds.
        period: the seconds for which an error counts.
        backoff: the waits before retries; by default those of a `Retry`.
        fallback: models to ask when the first is given up.

    Raises:
        ConfigurationError: a row is not a pair of a component and a class, is empty, or has a
            decision that its component does not support; or a number is out of range.

    Example:
        >>> policy = RecoveryPolicy(rows={("tool", "timeout"): ["retry", "retry", "give_up"]})
        >>> policy.errors_left
        50
    """

    def __init__(
        self,
        *,
        rows: Mapping[tuple[str, str], Sequence[str]] | None = None,
        errors: int = 50,
        period: float = 600.0,
        backoff: Backoff = _BACKOFF,
        fallback: Sequence[LLMProvider] = (),
    ) -> None:
        if not is_count(errors, 0) or not (is_above_zero(period) and period < math.inf):
            raise ConfigurationError(
                "RecoveryPolicy needs a whole number of errors, 0 or more, and a period above 0"
            )
        self._rows = dict(RECOVERY_TABLE)
        for given, words in (rows or {}).items():
            row = component, error = _check_row(given)
            wrong = {*words} - _FEASIBLE[component]
            if wrong or not words:
                raise ConfigurationError(
                    f"{', '.join(sorted(wrong)) or 'nothing'} is not an answer to"
                    f" {component} {error}",
                    hint=f"give {', '.join(sorted(_FEASIBLE[component]))}",
                )
            self._rows[row] = tuple(map(RecoveryDecision, words))
        self._errors = errors
        self._period = period
        self._backoff = backoff
        self._fallback = (*fallback,)
        self._error_times: deque[float] = deque()

    def decide(
        self,
        component: Component,
        error: ErrorClass,
        attempt: int,
        *,
        possible: AbstractSet[RecoveryDecision] = frozenset(RecoveryDecision),
        detail: str = "",
        correlation_id: str = "",
        subtask: str = "",
    ) -> ErrorContext:
        """Look up what to do about an error, and count it in the error budget if it is handled.

        Args:
            component: what has failed.
            error: what kind of error it was.
            attempt: how often it has occurred, counted from 1.
            possible: the possible decisions; others in the row are skipped.
            detail: what went wrong, in words.
            correlation_id: the session in which it happened.
            subtask: the id of the subtask that it is about.
        """
        row = self._rows.get((component, error), (_D.GIVE_UP,))[attempt - 1 :]
        decision, is_spent = next((each for each in row if each in possible), _D.GIVE_UP), False
        if {*row} - {_D.GIVE_UP} and self.errors_left < 1:
            decision, is_spent = _D.GIVE_UP, True
        elif decision is not _D.GIVE_UP:
            self._count_error()
        waits = decision in (_D.RETRY, _D.GO_ON)
        return ErrorContext(
            component,
            error,
            attempt,
            decision,
            "budget" if is_spent else "row",
            correlation_id=correlation_id,
            subtask=subtask,
            detail=clip(detail, MAX_ERROR_TEXT),
            seconds=self._backoff.delay(attempt) if waits else 0.0,
        )

    @property
    def errors_left(self) -> int:
        """How many more errors would be handled now."""
        begin = shared_time() - self._period
        while self._error_times and self._error_times[0] <= begin:
            self._error_times.popleft()
        return self._errors - len(self._error_times)

    def _count_error(self) -> bool:
        """Count an error; return False if the budget is spent."""
        if self.errors_left < 1:
            return False
        self._error_times.append(shared_time())
        return True

    async def recover(self, run: PlanRun, failure: Failure) -> ErrorContext:
        """Decide what to do about a failed subtask."""
        await trio.lowlevel.checkpoint()
        return self.decide(
            self._component(failure),
            failure.error_class,
            failure.attempt,
            possible=failure.possible,
            detail=failure.error,
            correlation_id=failure.session_id,
            subtask=failure.subtask.id,
        )

    @staticmethod
    def _component(failure: Failure) -> Component:
        if failure.reason is FailureReason.INPUT:
            return Component.PLAN
        tool = failure.tools.get(failure.subtask.tool)
        if tool is None:
            return Component.AGENT
        return Component.TOOL if may_repeat(tool) else Component.EFFECT

    def model(self, llm: LLMProvider | str, *, use_text_tools: bool = False) -> LLMProvider:
        """Apply this policy to a model: retries, fallbacks, and what to do about its mistakes.

        The agent that uses the model publishes each handled error. A mistake that is repeated
        beyond its row (an unknown tool, the same call) ends the turn with an error.

        Args:
            llm: the model, or its name.
            use_text_tools: whether to wrap the model in `TextTools`, for one without tool calls.

        Raises:
            ConfigurationError: a model that is given by name can't be opened.
        """
        row = self._rows[_M, _C.TRANSIENT]
        tries = next((n for n, each in enumerate(row) if each is not _D.RETRY), len(row))
        retry = Retry(attempts=tries + 1, backoff=self._backoff, retryable=self._may_retry)
        made = resilient(llm, retry=retry, fallback=self._fallback, after_output="restart")
        others = [TextTools(each) if use_text_tools else each for each in self._fallback]
        return WatchedModel(TextTools(made) if use_text_tools else made, self._judge, others)

    def _judge(
        self,
        error: ErrorClass,
        attempt: int,
        detail: str,
        session_id: str,
        possible: AbstractSet[RecoveryDecision],
    ) -> ErrorContext:
        return self.decide(
            _M, error, attempt, possible=possible, detail=detail, correlation_id=session_id
        )

    def _may_retry(self, error: Exception) -> bool:
        return is_retryable(error) and self._count_error()


def _check_row(row: object) -> Row:
    """Return a row of the table, given by its two words or their enums.

    Raises:
        ConfigurationError: it is not a component and a class.
    """
    rows = {f"{each} {error}": (each, error) for each, error in product(Component, ErrorClass)}
    words = " ".join(map(str, row)) if isinstance(row, tuple) else str(row)
    if words in rows and isinstance(row, tuple):
        return rows[words]
    hint = suggest(words, rows) or 'write a pair such as ("model", "transient")'
    raise ConfigurationError(f"{row!r} is not a row", hint=hint)
