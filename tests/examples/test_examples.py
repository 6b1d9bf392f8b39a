"""Each program in `examples/` does what it says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, *arguments, cwd):
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd / "home")}
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


def test_every_example_has_a_test():
    text = Path(__file__).read_text() + (Path(__file__).parent / "test_terminal.py").read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f'"{path.name}"' in text


def test_a_custom_agent(tmp_path):
    assert run("custom_agent.py", cwd=tmp_path).splitlines() == [
        "tool: Middlemarch is book number 1",
        "model: It is on the shelf.",
    ]


def test_subagents_waited_for_and_in_the_background(tmp_path):
    assert run("subagents.py", cwd=tmp_path).splitlines() == [
        "waited for: 5 words; counter is on its way",
        "in the background: 10 words",
    ]


def test_a_group_is_started_again_and_an_end_is_told(tmp_path):
    assert run("supervision.py", cwd=tmp_path).splitlines() == [
        "asked the broken source: failed, ConnectionResetError: the source hung up",
        "desk: news from the harbour, line 1",
        "desk: starts life 2, because feed crashed",
        "desk: news from the market, line 3",
        "feed: 1 restart",
        "desk: 1 restart",
        "guard: the feed has ended: ConnectionResetError: the source hung up",
    ]


def test_a_fan_out_in_its_three_ways(tmp_path):
    assert run("fan_out.py", cwd=tmp_path).splitlines() == [
        "all: core is fine; tools is fine; runtime is fine",
        "the first: ['runtime is fine']",
        "core: not needed any more",
        "misspelt: there is no package misspelt",
        "tools: not needed any more",
    ]


def test_budgets_of_a_block_and_of_a_purse(tmp_path):
    assert run("budgets.py", cwd=tmp_path).splitlines() == [
        "block: the budget of first is spent: 2 tool calls",
        "first: An actor is an agent.",
        "block: the budget of second is spent: a cost of 3",
        "second: the budget of second is spent: a cost of 3",
        "spent: 3.0",
    ]


def test_a_killable_tool_is_stopped_by_its_limit_and_by_an_interrupt(tmp_path):
    assert run("killable_tool.py", cwd=tmp_path).splitlines() == [
        "tool: a green room",
        "tool: search was stopped: it used more than 1 s of CPU time",
        "interrupted, and left behind: 0",
        "model: I am still here.",
    ]


def test_instruments_that_watch_and_that_rewrite(tmp_path):
    assert run("instrument.py", cwd=tmp_path).splitlines() == [
        "Ann asks scripted:script",
        "Ann called publish: index is in drafts",
        "Ann asks scripted:script",
        "Ann has completed",
    ]


def test_the_coder_of_primitives_reads_a_file_and_leaves_a_session(tmp_path):
    (tmp_path / "README.md").write_text("# Of mice and agents\n")
    assert "Of mice and agents" in run("coder.py", "read README.md", cwd=tmp_path)
    (folder,) = (tmp_path / "sessions").iterdir()
    assert (folder / "history.jsonl").read_bytes().count(b"\n") > 1


def test_the_coder_of_primitives_fits_on_two_screens():
    assert len((EXAMPLES / "coder.py").read_text().splitlines()) <= 132


@pytest.mark.parametrize("path", list(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_examples_use_nothing_private(path):
    assert "._" not in path.read_text()


def test_what_is_allowed_can_still_not_do_everything_in_a_sandbox(tmp_path):
    assert run("sandbox.py", cwd=tmp_path).splitlines() == [
        "asked for: workspace-write with network none",
        "cpu is held by: RLIMIT_CPU, each process",
        "write here: kept",
        "reach a host: no network",
        "fill the disk: 1048576",
    ]
