"""Questions, modes and plans in real terminals of several sizes: every key, and what answers."""

import os
import random
import re
import shutil
import sys
import time
from pathlib import Path

import pytest
import toolz

from tests.cli.matrix import SIZES, sample
from tests.cli.tmux import Tmux
from tests.conftest import take_sample
from tests.e2e.repairer import BUGS
from tests.terminal_program import TerminalProgram

PROGRAM = Path(__file__).parent / "asking.py"
ENTER, ESCAPE, UP, DOWN = "\r", "\x1b", "\x1b[A", "\x1b[B"
PAGE_DOWN, PAGE_UP, CTRL_O, SHIFT_TAB = "\x1b[6~", "\x1b[5~", "\x0f", "\x1b[Z"
LABEL, APPROVE = "allow? >", "approve? >"


@pytest.fixture
def play(tmp_path):
    """Let a model make the calls of a scene, in a terminal."""
    programs = []

    def play(scene, size=(24, 80), term="xterm-256color", **variables):
        kept = {name: os.environ[name] for name in os.environ if name.startswith(("COV", "PATH"))}
        root = str(PROGRAM.parents[2])
        env = {**kept, "HOME": str(tmp_path), "PYTHONPATH": root, "TERM": term, "LANG": "C.UTF-8"}
        (tmp_path / "work").mkdir(exist_ok=True)
        command = [sys.executable, str(PROGRAM), scene]
        program = TerminalProgram(command, tmp_path / "work", env | variables, size)
        programs.append(program)
        return program

    yield play
    for program in programs:
        program.close()


def rows_of_question(screen):
    """The rows from the command to the last choice."""
    rows = screen.split("\n")
    end = next(n for n, row in enumerate(rows) if row.startswith((LABEL, APPROVE)))
    start = max(n for n, row in enumerate(rows[:end]) if row.startswith("? "))
    return rows[start:end]


def resize(program, lines, columns):
    """Change the window, and wait until the question is drawn anew."""
    before = len(program.output)
    program.resize(lines, columns)
    program.wait_until(lambda screen: len(program.output) > before and LABEL in screen)


@pytest.mark.parametrize("size", sample(SIZES))
@pytest.mark.parametrize("color", sample([{}, {"NO_COLOR": "1"}]))
def test_each_key_of_a_question_does_what_it_says(play, tmp_path, size, color):
    program = play("command", size, **color)
    screen = program.wait_for("? touch made", LABEL)
    assert len(rows_of_question(screen)) <= 5
    program.type("\t")
    program.wait_for("keep: touch:* · Tab") if "Tab:" in screen else None
    program.type(CTRL_O)
    program.wait_for("read as:", "Ctrl-O: less")
    program.type(CTRL_O)
    program.wait_for("Ctrl-O: more", without=["read as:"])
    program.type(SHIFT_TAB + ENTER + " " + ENTER)  # none of them means anything here
    program.type("w" + ENTER)
    program.wait_for("why not? >", "Esc: back to the question")
    program.type("because" + ESCAPE)
    program.wait_for(LABEL, "[y] once", without=["why not?"])
    program.type("e" + ENTER)
    program.wait_for("run instead? > touch made")
    program.type(ESCAPE)
    program.wait_for(LABEL, without=["run instead?"])
    program.type(DOWN)
    program.wait_for(">[y] once")
    program.type(UP)
    program.wait_for(">[e] edit")
    assert not (tmp_path / "work" / "made").exists()
    program.type(DOWN + ENTER)
    program.wait_for("✓ coder: touch made · Bash allowed by user", "Done.", without=[LABEL])
    assert (tmp_path / "work" / "made").exists()


def test_escape_interrupts_a_question_that_asks_for_no_words(play, tmp_path):
    program = play("command")
    program.wait_for(LABEL)
    program.type(ESCAPE)
    program.wait_for("- coder: touch made", "withdrawn", "interrupted", without=[LABEL])
    assert not (tmp_path / "work" / "made").exists()


@pytest.mark.parametrize("size", sample(SIZES))
def test_a_long_file_is_cut_and_y_counts_at_once(play, tmp_path, size):
    program = play("file", size)
    screen = program.wait_for("? table.txt", "row 001", "row 400", "more rows · Space: all", LABEL)
    assert len(rows_of_question(screen)) <= 5
    program.type(" ")
    program.wait_for("page 1 of", "row 002", LABEL, "[y] once")
    program.type(PAGE_DOWN)
    program.wait_for("page 2 of")
    program.type(PAGE_UP + PAGE_UP)
    program.wait_for("more rows · Space: all")
    program.type("y" + ENTER)
    program.wait_for("Done.", without=[LABEL])
    printed = re.sub(r"\x1b\[[0-9;]*m", "", program.output.decode())
    assert "✓ coder: table.txt · Write allowed by user" in printed
    assert (tmp_path / "work" / "table.txt").read_text().count("row") == 400


