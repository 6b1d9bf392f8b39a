"""Patterns cost as much as their agents."""

import runpy
from functools import partial
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
BENCHMARK = runpy.run_path(str(BENCHMARKS / "teams.py"))


@pytest.mark.parametrize("name", BENCHMARK["WAYS"])
def test_a_pattern_takes_at_most_a_third_more_passes_than_the_same_by_hand(name):
    by_hand, pattern = (BENCHMARK["run"](way)[0] for way in BENCHMARK["WAYS"][name])
    assert pattern <= BENCHMARK["MAX_RATIO"] * by_hand


def test_agents_as_a_node_take_few_more_passes_than_by_hand():
    benchmark = runpy.run_path(str(BENCHMARKS / "workflows.py"))
    by_hand = benchmark["measure"](partial(benchmark["by_hand"], None))[0]
    as_node = benchmark["measure"](
        partial(benchmark["run"], benchmark["agents"](), benchmark["AGENTS"], None)
    )[0]
    assert as_node <= benchmark["MAX_RATIO"] * by_hand
