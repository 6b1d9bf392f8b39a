"""`ReviewedPlanner`: plans that a person approves before they start."""

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from greenroom.core import ConfigurationError
from greenroom.core._internal import AUTOMATIC_DECIDERS, Wire, clip, serde
from greenroom.flow.errors import PlanError
from greenroom.flow.model_planner import describe_plan
from greenroom.flow.plan import Plan
from greenroom.flow.plan_run import PlanRun
from greenroom.flow.revision import Failure, Planner
from greenroom.runtime import AgentInternals
from greenroom.session._internal import LONGEST_RECORD
from greenroom.tools import ToolRegistry

_PROPOSAL = "plan.proposal"
"""The kind of the records of what is proposed."""

_PROPOSALS = 3
_UNSURE = 0.5
_LONGEST = 2000  # characters of a result in a question about it


ReviewWord: TypeAlias = Literal["plan", "revision", "subtask", "unsure"]
"""Where a person has to approve, in this order:

a plan, before it starts; a revised plan, before it goes on; the end of each subtask, before others
get its result; and a result that states a `confidence` below one half, such as an `Opinion`.
"""

_WORDS: tuple[ReviewWord, ...] = get_args(ReviewWord)
_PLANS: frozenset[ReviewWord] = frozenset({"plan", "revision"})
_QUESTIONS: Mapping[ReviewWord, tuple[str, str]] = {
    "plan": ("Start this plan", "the plan is to be reviewed before it starts"),
    "revision": ("Go on with this plan", "it was revised, and is to be reviewed first"),
}


def read_review(review: bool | Iterable[ReviewWord]) -> frozenset[ReviewWord]:
    """Return the words of a review; True stands for every plan that would start.

    Raises:
        ConfigurationError: it has another word.
    """
    if isinstance(review, bool):
        return _PLANS if review else frozenset()
    words: list[str] = [review] if isinstance(review, str) else [*review]
    if wrong := [each for each in words if each not in _WORDS]:
        hint = f"write True, or some of {', '.join(_WORDS)}"
        raise ConfigurationError(f"review: {wrong[0]!r} is not one of its words", hint=hint)
    return frozenset(word for word in _WORDS if word in words)


@dataclass(frozen=True)
class ReviewedPlanner:
    """A planner whose plans a person approves before they start."""

    planner: Planner
    agent: AgentInternals
    review: frozenset[ReviewWord]

    async def plan(self, goal: str, tools: ToolRegistry, context: str) -> Plan:
        """Make a plan; after a denial with a message, another one.

        Raises:
            PlanError: there is no plan, or the person approves none.
        """

        async def propose(told: str) -> Plan:
            return await self.planner.plan(goal, tools, told)

        return await self._have_approved("plan", goal, context, propose)

    async def revise(self, run: PlanRun, failure: Failure) -> Plan:
        """Revise a plan; after a denial with a message, in another way.

        Raises:
            PlanError: there is no other plan, or the person approves none.
        """

        async def propose(told: str) -> Plan:
            plan = await self.planner.revise(run, replace(failure, error=told))
            return run.revise(plan).plan  # with what is completed

        about = f"{run.revisions} {failure.subtask.id} {run.plan.goal}"
        return await self._have_approved("revision", about, failure.error, propose)

    async def _have_approved(
        self, word: ReviewWord, about: str, told: str, propose: Callable[[str], Awaitable[Plan]]
    ) -> Plan:
        """Propose plans, each by what the planner was told and by what is to be changed.

        A plan that nobody has decided about when the process ended is proposed again.
        """
        if word not in self.review:
            return await propose(told)
        change, (action, reason) = "", _QUESTIONS[word]
        about = hashlib.sha256(about.encode("utf-8", "backslashreplace")).hexdigest()
        for _ in range(_PROPOSALS):
            stored = serde.convert(self.agent.session.last_record(_PROPOSAL), _Proposal | None)
            is_open = stored is not None and (stored.word, stored.about) == (word, about)
            plan = stored.plan if stored and is_open else await propose(told)
            self._note_proposal(_Proposal(word, about, plan))
            proposed = describe_plan(plan)
            change = await self._ask_for_change(action, f"{plan.goal}\n{proposed}", reason)
            if not change:
                return plan
            told += f"\n\nA plan that was proposed:\n{proposed}\nWhat is to be changed: {change}"
            told = told.strip()
        raise PlanError(f"none of {_PROPOSALS} plans was approved", hint=change)

    @property
    def reviews_ends(self) -> bool:
        """Whether a person may have to approve the end of a subtask."""
        return not self.review <= _PLANS

    async def review_end(self, run: PlanRun, id_: str) -> None:
        """Ask a person to approve the end of a subtask, where that is wanted.

        Raises:
            PlanError: the person does not approve it.
        """
        state = run.state(id_)
        is_wanted = "unsure" in self.review and _is_unsure(state.result)
        if "subtask" not in self.review and not is_wanted:
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
        self._note_proposal(None)
        if answer.allowed:
            return ""
        if answer.message and answer.by not in AUTOMATIC_DECIDERS:
            return answer.message
        raise PlanError(f"the plan was not approved: {answer.message or 'a person declined it'}")

    def _note_proposal(self, proposal: "_Proposal | None") -> None:
        encoded = serde.encode(proposal)
        if len(encoded) > LONGEST_RECORD:
            hint = "shorten goals and arguments, and keep long texts in files"
            raise PlanError(f"the plan is too long: {len(encoded):,} bytes", hint=hint)
        self.agent.session.add_record(_PROPOSAL, serde.loads(encoded))


class _Proposal(Wire, frozen=True):
    """A plan that a person is asked about, and what for, as a hash, which is short."""

    word: ReviewWord
    about: str
    plan: Plan


def _is_unsure(result: object) -> bool:
    confidence = result.get("confidence") if isinstance(result, Mapping) else None
    return isinstance(confidence, int | float) and confidence < _UNSURE
