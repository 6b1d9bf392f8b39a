"""Our own agents and tools, cancelled everywhere: nothing is found."""

import os

from greenroom.testing.fuzz import INVARIANTS, MODES, cancel_at_every_checkpoint
from tests.testing.fuzz import scenarios

EVERYWHERE = os.environ.get("GREENROOM_FUZZ") == "all"
"""Try every checkpoint, where otherwise they are taken in turns."""


def test_the_coder_can_be_cancelled_anywhere():
    report = cancel_at_every_checkpoint(
        scenarios.bakery,
        invariants=[*INVARIANTS, *scenarios.OF_THE_BAKERY],
        at_most=None if EVERYWHERE else 600,
    )
    assert report.checkpoints > 250
    assert sum(report.injected.values()) >= 500
    assert set(report.injected) == set(MODES)


def test_a_loop_whose_turns_are_steered_can_be_cancelled_anywhere():
    report = cancel_at_every_checkpoint(
        lambda: scenarios.bakery(scenarios.steered_coder),
        invariants=[*INVARIANTS, *scenarios.OF_THE_BAKERY],
        at_most=None if EVERYWHERE else 100,
    )
    assert sum(report.injected.values()) >= 90


def test_background_and_detached_subagents_can_be_cancelled_anywhere():
    report = cancel_at_every_checkpoint(scenarios.office, at_most=None if EVERYWHERE else 200)
    assert sum(report.injected.values()) >= 190
