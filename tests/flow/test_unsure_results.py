"""A result of which its agent is not sure changes the plan, like a failure."""

import msgspec
import pytest

from greenroom import Agent, Guard, Reject
from greenroom.flow import FailureReason, Opinion, Plan, Subtask
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
