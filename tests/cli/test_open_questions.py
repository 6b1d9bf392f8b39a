"""An open question in a real terminal, while another agent never stops talking."""

import os
import re
import signal
import sys
import unicodedata
from pathlib import Path

import pytest

from greenroom.core._internal import exact
from tests.terminal_program import TerminalProgram

PROGRAM = Path(__file__).parent / "crowd.py"
ENTER, ESCAPE, PAGE_DOWN, PAGE_UP = "\r", "\x1b", "\x1b[6~", "\x1b[5~"
LABEL = "allow? >"
WORDS = "-".join(f"{number:03}" for number in range(12))
MIXED = f"touch mixed && : {WORDS} 漢字漢字漢字漢字漢字 e\u0301\u0323e\u0301 a\tb\u202ec | sh"
LONG = "touch long && : '\n" + "".join(f"line {number:03}\n" for number in range(80)) + "'"


@pytest.fixture
def crowd(tmp_path):
    """Start agents that ask about these commands, beside one that talks all the time."""
    programs = []

    def crowd(*commands, size=(40, 80), term="xterm-256color", **variables):
        kept = {name: os.environ[name] for name in os.environ if name.startswith(("COV", "PATH"))}
        root = str(PROGRAM.parents[2])
        env = {**kept, "HOME": str(tmp_path), "PYTHONPATH": root, "TERM": term, "LANG": "C.UTF-8"}
        env |= variables
        program = TerminalProgram([sys.executable, str(PROGRAM), *commands], tmp_path, env, size)
        programs.append(program)
        return program

    yield crowd
    for program in programs:
        program.close()


def is_asked_last(command):
    """Whether the question about a command is the last thing that was printed."""
    return lambda screen: screen.endswith(LABEL) and is_asked(command)(screen)


def without_blanks(text):
    return unicodedata.normalize("NFC", "".join(text.split()))


def asked(screen):
    """The rows of the open question, which end directly above the input line."""
    rows = screen.split("\n")
    line = max((n for n, row in enumerate(rows) if row.startswith(LABEL)), default=0)
    heads = [n for n, row in enumerate(rows[:line]) if row.startswith("? ")]
    return rows[heads[-1] : line] if heads else []


def is_asked(command):
    """Whether a command stands on the screen, whole, and nothing between it and the input line."""

    def is_asked(screen):
        rows = asked(screen)
        quoted = "".join(row[2:] for row in rows if row.startswith(("? ", "│ ")))
        return without_blanks(quoted) == without_blanks(exact(command))

    return is_asked


def newest(program):
    return max(map(int, re.findall(rb"said (\d+)", program.output)), default=0)


def talk_on(program, chunks=6):
    """Wait until the other agent has said so much more."""
    until = newest(program) + chunks
    program.wait_until(lambda _: newest(program) >= until)


def page(screen):
    """Which page of how many is shown; (1, 1) where all is."""
    found = re.search(r"page (\d+) of (\d+)", " ".join(screen.split()))
    return (int(found[1]), int(found[2])) if found else (1, 1)


def read_on(program):
    """Turn the pages up to the last one; return the rows of the screen for each of them."""
    number, pages = 0, []
    while True:
        number += 1
        screen = program.wait_until(lambda text: LABEL in text and page(text)[0] == number)  # noqa: B023
        pages += screen.split("\n")
        if page(screen) == (number, number):
            return pages
        program.type(" ")


def made(folder):
    return {path.name for path in folder.iterdir() if not path.name.startswith((".", "_"))}


@pytest.mark.parametrize("size", [(40, 20), (40, 80)])
def test_a_question_stays_whole_while_another_agent_talks_and_y_runs_that_one(
    crowd, tmp_path, size
):
    program = crowd(MIXED, "touch other", size=size)
    sizes = [size] if size[1] == 20 else [size, (40, 200), (40, 40), (40, 20)]
    for lines, columns in sizes:
        program.resize(lines, columns)
        screen = program.wait_until(is_asked(MIXED))
        talk_on(program)
        assert is_asked(MIXED)(program.wait_until(is_asked(MIXED)))
        assert not any("said" in row for row in asked(screen))
    program.wait_until(lambda text: "question 1 of 2" in " ".join(text.split()))
    read_on(program)
    program.type("y" + ENTER)
    program.wait_until(is_asked("touch other"))
    program.wait_until(lambda _: "mixed" in made(tmp_path))
    assert made(tmp_path) == {"mixed"}
    program.type("n" + ENTER)
    program.wait_until(lambda text: LABEL not in text)
    talk_on(program)
    assert made(tmp_path) == {"mixed"}