def test_a_question_that_was_resized_can_be_answered_and_leaves_no_copy(play, tmp_path):
    program = play("file", (24, 80))
    program.wait_for("? table.txt", LABEL)
    for size in [(12, 40), (44, 100), (10, 30), (24, 80)]:
        resize(program, *size)
    program.type("n" + ENTER)
    screen = program.wait_for("✗ coder: table.txt · Write denied by user", "Done.")
    assert "row 0" not in screen
    assert "[y]" not in screen


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
@pytest.mark.parametrize(
    ("scene", "what", "tool"),
    sample([("file", "table.txt", "Write"), ("command", "touch made", "Bash")]),
)
def test_of_a_resized_question_one_line_is_left_in_tmux(tmp_path, scene, what, tool):
    root = str(PROGRAM.parents[2])
    (tmp_path / "work").mkdir()
    variables = {"HOME": str(tmp_path), "PYTHONPATH": root, "TERM": "tmux-256color"}
    tmux = Tmux({"PATH": os.environ["PATH"], **variables})
    try:
        tmux.start("asking", [sys.executable, str(PROGRAM), scene], tmp_path / "work", (80, 24))
        tmux.wait_for("asking", f"? {what}", LABEL)
        typed = ""
        for columns, lines in [(100, 44), (40, 24), (60, 12), (30, 10), (200, 60), (80, 25)]:
            tmux("resize-window", "-t", "asking", "-x", str(columns), "-y", str(lines))
            typed += "x"  # so that it is seen when the question is drawn anew
            tmux("send-keys", "-t", "asking", "x")
            tmux.wait_for("asking", f"{LABEL} {typed}")
        tmux("send-keys", "-t", "asking", "C-u")
        tmux.wait_for("asking", f"{LABEL}\n")
        tmux("send-keys", "-t", "asking", "n", "Enter")
        if tmux.wait_for_any("asking", "Done.", "not taken") == "not taken":
            # On a busy machine the last size may reach the program only now.
            tmux("send-keys", "-t", "asking", "n", "Enter")
        tmux.wait_for("asking", "Done.", "idle")
        left = tmux.everything("asking")
    finally:
        tmux.close()
    assert left.count(f"✗ coder: {what} · {tool}") == 1
    assert f"? {what}" not in left
    assert "[y]" not in left
    assert "row 0" not in left


def test_without_control_codes_the_question_is_plain_and_answered_by_lines(play, tmp_path):
    program = play("command", term="dumb")
    program.wait_for("? touch made", "[o] more", LABEL)
    program.type("o\n")
    program.wait_for("read as:", "[o] less")
    program.type("y\n")
    program.wait_for("Bash allowed by user", "Done.")
    assert b"\x1b" not in program.output


def test_shift_tab_switches_the_mode_for_the_calls_to_come(play, tmp_path):
    program = play("command")
    program.wait_for(LABEL)
    program.type("n" + ENTER)
    program.wait_for("Done.", "idle", without=[LABEL])
    for mode in ("accept-edits", "plan"):
        program.type(SHIFT_TAB)
        program.wait_for(f"mode {mode}:")
    program.type(SHIFT_TAB)
    program.wait_for("the mode bypass asks about nothing", "BYPASS: nothing is asked")
    program.type("again" + ENTER)
    program.wait_until(lambda screen: screen.count("Done.") == 2)
    assert (tmp_path / "work" / "made").exists()
    program.type(SHIFT_TAB)
    program.wait_for("mode default:", without=["BYPASS: nothing"])


