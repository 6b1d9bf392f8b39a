"""The table of benchmarks: its rows can be measured, and the page shows them."""

import inspect
from pathlib import Path

import pytest

from benchmarks import __main__ as command, report
from benchmarks.rows import ROWS, Row
from benchmarks.sample import Meter, find

PAGE = Path(__file__).parents[2] / "docs/reference/benchmarks.md"


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_row_names_workloads_that_there_are(row):
    for name in (row.ours, row.floor):
        if not name.startswith(("from ", "import ")):
            assert inspect.iscoroutinefunction(find(name))
    assert f"| {row.title} |" in PAGE.read_text()


def test_rows_have_names_of_their_own_and_can_be_chosen_by_them():
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert [row.name for row in command.choose("load,import")] == ["load", "import"]
    with pytest.raises(SystemExit, match="no row is named speed"):
        command.choose("speed")


def sample(seconds, *steps):
    return {"cpu": seconds, "wall": 2 * seconds, "memory": 10.0, "steps": list(steps)}


def test_a_ratio_is_the_median_of_the_ratios_of_each_round():
    row = Row("r", "a row", "ours", "floor", "step", 2.0)
    samples = {
        "floor": [sample(1), sample(10), sample(2)],
        "ours": [sample(2, 0.1, 0.3), sample(15, 0.2), sample(8)],
        "other": [sample(9), sample(90), sample(18)],
    }
    found = command.summarize(row, samples)
    assert found["ratios"] == {"ours": [1.75, 2.0, 3.0], "other": [9.0, 9.0, 9.0]}
    assert (found["floor"], found["p50"], found["p99"]) == (2, 0.2, 0.3)
    assert not report.is_broken(found)
    assert report.is_broken({**found, "most": 1.9})
    assert "**2.00 ×**" in report.as_markdown([found])
    text = report.as_text([found], command.describe_machine())
    assert "other" in text
    assert "OVER" not in text
    assert ">2.00</text>" in report.as_svg([found], command.describe_machine())


def test_a_meter_counts_what_is_between_its_beginning_and_its_end():
    meter = Meter()
    meter.begin()
    meter.end(4)
    taken = meter.taken()
    assert 0 <= float(str(taken["cpu"])) < 60
    assert taken["steps"] == []
