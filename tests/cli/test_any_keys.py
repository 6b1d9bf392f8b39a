"""Any keys, pastes and sizes of the window, in a real pseudo-terminal, beside any chunks.

`GREENROOM_KEYS=10000` takes as many steps, which takes some minutes, and `GREENROOM_SEED` another
seed.
"""

import os
import random
import sys
import time
from pathlib import Path

from tests.cli.fuzzed import ANSWERED, HELD
from tests.conftest import few
from tests.terminal_program import TerminalProgram

STEPS = int(os.environ.get("GREENROOM_KEYS", few(150)))
SEED = int(os.environ.get("GREENROOM_SEED", "1"))

# What may allow a question is left out: its letters and words before an Enter, and in the second
# half, where arrows may have marked a choice, an Enter alone. (An Escape takes the first letter.)
LETTERS = "bcijklmqtuz0123456789 /@!#\\\"'ßé世🙂"
KEYS = (
    *("\r", "\n", "\t", "\x7f", "\x1b", "\x1b[C", "\x1b[D", "\x1b\r"),
    *("\x1b[5~", "\x1b[6~", "\x1b[Z", "\x01", "\x05", "\x0b", "\x0c", "\x0f", "\x12", "\x14"),
    *("\x15", "\x17", "\x19", "\x1f", "\x1b[200~", "\x1b[201~", "\x1b[I", "\x1b[<0;1;1M", "\xff"),
)
KEYS_AND_ARROWS = (*("bb\r" if key == "\r" else key for key in KEYS), "\x1b[A", "\x1b[B")
COMMANDS = ("/help\r", "/compact x\r", "/nothing\r", "/", "/he\t\r", "@src", "! ls\r", "/usr/bin\r")


def steps(rng):
    for number in range(STEPS):
        match rng.randrange(10):
            case 0 | 1 | 2:
                yield "type", "".join(rng.choices(LETTERS, k=rng.randrange(1, 8)))
            case 3 | 4 | 5:
                yield "type", rng.choice(KEYS if number < STEPS // 2 else KEYS_AND_ARROWS)
            case 6:
                yield "type", rng.choice(COMMANDS)
            case 7:
                lines = rng.choice((1, 3, 12, 2_000))
                yield "type", "\x1b[200~" + "y\n" * lines + "\x1b[201~"
            case 8:
                yield "resize", (rng.randrange(1, 60), rng.randrange(1, 200))
            case 9:
                yield "type", "tell me\r"


def test_no_keys_crash_it_answer_a_question_or_leave_the_terminal_raw(tmp_path, env):
    rng = random.Random(SEED)
    command = [sys.executable, "-m", "tests.cli.fuzzed"]
    root = str(Path(__file__).parents[2])
    variables = {**env, "TERM": "xterm-256color", "PYTHONPATH": root}
    program = TerminalProgram(command, tmp_path, variables, (24, 80))
    try:
        program.wait_for("/help")
        for kind, value in steps(rng):
            if kind == "type":
                program.type(value)
            else:
                program.resize(*value)
            deadline = time.monotonic() + rng.choice((0, 0.01, 0.05))
            while program._has_output() or time.monotonic() < deadline:
                if program._has_output():
                    program._feed()
            if program.process.poll() is not None:
                break
        assert program.process.poll() is None, find_error(program)
        program.resize(24, 80)
        program.type("\x1b[201~")
        leave(program)
        assert program.mode == program.before
        output = program.output.decode(errors="replace")
        assert "Traceback" not in output
        assert ANSWERED not in output
        assert HELD not in output
    finally:
        program.close()


def leave(program):
    """Press what leaves until it has ended: a question may be open, and a turn may run."""
    for _ in range(100):
        program.type("\x03")
        deadline = time.monotonic() + 0.3
        while time.monotonic() < deadline and program.process.poll() is None:
            while program._has_output():
                program._feed()
            time.sleep(0.01)
        # Once the terminal is as it was, another Ctrl-C is a signal again, and ends it as such.
        if program.process.poll() is not None or program.mode == program.before:
            break
    assert program.wait() == 0


def find_error(program):
    """Return what the program said last, from its traceback on."""
    output = program.output.decode(errors="replace")
    at = output.find("Traceback")
    return output[at : at + 6_000] if at >= 0 else output[-2_000:]