@pytest.mark.parametrize("size", sample(SIZES))
def test_a_plan_is_shown_edited_refused_and_approved(play, tmp_path, size):
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "\\n3. And say so\\n" >> "$1"\n')
    editor.chmod(0o755)
    program = play("plan", size, ASKING_EDITOR=str(editor))
    program.wait_for("Make the file", "? Carry out this plan?", APPROVE, "mode plan")
    program.type("w" + ENTER)
    program.wait_for("why not? >")
    program.type("too short" + ENTER)
    program.wait_for("SubmitPlan denied by user: too short", "? Carry out this plan?", APPROVE)
    program.type("e" + ENTER)
    program.wait_for("plan >", "3. And say so")
    program.type(ENTER)
    program.wait_for(APPROVE, "│ 3. And say so")
    program.type("a" + ENTER)
    program.wait_for("a plan · SubmitPlan allowed by user", "mode accept-edits", "Done.")
    assert (tmp_path / "work" / "made.txt").read_text() == "made"


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_a_bug_is_mended_with_two_questions_and_each_thing_said_stands_there_once(tmp_path):
    root, bug, package = str(PROGRAM.parents[2]), BUGS[0], tmp_path / "work" / "toolz"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(toolz.__file__).parent, package, ignore=ignored)
    whole = (package / f"{bug.module}.py").read_text()
    bug.plant(tmp_path / "work")
    variables = {"HOME": str(tmp_path), "PYTHONPATH": root, "TERM": "tmux-256color"}
    tmux = Tmux({"PATH": os.environ["PATH"], **variables})
    try:
        tmux.start("asking", [sys.executable, str(PROGRAM), "repair"], tmp_path / "work", (80, 24))
        tmux.wait_for("asking", "idle")
        tmux("send-keys", "-t", "asking", "Mend it.", "Enter")
        screen = tmux.wait_for("asking", "? toolz/itertoolz.py", LABEL)
        [removed] = [row for row in screen.split("\n") if bug.broken in row and " - " in row]
        line = next(n for n, row in enumerate(whole.split("\n"), 1) if bug.good in row)
        assert removed.split()[1] == str(line)  # of the file, not of the piece that is replaced
        tmux("send-keys", "-t", "asking", "s", "Enter")
        tmux.wait_for("asking", "-m pytest", LABEL)
        tmux("send-keys", "-t", "asking", "s", "Enter")
        tmux.wait_for("asking", "Repaired take_nth", "idle")
        left = tmux.everything("asking")
    finally:
        tmux.close()
    assert left.count("✓ coder:") == 2
    assert "[y]" not in left
    said = ["> Mend it.", "I list the files.", "I look for it.", "I try this.", "I test it.\n"]
    said.append("Repaired take_nth")
    assert [left.count(each) for each in said] == [1] * len(said)
    assert (package / f"{bug.module}.py").read_text() == whole


ERASE = "\x05\x15"  # from the end of the line on
STEPS = int(os.environ.get("GREENROOM_QUESTION_STEPS", "60"))
SEEDS = take_sample(range(int(os.environ.get("GREENROOM_QUESTION_SEEDS", "2"))), 2)
# All but an Enter, and what leaves or interrupts.
KEYS = [
    *"abdefghijklmnopqrstuvwxyz1 \t/@!-:'\"",
    "\x1b[200~y\r\x1b[201~",
    "\x1b[200~yes\n\x1b[201~",
    *(UP, DOWN, PAGE_UP, PAGE_DOWN, CTRL_O, SHIFT_TAB, "\x1b[C", "\x1b[D", "\x1b[H", "\x1b[F"),
    *("\x01", "\x02", "\x05", "\x06", "\x08", "\x0b", "\x0e", "\x10", "\x11", "\x12", "\x13"),
    *("\x14", "\x15", "\x16", "\x17", "\x19", "\x7f", "\x1bf", "\x1bb", "\x1b[3~", "\x1b[I"),
]


def settle(program, number):
    """Wait until all keys were taken: the last line is refused, in a window of a known size."""
    program.resize(30, 151 + number // 50 % 2)  # another one than the last time
    typed_at = float("-inf")

    def is_refused(screen):
        nonlocal typed_at
        if time.monotonic() - typed_at > 1:
            typed_at = time.monotonic()
            program.type(f"{ERASE}no {number}{ENTER}")
        return f"“no {number}” is not a choice" in screen

    program.wait_until(is_refused)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_key_but_a_choice_and_enter_ever_answers_a_question(play, tmp_path, seed):
    """Enter comes only behind what is no choice; so the question stays, and nothing has run."""
    chance = random.Random(seed)
    program = play(chance.choice(["command", "file"]))
    program.wait_for(LABEL)
    for step in range(STEPS):
        if step % 50 == 49:  # it takes so many keys at once, and leaves more of them out
            settle(program, step)
        what = chance.random()
        if what < 0.1:
            program.resize(chance.randint(8, 50), chance.randint(24, 150))
        elif what < 0.25:
            program.type(ERASE + chance.choice(["no choice", " y!", "yy", "\ty\t y", "ja"]) + ENTER)
        else:
            program.type(chance.choice(KEYS))
    settle(program, STEPS)
    program.type(ERASE)
    program.wait_for(LABEL, "[y] once")
    assert [path.name for path in (tmp_path / "work").iterdir()] == []
    program.type(ERASE + "n" + ENTER)
    program.wait_for("denied by user", "Done.", without=[LABEL])
