"""A credential that a person types: it is on no screen, and in no file, once or ever."""

import hashlib
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.terminal_program import TerminalProgram

PROGRAM = Path(__file__).parent / "give_credential.py"
SECRET = "tok-9x7Kq2"
ENTER, ESCAPE, CTRL_C, CTRL_D, UP = "\r", "\x1b", "\x03", "\x04", "\x1b[A"
LABEL = "value, not shown >"
MASK = f"{LABEL} •••"
LATE = "the question is closed"


def print_of(secret):
    return hashlib.sha256(secret.encode()).hexdigest()[:12]


@pytest.fixture
def start(tmp_path, env):
    programs = []

    def start(**variables):
        variables = {**env, "TERM": "xterm-256color", **variables}
        command = [sys.executable, str(PROGRAM), str(tmp_path)]
        programs.append(TerminalProgram(command, tmp_path, variables))
        return programs[-1]

    yield start
    for program in programs:
        program.close()
        assert SECRET.encode() not in program.output
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"log", "chunks"} <= {path.name for path in written}
    assert not [path for path in written if SECRET[:6].encode() in path.read_bytes()]


def ask(program):
    program.wait_for("/help")
    program.type("What was ordered?" + ENTER)
    program.wait_for(
        "Give the credential shop token", "Account > API tokens", "[g] give it", "allow? >"
    )


def ask_for_value(program):
    ask(program)
    program.type("g" + ENTER)
    program.wait_for(LABEL)


def leave(program):
    program.type("/quit" + ENTER)
    assert program.wait() == 0


def test_what_is_typed_is_given_and_never_shown(start):
    program = start()
    ask_for_value(program)
    program.type("wrong\x15" + SECRET + "x\x7f")
    program.wait_for(MASK)
    program.type(ENTER)
    screen = program.wait_for("First done.", "idle")
    assert f"found by {print_of(SECRET)}, not by [shop token]" in screen
    leave(program)


def test_it_is_asked_for_once(start):
    program = start()
    ask_for_value(program)
    program.type(SECRET + ENTER)
    program.wait_for("First done.", "idle")
    program.type("Again?" + ENTER)
    program.wait_for("Second done.", "idle")
    leave(program)


def test_a_pasted_one_is_taken_whole_without_the_end_of_its_line(start):
    program = start()
    ask_for_value(program)
    program.type(f"\x1b[200~{SECRET}\r\n\x1b[201~")
    program.wait_for(MASK)
    program.type(ENTER)
    program.wait_for(print_of(SECRET), "First done.", "idle")
    leave(program)


def test_no_key_of_the_line_editor_keeps_or_shows_it(start):
    program = start()
    ask_for_value(program)
    # The beginning of a macro, cut, undo, older input, search, completion, an end of a macro.
    program.type("\x18(" + SECRET + "\x17\x0b\x1f" + UP + "\x12\t\x0f\x18)")
    program.wait_for(MASK)
    program.type("\x15" + SECRET + ENTER)
    program.wait_for(print_of(SECRET), "First done.", "idle")
    program.type("\x19\x18e" + UP)  # yank, play the macro, older input
    program.wait_for("> What was ordered?")
    leave_line(program)


def leave_line(program):
    program.type("\x15" + "/quit" + ENTER)
    assert program.wait() == 0


def test_nothing_typed_is_no_value_and_the_question_stays(start):
    program = start()
    ask_for_value(program)
    program.type(ENTER)
    program.wait_for("nothing was typed", "allow? >")
    program.type("g" + ENTER)
    program.wait_for(LABEL)
    program.type(SECRET + ENTER)
    program.wait_for("First done.")
    leave(program)


@pytest.mark.parametrize("key", [ESCAPE, CTRL_C])
def test_a_cancel_interrupts_and_forgets_what_was_typed(start, key):
    program = start()
    ask_for_value(program)
    program.type(SECRET)
    program.wait_for(MASK)
    program.type(key)
    program.wait_for("interrupted", "idle", without=[LABEL])
    leave(program)


def test_leaving_does_not_tell_what_was_in_the_line(start):
    program = start()
    ask_for_value(program)
    program.type(SECRET)
    program.wait_for(MASK)
    program.type(CTRL_C)
    program.wait_for("interrupted", "idle")
    program.type(CTRL_C + CTRL_C)
    assert program.wait() == 0
    assert "not sent" not in program.screen


def test_ctrl_d_is_a_no(start):
    program = start()
    ask_for_value(program)
    program.type(SECRET)
    program.wait_for(MASK)
    program.type(CTRL_D)
    program.wait_for("orders denied by user", "First done.", "idle")
    leave(program)


def begin_and_interrupt(program, number):
    ask_for_value(program)
    program.type(SECRET[:4])
    program.wait_for(MASK)
    os.kill(program.process.pid, number)
    program.wait_for("interrupted", without=[LABEL])


def test_the_rest_of_it_is_not_taken_where_the_question_goes_away_meanwhile(start):
    program = start()
    begin_and_interrupt(program, signal.SIGUSR1)
    program.type(SECRET[4:] + ENTER)
    program.wait_for(LATE, "idle")
    program.type(CTRL_C + CTRL_C)  # which is heeded all the same
    assert program.wait() == 0
    assert SECRET[4:] not in program.output.decode()


def test_once_nothing_is_typed_the_line_is_the_persons_again(start):
    program = start()
    begin_and_interrupt(program, signal.SIGUSR2)
    program.type("x")  # too early, or not any more
    program.wait_until(lambda screen: LATE in screen or "> x" in screen)
    program.wait_for("idle", without=[LATE])
    leave_line(program)


def test_where_it_would_be_seen_it_is_not_asked_for(start):
    program = start(TERM="dumb")
    program.type("What was ordered?\n")
    program.wait_for("what is typed here would be seen", "allow? >", without=["[g]"])
    program.type("n\n")
    program.wait_for("orders denied by user", "First done.")
    program.type("/quit\n")
    assert program.wait() == 0
