"""Each command, key and mode in each kind of terminal: rows of one table, which are all in it.

Every run takes some rows in one terminal; `GREENROOM_MATRIX=1` takes all rows in all terminals.
"""

import re
import shutil
import sys
import time

import pytest

from greenroom.cli.commands import COMMANDS, KEYS
from greenroom.cli.modes import CYCLE
from greenroom.cli.themes import THEMES
from tests.cli.matrix import IS_WHOLE, SIZES, sample
from tests.cli.tmux import Tmux
from tests.terminal_program import TerminalProgram

ENTER, ESCAPE, UP, DOWN, TAB, SHIFT_TAB = "\r", "\x1b", "\x1b[A", "\x1b[B", "\t", "\x1b[Z"
PAGE_DOWN, CLEAR, REDRAW = "\x1b[6~", "\x05\x15", "\x0c"
ASKED, QUIET = "allow? >", "idle"

# What is typed behind the slash, and what is said then. A line that is not said waits for a key.
COMMAND_ROWS = {
    "help": [("help", "Space, PgDn, PgUp")],
    "model": [
        ("model offline:rules", "from the next request on: offline:rules"),
        ("model anthropic:claude-sonet", "did you mean"),
    ],
    "effort": [("effort high", "effort high, from the next request on")],
    "mode": [("mode nope", "there is no mode 'nope'")],
    "permissions": [
        ("permissions deny Bash(rm:*)", "added in this session: deny Bash(rm:*)"),
        ("permissions", "mode: default"),
    ],
    "sessions": [("sessions", "read README.md")],
    "resume": [("resume nothing-like-this", "no session has the id or the words")],
    "fork": [("fork", "> hello")],
    "rewind": [("rewind 99", "there is no turn 99")],
    "undo": [("undo", "taken back")],
    "compact": [("compact the file", "the conversation was shortened")],
    "agents": [("agents", "no subagents are running")],
    "cost": [("cost", "with its subagents")],
    "context": [("context", "about ", "messages")],
    "memory": [("memory", "nothing is remembered over sessions")],
    "mcp": [("mcp", "there are no MCP servers here")],
    "skills": [("skills", "there are no skills here")],
    "export": [("export out.md", "written: out.md")],
    "doctor": [("doctor", "sandbox: off")],
    "theme": [("theme nope", "there is no theme 'nope'")],
    "clear": [("clear", "greenroom 0")],
    "quit": [],  # every program is left by one of them
    "exit": [],
}
IN_TURN = "run sleep 60" + ENTER
QUESTION = "run npm run build" + ENTER

# What is typed, and what is on the screen then; behind "!" what is not.
AT_LINE, WHILE_BUSY, IN_QUESTION = "line", "turn", "question"
KEY_ROWS = {
    "Enter": [
        (AT_LINE, "hello" + ENTER, "handful of rules"),
        (WHILE_BUSY, "later" + ENTER, "queued: later"),
        (IN_QUESTION, ENTER, ASKED),
    ],
    "\\ Enter, Alt-Enter, Ctrl-J": [(AT_LINE, "a\\\rb\x1b\rc\nd", "> a\nb\nc\nd")],
    "Esc": [
        (AT_LINE, ESCAPE + ESCAPE, "> /rewind"),
        (WHILE_BUSY, "later" + ENTER + ESCAPE, "interrupted", "> later"),
        (IN_QUESTION, "w" + ENTER, "why not? >"),
        (IN_QUESTION, "w" + ENTER + ESCAPE, ASKED),
    ],
    "Ctrl-C": [
        (AT_LINE, "word\x03", "!word"),
        (AT_LINE, "\x03", "Ctrl-C again leaves"),
        (WHILE_BUSY, "\x03", "interrupted"),
        (IN_QUESTION, "\x03", "interrupted"),
    ],
    "Ctrl-D": [(IN_QUESTION, "\x04", "denied")],
    "Ctrl-Z": [],  # a shell has to be around it: see test_input_line
    "Ctrl-L": [(AT_LINE, REDRAW, "> "), (IN_QUESTION, REDRAW, ASKED)],
    "Up, Down": [
        (AT_LINE, UP, "> run "),
        (WHILE_BUSY, ("later" + ENTER, "queued: later", UP), "> later", "!queued: later"),
        (IN_QUESTION, DOWN, ">[y] once"),
    ],
    "Ctrl-R": [(AT_LINE, "\x12hel", "search: ", "hello")],
    "Tab": [(AT_LINE, "/comp" + TAB, "> /compact"), (IN_QUESTION, TAB, "keep: npm run build:*")],
    "Shift-Tab": [(AT_LINE, SHIFT_TAB * 4, "mode default")],
    "Ctrl-G": [(AT_LINE, "dra\x07", "> draft from the editor")],
    "Ctrl-O": [
        (AT_LINE, ("\x0f", "Esc, Ctrl-O: back", "\x0f"), "> ", "!Ctrl-O: back"),
        (IN_QUESTION, "\x0f", "read as:"),
    ],
    "Ctrl-T": [(AT_LINE, "\x14", "> ")],
    "Space, PgDn, PgUp": [(IN_QUESTION, "\x0f " + PAGE_DOWN, ASKED)],
}
MODE_ROWS = {
    "default": ("mode default", "> "),
    "accept-edits": ("mode accept-edits", "mode accept-edits"),
    "plan": ("mode plan", "mode plan"),
    "bypass": ("mode bypass", "BYPASS: nothing is asked"),
}


