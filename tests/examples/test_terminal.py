"""Examples in a real pseudo-terminal, answered and interrupted by its keys."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.terminal_program import TerminalProgram

EXAMPLES = Path(__file__).parents[2] / "examples"
ENTER, ESCAPE, CTRL_C = "\r", "\x1b", "\x03"


@pytest.fixture
def start(tmp_path):
    started = []

    def start(name, term="xterm-256color"):
        kept = {name: os.environ[name] for name in os.environ if name.startswith(("COV", "PATH"))}
        environment = {**kept, "HOME": str(tmp_path), "TERM": term, "LANG": "C.UTF-8"}
        started.append(
            TerminalProgram([sys.executable, str(EXAMPLES / name)], tmp_path, environment)
        )
        return started[0]

    yield start
    started[0].close()


def test_a_session_with_prompts_an_interrupt_and_an_end(start, tmp_path):
    program = start("terminal.py")
    program.wait_for("/help")
    program.type("run touch made" + ENTER)
    program.wait_for("asks: Run a command (Bash)", "touch made", "allow? >")
    program.type("n" + ENTER)
    program.wait_for("Bash denied by user", "idle")
    assert not (tmp_path / "made").exists()
    program.type("run touch made; sleep 600" + ENTER)
    program.wait_for("made; sleep 600", "allow? >")
    program.type("y" + ENTER)
    program.wait_for("Bash allowed by user", "Esc interrupts")
    program.type(ESCAPE)
    program.wait_for("interrupted", "idle")
    program.type(CTRL_C)  # the first one never leaves
    program.wait_for("Ctrl-C again leaves")
    program.type(CTRL_C)
    assert program.wait() == 0
    (session,) = (tmp_path / "sessions").iterdir()
    assert b"touch made; sleep 600" in (session / "history.jsonl").read_bytes()


def test_the_coder_of_primitives_asks_and_answers_in_the_terminal(start, tmp_path):
    program = start("coder.py")
    program.wait_for("/help")
    program.type("run echo ab > made" + ENTER)
    program.wait_for("asks: Run a command (Bash)", "allow? >")
    program.type("y" + ENTER)
    program.wait_for("Bash allowed by user", "idle")
    assert (tmp_path / "made").read_text() == "ab\n"
    program.type("\x04")
    assert program.wait() == 0


def test_a_plan_is_one_list_whose_marks_move(start):
    program = start("bug_hunt.py")
    program.wait_for("▶ basket  Find", "▶ dates   Find", "▶ stack   Find", "☐ report  Report")
    screen = program.wait_for("plan: 4 of 4 done", "three bugs: see the report.", "idle")
    assert screen.count("plan: ") == screen.count("☑ report  Report") == 1
    assert re.search("stack +│ push has a list for its default", screen)
    lines = screen.splitlines()
    head = next(at for at, line in enumerate(lines) if line.startswith("plan: "))
    names = ("basket", "dates", "stack", "report")
    assert [line[:9].split()[1] for line in lines[head + 1 : head + 5]] == [*names]
    program.type("/quit" + ENTER)
    assert program.wait() == 0
    assert "greenroom plan show" in program.screen


def test_on_a_terminal_that_can_not_redraw_each_change_is_a_line(start):
    program = start("bug_hunt.py", term="dumb")
    program.wait_for("plan: report completed", "three bugs: see the report.")
    program.type("/quit" + ENTER)
    assert program.wait() == 0
    lines = [line for line in program.output.decode().splitlines() if line.startswith("plan: ")]
    assert lines[0] == "plan: 4 subtasks"
    assert len(lines) == len(set(lines)) == 9
