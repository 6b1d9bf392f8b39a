"""Our own agents and tools, cancelled everywhere: nothing is found."""

import os

import pytest

from greenroom.session import AgentSession
from greenroom.testing.fuzz import INVARIANTS, MODES, Scenario, cancel_at_every_checkpoint
from tests.conftest import few
from tests.testing.fuzz import scenarios

EVERYWHERE = os.environ.get("GREENROOM_FUZZ") == "all"
"""Try every checkpoint, where otherwise they are taken in turns."""


def test_the_coder_can_be_cancelled_anywhere():
    report = cancel_at_every_checkpoint(
        scenarios.bakery,
        invariants=[*INVARIANTS, *scenarios.OF_THE_BAKERY],
        at_most=None if EVERYWHERE else few(40),
    )
    assert report.checkpoints > 250
    assert sum(report.cancels.values()) >= few(36)
    assert set(report.cancels) == set(MODES)


def test_a_loop_whose_turns_are_steered_can_be_cancelled_anywhere():
    report = cancel_at_every_checkpoint(
        lambda: scenarios.bakery(scenarios.steered_coder),
        invariants=[*INVARIANTS, *scenarios.OF_THE_BAKERY],
        at_most=None if EVERYWHERE else few(15),
    )
    assert sum(report.cancels.values()) >= few(12)


def test_an_agent_whose_runtime_is_left_before_it_begins_has_not_crashed():
    async def parent(agent):
        agent.spawn(AgentSession.new("take"), scenarios.take)
        await scenarios.take(agent)

    cancels = cancel_at_every_checkpoint(
        lambda: Scenario(parent, inputs="Go!"), modes=["cancel", "kill"], at=range(1, 12)
    ).cancels
    assert sum(cancels.values()) == 22


@pytest.mark.parametrize(
    "scenario",
    [scenarios.office, scenarios.restaurant, scenarios.company, scenarios.studio, scenarios.site],
    ids=lambda scenario: scenario.__name__,
)
@pytest.mark.every(3)
def test_loops_of_every_kind_can_be_cancelled_anywhere(scenario):
    report = cancel_at_every_checkpoint(scenario, at_most=None if EVERYWHERE else few(15))
    assert sum(report.cancels.values()) >= few(12)