def test_every_command_key_and_mode_has_its_rows():
    assert set(COMMAND_ROWS) == {each.name for each in COMMANDS}
    assert set(KEY_ROWS) == {each.keys for each in KEYS}
    assert set(MODE_ROWS) == set(CYCLE)
    for key in KEYS:
        states = {state for state, *_ in KEY_ROWS[key.keys]}
        assert not key.in_turn or not states or WHILE_BUSY in states, key.keys
        assert not key.at_question or not states or IN_QUESTION in states, key.keys


class Pane:
    """A program in tmux, with what tests use of a `TerminalProgram`."""

    def __init__(self, command, cwd, env, size):
        self._tmux = Tmux(env)
        self._tmux.start("it", command, cwd, size[::-1])

    @property
    def screen(self):
        return self._tmux.screen("it")

    def type(self, text):
        codes = [f"{byte:x}" for byte in text.encode()]
        self._tmux("send-keys", "-t", "it", "-H", *codes)

    def wait_until(self, is_done):
        return self._tmux.wait_until("it", is_done)

    def close(self):
        self._tmux.close()


PLACES = {
    "80x24": {},
    "100x44": {"size": SIZES[1]},
    "200x60": {"size": SIZES[2]},
    "dumb": {"TERM": "dumb"},
    "no colours": {"NO_COLOR": "1"},
    "light": {"background": b"\x1b]11;rgb:ffff/ffff/ffff\x07\x1b[?62c"},
    "tmux": {"TERM": "tmux-256color"},
}


@pytest.fixture
def place(project, env, tmp_path):
    """Open the command in a kind of terminal."""
    opened = []
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "draft from the editor" > "$1"\n')
    editor.chmod(0o755)

    def place(name):
        kind = {"size": SIZES[0], "TERM": "xterm-256color", **PLACES[name]}
        size, background = kind.pop("size"), kind.pop("background", b"")
        if name == "tmux" and shutil.which("tmux") is None:
            pytest.skip("tmux is not installed")
        words = ["--sessions", str(tmp_path / "kept"), "--allow", "Bash(sleep:*)"]
        command = [sys.executable, "-m", "greenroom", *words]
        start = Pane if name == "tmux" else TerminalProgram
        program = start(command, project, {**env, "EDITOR": str(editor), **kind}, size)
        opened.append(program)
        if background:
            program.wait_until(lambda _: b"\x1b[c" in program.output)
            program.type(background.decode())
        look_for(program, "offline:rules")
        for line, said in (("read README.md", "A project of ours."), ("hello", "handful of rules")):
            if name == "dumb":
                program.type(f"{line}\n")
                look_for(program, said)
            else:
                clean(program)
                enter(program, line, said)
        return program

    yield place
    for program in opened:
        program.close()


