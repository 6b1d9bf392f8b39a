"""Patterns cost what their agents cost."""

import runpy
from pathlib import Path

import pytest

BENCHMARK = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "teams.py"))


@pytest.mark.parametrize("name", BENCHMARK["WAYS"])
def test_a_pattern_takes_at_most_a_third_more_passes_than_the_same_by_hand(name):
    by_hand, pattern = (BENCHMARK["run"](way)[0] for way in BENCHMARK["WAYS"][name])
    assert pattern <= BENCHMARK["MAX_RATIO"] * by_hand
