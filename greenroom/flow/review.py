"""`ReviewedPlanner`: plans that a person approves before they start."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal, TypeAlias

from greenroom.core import ConfigurationError
from greenroom.core._internal import AUTOMATIC_DECIDERS, clip, serde
from greenroom.flow.errors import PlanError
from greenroom.flow.model_planner import describe_plan
from greenroom.flow.plan import Plan
from greenroom.flow.plan_run import PlanRun
from greenroom.flow.revision import Failure, Planner
from greenroom.runtime import AgentInternals
from greenroom.tools import ToolRegistry

_PROPOSALS = 3
_UNSURE = 0.5
_LONGEST = 2000  # characters of a result in a question about it


class ReviewPoint(StrEnum):
    """Where a person has to approve.

    Attributes:
        PLAN: a plan, before it starts.
        REVISION: a revised plan, before it goes on.
        SUBTASK: the end of each subtask, before others get its result.
        UNSURE: the result of a subtask that states a `confidence` below one half, such as an
            `Opinion`, before others get it.
    """

    PLAN = "plan"
    REVISION = "revision"
    SUBTASK = "subtask"
    UNSURE = "unsure"


ReviewWord: TypeAlias = Literal["plan", "revision", "subtask", "unsure"]
"""A `ReviewPoint` as programs write it."""


_QUESTIONS = {
    ReviewPoint.PLAN: ("Start this plan", "the plan is to be reviewed before it starts"),
    ReviewPoint.REVISION: ("Go on with this plan", "it was revised, and is to be reviewed first"),
}


def read_points(review: bool | Iterable[ReviewWord]) -> frozenset[ReviewPoint]:
    """Return the points of a review; True stands for every plan that would start.

    Raises:
        ConfigurationError: one is not among these words.
    """
    if isinstance(review, bool):
        return frozenset({ReviewPoint.PLAN, ReviewPoint.REVISION} if review else ())
    try:
        return frozenset(map(ReviewPoint, [review] if isinstance(review, str) else review))
    except ValueError as error:
        hint = f"write True, or some of {', '.join(ReviewPoint)}"
        raise ConfigurationError(f"review: {error}", hint=hint) from None


@dataclass(frozen=True)
class ReviewedPlanner:
    """A planner whose plans a person approves before they start."""

    planner: Planner
    agent: AgentInternals
    points: frozenset[ReviewPoint]

    async def plan(self, goal: str, tools: ToolRegistry, context: str) -> Plan:
        """Make a plan; after a denial with a message, another one.

        Raises:
            PlanError: there is no plan, or the person approves none.
        """

        async def propose(told: str) -> Plan:
            return await self.planner.plan(goal, tools, told)

        return await self._have_approved(ReviewPoint.PLAN, context, propose)

    async def revise(self, run: PlanRun, failure: Failure) -> Plan:
        """Revise a plan; after a denial with a message, in another way.

        Raises:
            PlanError: there is no other plan, or the person approves none.
        """

        async def propose(told: str) -> Plan:
            plan = await self.planner.revise(run, replace(failure, error=told))
            return run.revise(plan).plan  # with what is completed

        return await self._have_approved(ReviewPoint.REVISION, failure.error, propose)

    async def _have_approved(
        self, point: ReviewPoint, told: str, propose: Callable[[str], Awaitable[Plan]]
    ) -> Plan:
        """Propose plans, each by what the planner was told and by what is to be changed."""
        change, (action, reason) = "", _QUESTIONS[point]
        for _ in range(_PROPOSALS):
            plan = await propose(told)
            if point not in self.points:
                return plan
            proposed = describe_plan(plan)
            change = await self._ask_for_change(action, f"{plan.goal}\n{proposed}", reason)
            if not change:
                return plan
            told += f"\n\nA plan that was proposed:\n{proposed}\nWhat is to be changed: {change}"
            told = told.strip()
        raise PlanError(f"none of {_PROPOSALS} plans was approved", hint=change)

    async def review_end(self, run: PlanRun, id_: str) -> None:
        """Ask a person to approve the end of a subtask, where that is wanted.

        Raises:
            PlanError: the person does not approve it.
        """
        state = run.state(id_)
        is_wanted = ReviewPoint.UNSURE in self.points and _is_unsure(state.result)
        if ReviewPoint.SUBTASK not in self.points and not is_wanted:
            return
        shown = state.error or clip(serde.to_text(state.result), _LONGEST)
        answer = await self.agent.request_permission(
            "plan",
            f"Go on after the subtask {id_}",
            details=f"{run.plan[id_].goal}\n{state.status}: {shown}",
            reason="each result is to be reviewed",
        )
        if not answer.allowed:
            raise PlanError(f"the work was stopped: {answer.message or 'a person declined it'}")

    async def _ask_for_change(self, action: str, details: str, reason: str) -> str:
        """Ask a person to approve a plan; return the change that they want, if any."""
        answer = await self.agent.request_permission("plan", action, details=details, reason=reason)
        if answer.allowed:
            return ""
        if answer.message and answer.by not in AUTOMATIC_DECIDERS:
            return answer.message
        raise PlanError(f"the plan was not approved: {answer.message or 'a person declined it'}")


def _is_unsure(result: object) -> bool:
    confidence = result.get("confidence") if isinstance(result, Mapping) else None
    return isinstance(confidence, int | float) and confidence < _UNSURE
