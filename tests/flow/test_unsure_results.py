"""A result of which its agent is not sure changes the plan, like a failure."""

import msgspec
import pytest

from greenroom import Agent, ConfigurationError, Guard, Reject
from greenroom.flow import Opinion, Plan, ReplanPolicy, Subtask
from greenroom.flow._internal import FailureReason
from greenroom.testing import ScriptedProvider
from tests.flow.planned import Planned
from tests.flow.test_execute import Written


def is_sure(context, text):
    confidence = msgspec.json.decode(text)["confidence"]
    return Reject(f"its confidence is {confidence}") if confidence < 0.5 else None


@pytest.mark.parametrize(("confidence", "revisions"), [(0.9, 0), (0.2, 1)])
async def test_a_low_confidence_of_a_critical_subtask_revises_the_plan_at_once(
    confidence, revisions
):
    opinions = [Opinion("in 1990", confidence, "a guess"), Opinion("in 1991", 1.0, "a source")]
    llm = ScriptedProvider(*(msgspec.json.encode(each).decode() for each in (*opinions, *opinions)))
    worker = Agent(llm, output_type=Opinion, guards=[Guard(is_sure)])
    guess = Subtask("guess", "When was it?", critical=True)
    planner = Written(Plan("", [Subtask("look", "Look it up.")]))
    later = Subtask("write", "Write.", after=["guess"])
    planned = Planned(Plan("", [guess, later]), worker, planner=planner)
    await planned.carry_out()
    assert planned.run.revisions == revisions
    if revisions:
        (failure,) = planner.failures
        assert (failure.subtask.id, failure.reason) == ("guess", FailureReason.WORKER)
        assert "is_sure has rejected the output: its confidence is 0.2" in failure.error
        assert planned.run.results["look"]["answer"] == "in 1991"


def opinions(*confidences):
    texts = (msgspec.json.encode(Opinion("in 1990", each, "a guess")) for each in confidences)
    return Agent(ScriptedProvider(*(text.decode() for text in texts)), output_type=Opinion)


@pytest.mark.parametrize(("confidence", "revisions"), [(0.5, 0), (0.4, 1)])
async def test_a_confidence_below_that_of_the_policy_revises_the_plan_at_once(
    confidence, revisions
):
    planner = Written(Plan("", [Subtask("look", "Look it up.")]))
    plan = Plan("", [Subtask("guess", "When?"), Subtask("other", "What?", after=["guess"])])
    policy = ReplanPolicy(confidence=0.5, consecutive=9)
    planned = Planned(plan, opinions(confidence, 1.0), planner=planner, policy=policy)
    await planned.carry_out()
    assert planned.run.revisions == revisions
    if revisions:
        (failure,) = planner.failures
        assert failure.reason is FailureReason.UNSURE
        assert failure.error == "its confidence is 0.4, below 0.5: in 1990 (a guess)"
        assert planned.run.results["look"]["confidence"] == 1.0


async def test_without_a_confidence_or_a_policy_of_it_each_result_counts():
    plan = Plan("", [Subtask("guess", "When?")])
    planned = Planned(plan, opinions(0.0))
    await planned.carry_out()
    assert planned.run.is_completed
    plain = Planned(plan, Agent(ScriptedProvider("1990")), policy=ReplanPolicy(confidence=1.0))
    await plain.carry_out()
    assert plain.run.results == {"guess": "1990"}
    with pytest.raises(ConfigurationError, match="confidence is 2"):
        ReplanPolicy(confidence=2)