def test_what_is_longer_than_the_screen_is_paged_and_answered_only_at_its_end(crowd, tmp_path):
    program = crowd(LONG, size=(24, 80))
    program.wait_for(LABEL, "page 1 of", "line 010")
    program.type("y" + ENTER)
    program.wait_for("not before all of it was shown; Space or PgDn turns the page", "line 010")
    program.type(PAGE_DOWN)
    program.wait_for("page 2 of", without=["line 010"])
    program.type(PAGE_UP)
    program.wait_for("page 1 of", "line 010")
    program.type(" ")
    program.wait_for("page 2 of")
    program.resize(30, 40)  # other rows: all of it is shown again
    program.wait_for(LABEL, "page 1 of", "line 010")
    talk_on(program)
    rows = read_on(program)
    assert [f"line {n:03}" for n in range(80) if f"│ line {n:03}" not in rows] == []
    program.resize(24, 80)  # what was read to its end stays read
    program.wait_for(LABEL, "page 1 of", "line 010")
    assert made(tmp_path) == set()
    program.type("y" + ENTER)
    program.wait_until(lambda _: made(tmp_path) == {"long"})


def test_a_question_takes_no_answer_in_a_terminal_that_is_too_narrow(crowd, tmp_path):
    program = crowd("touch narrow", size=(24, 19))
    program.wait_for("the terminal is too", "narrow", without=["asks", LABEL])
    program.type("y" + ENTER)
    program.wait_for("not taken: make", without=["asks", LABEL])
    program.resize(24, 20)
    program.wait_for(LABEL, "? touch narrow")
    assert made(tmp_path) == set()
    program.type("n" + ENTER)
    program.wait_until(lambda text: LABEL not in text)


def test_what_is_no_answer_is_refused_never_queued_and_never_runs_after_an_interrupt(
    crowd, tmp_path
):
    program = crowd("touch made", "touch other", CROWD_GUARD="2")
    program.wait_for("asks:", without=[LABEL])
    program.type("y" + ENTER)  # within the guard
    program.wait_for("too early, not taken", without=["queued"])
    program.wait_until(is_asked("touch made"))
    program.type("yes please" + ENTER)
    program.wait_for("“yes please” is not a choice", "[w] no, and why", LABEL)
    talk_on(program)
    program.wait_until(is_asked("touch made"))
    program.type("draft")  # half an answer is none, and no text for the model either
    program.wait_for(LABEL + " draft")
    program.type(ESCAPE)
    program.wait_for("was withdrawn", "interrupted", "idle", without=[LABEL, "draft", "queued"])
    program.type("hello" + ENTER)
    program.wait_for("heard 'hello'", without=["yes please'", "heard 'y"])
    assert made(tmp_path) == set()


def test_queued_inputs_come_back_into_the_line_with_an_interrupt(crowd):
    program = crowd("touch made", CROWD_WAITS="yes")
    talk_on(program)
    program.type("first" + ENTER + "second" + ENTER + "third")
    program.wait_for("queued: first", "queued: second", "> third")
    program.process.send_signal(signal.SIGUSR1)
    program.wait_until(is_asked("touch made"))
    program.wait_for("queued: second", "for afterwards: third")
    program.type(ESCAPE)
    screen = program.wait_for("interrupted", "idle", "> first\nsecond\nthird")
    assert "queued" not in screen
    program.type(ENTER)
    program.wait_for(r"heard 'first\nsecond\nthird'", "idle")


def test_without_control_codes_the_question_is_printed_again_after_all_else(crowd, tmp_path):
    program = crowd("touch plain", "touch other", size=(200, 80), term="dumb", CROWD_GUARD="2")
    program.wait_for("asks:", without=[LABEL])
    program.type("y\n")
    program.wait_for("too early, not taken: y", without=[LABEL])
    program.wait_until(is_asked_last("touch plain"))
    program.type("yes please\n")
    program.wait_for("“yes please” is not a choice, and was not sent: [y] once")
    talk_on(program)
    program.wait_until(is_asked_last("touch plain"))
    assert made(tmp_path) == set()
    program.type("y\n")
    program.wait_until(lambda _: made(tmp_path) == {"plain"})
    program.wait_until(is_asked_last("touch other"))
    program.type("n\n")
    program.wait_for("Bash denied by user", without=["heard"])
    assert made(tmp_path) == {"plain"}
