"""Permission prompts in a real terminal: what the page shows, and what answers them or does not."""

import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

from tests.terminal_program import TerminalProgram

SCRIPT = Path(__file__).parents[2] / "docs" / "images" / "permission_prompts.py"
SPEC = importlib.util.spec_from_file_location("permission_prompts", SCRIPT)
prompts = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(prompts)

ENTER = "\r"
LABEL = "allow? >"


@pytest.fixture
def play(tmp_path):
    """Play a scene in a terminal."""
    home, programs = Path(os.path.realpath(tmp_path)), []
    project = prompts.furnish(home)

    def play(scene, **variables):
        kept = {name: os.environ[name] for name in os.environ if name.startswith(("COV", "PATH"))}
        root = str(SCRIPT.parents[2])
        env = {**kept, "HOME": str(home), "PYTHONPATH": root, "TERM": "xterm-256color"}
        command = [sys.executable, str(SCRIPT), scene]
        env |= {"LANG": "C.UTF-8", **variables}
        program = TerminalProgram(command, project, env, size=prompts.size_of(scene))
        programs.append(program)
        return program

    play.home = home
    yield play
    for program in programs:
        program.close()


def leave(program):
    program.type("/quit" + ENTER)
    assert program.wait() == 0


@pytest.mark.parametrize("scene", prompts.scenes())
def test_each_prompt_of_the_page_looks_like_that_and_a_no_runs_nothing(play, scene):
    program = play(scene)
    screen = program.wait_for(LABEL)
    shown, page = prompts.prompt_in(screen, play.home), prompts.PAGE.read_text()
    there = prompts.block(scene).search(page)[0]
    # Not by lines: where they wrap depends on how long the path of the home is.
    assert " ".join(shown.split()) in " ".join(there.split()), "take the scenes anew"
    before = sorted(path.name for path in (play.home / "hello").iterdir())
    program.type("n" + ENTER)
    program.wait_for("denied by user", "Done.", without=[LABEL])
    assert sorted(path.name for path in (play.home / "hello").iterdir()) == before
    leave(program)


def test_a_spoofing_command_reaches_the_terminal_as_plain_letters_only(play):
    program = play("spoofing")
    program.wait_for(LABEL)
    text = program.output.decode()
    assert not set("\u202e\u202c\u200b") & set(text)
    assert "\x1b[2K\r…" not in text
    assert " " * 200 not in text
    assert "  allowed ls" not in program.screen


def test_what_was_typed_before_the_question_is_painted_never_answers_it(play):
    program = play("plain")
    for _ in range(40):  # while it starts, and then paints
        program.type("y" + ENTER)
    program.wait_for("coder asks", "queued: y", LABEL)
    program.type("n" + ENTER)
    # In all that was printed: the turns of the others follow, and move it out of sight.
    program.wait_until(lambda _: "Bash denied by user" in printed(program))
    assert "Bash allowed" not in printed(program)


def printed(program):
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", program.output.decode(errors="ignore"))


def test_a_line_that_was_begun_before_a_question_is_kept_and_comes_back(play):
    program = play("plain")
    program.type("half a line")  # while it starts
    program.wait_for("coder asks", "for afterwards: half a line", LABEL)
    program.type("n" + ENTER)
    program.wait_for("Bash denied by user", "Done.", "\n> half a line", without=["queued"])


@pytest.mark.parametrize("keys", [ENTER, " " + ENTER, "\t" + ENTER, "   ", ENTER * 9])
def test_enter_and_blanks_choose_nothing(play, keys):
    program = play("plain")
    program.wait_for(LABEL)
    program.type(keys)
    program.type("\x15" + "n" + ENTER)  # whatever stands in the line is cleared first
    program.wait_for("Bash denied by user", without=["Bash allowed"])


def test_a_window_that_gains_or_loses_the_focus_answers_and_interrupts_nothing(play):
    program = play("plain")
    program.wait_for(LABEL)
    program.type("\x1b[O" + "\x1b[I" + "\x1b[O")
    program.type("n" + ENTER)
    program.wait_for("Bash denied by user", "Done.", without=["interrupted"])


def test_what_is_pasted_is_refused_and_answers_nothing(play):
    program = play("plain")
    program.wait_for(LABEL)
    program.type("\x1b[200~y\x1b[201~")
    program.wait_for("a question takes no pasted text", LABEL, without=[LABEL + " y"])
    program.type(ENTER)
    program.type("n" + ENTER)
    program.wait_for("Bash denied by user", without=["Bash allowed", "queued"])


def test_a_reason_may_be_pasted(play):
    program = play("plain")
    program.wait_for(LABEL)
    program.type("w" + ENTER)
    program.wait_for("why not? >")
    program.type("\x1b[200~use pytest\x1b[201~" + ENTER)
    program.wait_for("Bash denied by user: use pytest")


def test_without_control_codes_a_line_before_the_label_answers_nothing(play):
    program = play("plain", TERM="dumb")
    for _ in range(5):
        program.type("y\n")
    program.wait_for("coder asks", LABEL)
    assert "Bash allowed" not in program.screen
    assert b"\x1b" not in program.output
    program.type("n\n")
    program.wait_for("Bash denied by user")


def test_without_control_codes_the_beginning_of_a_line_is_thrown_away(play):
    program = play("plain", TERM="dumb")
    program.wait_for("coder asks")
    program.type("y")  # of "yes, and then …", before the label stands there
    program.wait_for(LABEL)
    program.type("\n")
    program.type("n\n")
    program.wait_for("Bash denied by user", without=["Bash allowed"])


def test_a_command_is_changed_in_the_line_and_judged_again(play):
    program = play("plain")
    program.wait_for(LABEL)
    program.type("e" + ENTER)
    program.wait_for("run instead? > python -m unittest -q greet")
    program.type("\x15" + ENTER)  # an empty line changes nothing
    program.wait_for("nothing was changed", LABEL)
    program.type("e" + ENTER)
    program.wait_for("run instead? > python -m unittest -q greet")
    program.type("\x15" + "echo instead" + ENTER)
    program.wait_for("Bash allowed by user", "The user changed the arguments", "Done.")
