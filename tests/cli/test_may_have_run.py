"""A question about work that may have run, and its three answers, in a real terminal."""

import sys
from pathlib import Path

import pytest

from tests.terminal_program import TerminalProgram

PROGRAM = Path(__file__).parent / "cut_off.py"
COMMAND = [sys.executable, str(PROGRAM)]
ENTER = "\r"
CHOICES = "[y] it did not run: run it  [d] it ran  [n] leave it out"


@pytest.fixture
def start(tmp_path, env):
    programs = []

    def start(term="xterm-256color"):
        programs.append(TerminalProgram(COMMAND, tmp_path, {**env, "TERM": term}))
        return programs[-1]

    yield start
    for program in programs:
        program.close()


def ask(program):
    program.type("Ada\n")
    return program.wait_for("trip asks: Run the node book again", CHOICES, "allow? >")


def leave(program):
    program.type("/quit" + ENTER)
    assert program.wait() == 0


@pytest.mark.parametrize(
    ("typed", "shown", "hidden"),
    [("y", ("allowed by user", "booked now"), "denied"), ("n", ("denied by user",), "booked now")],
)
def test_it_did_not_run_or_is_left_out(start, typed, shown, hidden):
    program = start()
    assert "can't be remembered" not in ask(program)
    program.type(typed + ENTER)
    program.wait_for(*shown, '{"boat":"Ada"', without=[hidden])
    leave(program)


@pytest.mark.parametrize(
    ("term", "typed", "shown"),
    [
        ("xterm-256color", "", ("it ran, result not known", '{"boat":"Ada"}')),
        ("xterm-256color", '{"booked": "on Monday"}', ("it ran, with this result", "on Monday")),
        ("dumb", '{"booked": "on Monday"}', ("it ran, with this result", "on Monday")),
    ],
)
def test_it_ran(start, term, typed, shown):
    program = start(term)
    ask(program)
    program.type("d" + ENTER)
    program.wait_for("its result, empty if not known >")
    program.type(typed + ENTER)
    program.wait_for(*shown, without=["booked now"])
    leave(program)
