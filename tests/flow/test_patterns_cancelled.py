"""Patterns that are interrupted at every checkpoint leave nothing running."""

import pytest
import trio

from greenroom import Agent
from greenroom.flow import Subtask, composite, handoff_team, loop, parallel, pipeline
from greenroom.testing import Scenario, ScriptedProvider, call, cancel_at_every_checkpoint
from tests.conftest import few


async def look() -> str:
    """Look."""
    await trio.sleep(1)
    return "seen"


def model(request):
    return "Done." if request.messages[-1].tool_results else call("look")


def member(name="member", **options):
    return Agent(ScriptedProvider(*[model] * 50), tools=[look], name=name, **options)


def handoffs():
    first = Agent(
        ScriptedProvider(*[call("transfer_to_member")] * 50), name="first", handoffs=["member"]
    )
    return handoff_team(first, member())


def delegates():
    def boss(request):
        return "Done." if request.messages[-1].tool_results else call("look_twice")

    steps = [Subtask("a", "", tool="look"), Subtask("b", "{a}", tool="look")]
    tool = composite("look_twice", steps, "{b}", tools=[look], description="Looks.")
    return Agent(ScriptedProvider(*[boss] * 50), tools=[tool])


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "make",
    [
        lambda: pipeline(parallel(member("a"), member("b")), loop(member("c"), max_rounds=2)),
        handoffs,
        delegates,
    ],
    ids=["pipeline, parallel, loop", "handoffs", "composite"],
)
def test_a_cancel_at_any_checkpoint_leaves_nothing_behind(make):
    report = cancel_at_every_checkpoint(lambda: Scenario(make(), inputs="Look!"), at_most=few(15))
    assert report.violations == ()
