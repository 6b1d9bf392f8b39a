"""The protocols for making and revising plans, and when a plan is revised."""

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from greenroom.core import ConfigurationError
from greenroom.core._internal import serde
from greenroom.flow.error_context import ErrorClass, ErrorContext, RecoveryDecision
from greenroom.flow.graph import is_count
from greenroom.flow.plan import Plan, Subtask
from greenroom.flow.plan_run import FailureReason, PlanRun
from greenroom.flow.strategies import AgentAnswer
from greenroom.resilience import Backoff, Retry
from greenroom.tools import ToolRegistry


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A failed subtask, as a `Planner` or `SubtaskRecovery` gets it.

    Attributes:
        subtask: the subtask as it is in the plan.
        error: what went wrong.
        reason: what kind of failure it is.
        failures: how often the subtask has failed, without the tries of a `RecoveryPolicy`.
        tools: the tools that subtasks may name.
        error_class: what kind of error it was.
        attempt: how often it has failed in this execution, with all tries.
        possible: the possible decisions.
        session_id: the session in which it failed.
    """

    subtask: Subtask
    error: str
    reason: FailureReason
    failures: int
    tools: ToolRegistry
    error_class: ErrorClass = ErrorClass.FAILED
    attempt: int = 1
    possible: frozenset[RecoveryDecision] = frozenset(RecoveryDecision)
    session_id: str = ""


@runtime_checkable
class Planner(Protocol):
    """Makes a plan for a goal, and another one after a failure.

    `ModelPlanner` asks a model; a `Plan` of your own is a planner, too.
    """

    async def plan(self, goal: str, tools: ToolRegistry, context: str) -> Plan:
        """Make a plan.

        Args:
            goal: the goal.
            tools: the tools that subtasks may name.
            context: what else is known, such as memories of earlier work.

        Raises:
            PlanError: no plan could be made.
        """

    async def revise(self, run: PlanRun, failure: Failure) -> Plan:
        """Make a plan for the remaining work.

        Completed subtasks are kept, even if the new plan lacks them.

        Raises:
            PlanError: no other plan could be made.
        """


SubtaskDecision: TypeAlias = (
    Literal["retry", "go_on", "ask_person", "replan", "give_up"] | ErrorContext
)
"""What to do about a failed subtask; an `ErrorContext` adds the reason.

"retry" makes a new call or starts a new agent, "go_on" continues its conversation, "ask_person"
asks a person whether to try again, "replan" revises the plan at once, "give_up" does nothing.
"""


@runtime_checkable
class SubtaskRecovery(Protocol):
    """Decides what to do about a failed subtask, before the plan is revised."""

    async def recover(self, run: PlanRun, failure: Failure) -> SubtaskDecision:
        """Decide what to do about a failed subtask.

        Return "retry" only if the failed call may be made twice. If a person is asked and declines,
        this is called again for the same failure, and another try is no longer `possible`.

        An `ErrorContext` is published as a chunk. Its tries begin after its `seconds` and do not
        count in `ReplanPolicy`, since its author has a limit of its own.
        """


_RETRY = Retry(attempts=3, backoff=Backoff(first=0.0))


@dataclass(frozen=True, kw_only=True)
class ReplanPolicy:
    """When a planner revises a plan.

    A plan with failures is revised when nothing else in it can be done. If one of these settings
    applies, it is revised earlier: no more subtasks start, running ones finish, and the planner is
    asked.

    Args:
        retry: how often one subtask is run at most, where `recovery` says to retry it, and the
            waits before: its `attempts` and `backoff`.
        consecutive: how many failures without a completed subtask in between trigger a revision.
        confidence: how sure the agent of a subtask has to be, from 0 to 1, if it says so with an
            `Opinion`. Below, the subtask has failed, and the plan is revised at once.
        critical_immediate: whether the failure of a critical subtask triggers a revision.
        revisions: how often a plan may be revised.

    Raises:
        ConfigurationError: a number is too low.
    """

    retry: Retry = _RETRY
    consecutive: int = 2
    critical_immediate: bool = True
    revisions: int = 3
    confidence: float | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.confidence is not None and not 0 <= self.confidence <= 1:
            raise ConfigurationError(
                f"ReplanPolicy.confidence is {self.confidence!r}", hint="give a number from 0 to 1"
            )
        for name, least in (("consecutive", 1), ("revisions", 0)):
            if not is_count(getattr(self, name), least):
                raise ConfigurationError(
                    f"ReplanPolicy.{name} must be a whole number, {least} or more"
                )

    def find_doubt(self, result: object) -> str:
        """Return why a result does not count: its agent is not sure enough; else an empty text."""
        answer = AgentAnswer.of("", result)
        if (
            self.confidence is None
            or (sure := answer.confidence) is None
            or sure >= self.confidence
        ):
            return ""
        said = f"{serde.to_text(answer.value)} ({answer.reason})" if answer.reason else answer.value
        return f"its confidence is {sure:g}, below {self.confidence:g}: {serde.to_text(said)}"

    def is_due(self, failure: Failure, consecutive: int) -> bool:
        """Whether to revise the plan at once, after this many failures in a row."""
        is_critical = failure.subtask.critical and self.critical_immediate
        is_unsure = failure.reason is FailureReason.UNSURE
        return is_critical or is_unsure or consecutive >= self.consecutive