def look_for(program, *texts):
    """Wait for these texts, and until those behind an exclamation mark are gone."""
    wanted = [text for text in texts if not text.startswith("!")]
    unwanted = [text[1:] for text in texts if text.startswith("!")]

    def is_there(screen):
        rows = "\n".join(row.rstrip() for row in screen.split("\n"))
        flat = re.sub(r"\s+", " ", rows)  # a long line goes on in the next row
        return all(each in rows or each in flat for each in wanted) and not any(
            each in rows for each in unwanted
        )

    program.wait_until(is_there)


def enter(program, line, *said):
    program.type(line + ENTER)
    look_for(program, *said, QUIET)


def clean(program):
    """Take away what stands there, so that what is seen next is new."""
    drawn_at = float("-inf")

    def is_clean(screen):
        nonlocal drawn_at
        if re.fullmatch(r"\n*> *\n+idle[^\n]*\n*", screen):
            return True
        if time.monotonic() - drawn_at > 0.5:  # what was still printed then stands there again
            drawn_at = time.monotonic()
            program.type(CLEAR + REDRAW)
        return False

    program.wait_until(is_clean)


def try_key(program, state, typed, *seen):
    """Press a key in a state, look, and go back to a quiet line."""
    clean(program)
    if state == WHILE_BUSY:
        program.type(IN_TURN)
        look_for(program, "● Bash", "working")
    elif state == IN_QUESTION:
        program.type(QUESTION)
        look_for(program, ASKED, "[y] once")
    first, said, typed = typed if isinstance(typed, tuple) else ("", "", typed)
    if first:
        program.type(first)
        look_for(program, said)
    program.type(typed)
    look_for(program, *seen)
    if state != AT_LINE:
        end_turn(program)
    elif "\x12" in typed:  # the search
        program.type(ESCAPE)


def end_turn(program):
    """Press what ends the turn, until it is over."""
    pressed_at = float("-inf")

    def is_over(screen):
        nonlocal pressed_at
        if re.search(r"^idle", screen, re.MULTILINE):
            return True
        if time.monotonic() - pressed_at > 1.5:  # twice within a second would leave
            pressed_at = time.monotonic()
            program.type("\x03")
        return False

    program.wait_until(is_over)


LIVE = [name for name in PLACES if name != "dumb"]


@pytest.mark.parametrize("name", sample(LIVE))
def test_each_command_says_what_it_does(place, name):
    program = place(name)
    rows = [row for each in COMMAND_ROWS.values() for row in each]
    for line, *said in rows if IS_WHOLE else rows[::5]:
        clean(program)
        enter(program, f"/{line}", *said)
    if name == "light":
        assert f"\x1b[{'1;34'}m".encode() in program.output
        assert THEMES["light"].user == "bold blue"
    if name == "no colours":
        styles = set(re.findall(rb"\x1b\[([0-9;]*)m", program.output))
        assert {code for style in styles for code in style.split(b";")} <= {b"", b"0", b"7"}


@pytest.mark.parametrize("name", sample(LIVE))
def test_each_key_does_what_it_says(place, name):
    program = place(name)
    rows = [row for each in KEY_ROWS.values() for row in each]
    for state, typed, *seen in rows if IS_WHOLE else rows[::9]:
        try_key(program, state, typed, *seen)
    for line, shown in MODE_ROWS.values() if IS_WHOLE else ():
        program.type(f"{CLEAR}/{line}{ENTER}")
        look_for(program, shown)


@pytest.mark.skipif(not IS_WHOLE, reason="only the whole matrix, GREENROOM_MATRIX=1, takes it")
def test_without_control_codes_each_command_says_the_same(place):
    program = place("dumb")
    rows = [row for each in COMMAND_ROWS.values() for row in each]
    for line, *said in rows:
        at = len(program.output)
        program.type(f"/{line}\n")
        program.wait_until(lambda _, at=at, said=said: has_said(program.output[at:], said))
    program.type("/quit\n")
    assert program.wait() == 0
    assert b"\x1b" not in program.output


def has_said(output, texts):
    flat = re.sub(r"\s+", " ", output.decode(errors="replace"))
    return all(each in flat for each in texts)
