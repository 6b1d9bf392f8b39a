"""`examples/terminal.py` in a real pseudo-terminal, answered and interrupted by its keys."""

import os
import sys
from pathlib import Path

import pytest

from tests.terminal_program import TerminalProgram

EXAMPLE = Path(__file__).parents[2] / "examples" / "terminal.py"
ENTER, ESCAPE, CTRL_C = "\r", "\x1b", "\x03"


@pytest.fixture
def program(tmp_path):
    kept = {name: os.environ[name] for name in os.environ if name.startswith(("COV", "PATH"))}
    environment = {**kept, "HOME": str(tmp_path), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    started = TerminalProgram([sys.executable, str(EXAMPLE)], tmp_path, environment)
    yield started
    started.close()


def test_a_session_with_prompts_an_interrupt_and_an_end(program, tmp_path):
    program.wait_for("/help")
    program.type("run touch made" + ENTER)
    program.wait_for("asks: Run a command (Bash)", "touch made", "allow? >")
    program.type("n" + ENTER)
    program.wait_for("Bash denied by user", "idle")
    assert not (tmp_path / "made").exists()
    program.type("run touch made; sleep 600" + ENTER)
    program.wait_for("made; sleep 600", "allow? >")
    program.type("y" + ENTER)
    program.wait_for("Bash allowed by user", "executing tool")
    program.type(ESCAPE)
    program.wait_for("interrupted", "idle")
    program.type(CTRL_C)  # the first one never leaves
    program.wait_for("Ctrl-C again leaves")
    program.type(CTRL_C)
    assert program.wait() == 0
    (session,) = (tmp_path / "sessions").iterdir()
    assert b"touch made; sleep 600" in (session / "history.jsonl").read_bytes()
