"""Who makes plans and revises them, and when a plan is revised."""

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from greenroom.core import ConfigurationError
from greenroom.planning.error_context import Decision, ErrorClass, ErrorContext
from greenroom.planning.plan import Plan, Subtask
from greenroom.planning.plan_run import FailureReason, PlanRun
from greenroom.tools import ToolRegistry


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A subtask that has failed, for those who decide what comes of it.

    Attributes:
        subtask: the subtask, as it stands in the plan.
        error: what went wrong.
        reason: what kind of failure it is.
        failures: how often the subtask has failed by now; tries that a `RecoveryPolicy` had made do
            not count.
        tools: the tools that subtasks may name.
        error_class: what kind of error it was.
        attempt: how often it has failed in this execution, each try counted.
        possible: what can come of it now.
        session_id: the session in which it has failed.
    """

    subtask: Subtask
    error: str
    reason: FailureReason
    failures: int
    tools: ToolRegistry
    error_class: ErrorClass = ErrorClass.FAILED
    attempt: int = 1
    possible: frozenset[Decision] = frozenset(Decision)
    session_id: str = ""


@runtime_checkable
class Planner(Protocol):
    """Makes a plan for a goal, and another one where it has failed.

    `ModelPlanner` asks a model; a `Plan` that you have written is a planner, too.
    """

    async def plan(self, goal: str, tools: ToolRegistry, context: str) -> Plan:
        """Make a plan.

        Args:
            goal: what is to be reached.
            tools: the tools that subtasks may name.
            context: what else is known, such as memories of earlier work.

        Raises:
            PlanError: there is no way to the goal.
        """
        ...

    async def revise(self, run: PlanRun, failure: Failure) -> Plan:
        """Make a plan for what is left; what is completed is kept, whether the plan names it or not.

        Raises:
            PlanError: there is no other way.
        """
        ...


Recovered: TypeAlias = Literal["retry", "go_on", "ask_person", "replan", "give_up"] | ErrorContext
"""What comes of a failed subtask: a new call or agent; an agent that goes on in the conversation; another
try if a person says so; a revised plan at once; or nothing. An `ErrorContext` says it with its reason."""


@runtime_checkable
class Recovery(Protocol):
    """Decides what comes of a failed subtask, before the plan is looked at."""

    async def recover(self, run: PlanRun, failure: Failure) -> Recovered:
        """Say whether to try the subtask again, to revise the plan at once, or to leave it failed.

        It may wait before it answers, as long as it likes. Say "retry" only where a call that has
        failed may be made twice. Where a person was asked and did not agree, this is called once more
        for the same failure, of which another try is no longer among what is `possible`.

        An `ErrorContext` is published as a chunk. Its tries do not count in `ReplanPolicy`, since who
        makes one has a bound of its own; they begin after its `seconds`.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class ReplanPolicy:
    """When a plan is revised, where there is a planner.

    A plan with failures is revised when nothing else of it can be done. It is revised earlier where one
    of these says so: then no more subtasks start, those that run come to their end, and the planner is
    asked.

    Args:
        same_subtask: how often one subtask may fail; beyond that `recovery` gets no more tries for it.
        consecutive: how many failures, with no completed subtask between them, are reason enough.
        critical_immediate: whether the failure of a critical subtask is reason enough.
        revisions: how often a plan is revised at the most.

    Raises:
        ConfigurationError: a number is too low.
    """

    same_subtask: int = 3
    consecutive: int = 2
    critical_immediate: bool = True
    revisions: int = 3

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        for name, least in (("same_subtask", 1), ("consecutive", 1), ("revisions", 0)):
            if getattr(self, name) < least:
                raise ConfigurationError(f"ReplanPolicy.{name} must be {least} or more")

    def is_due(self, subtask: Subtask, consecutive: int) -> bool:
        """Whether this failure, the last of so many in a row, is reason to revise the plan at once."""
        is_critical = subtask.critical and self.critical_immediate
        return is_critical or consecutive >= self.consecutive
