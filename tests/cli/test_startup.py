"""What is loaded before the first key is taken, and before the model is asked; and what is not."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from rich.console import Group
from rich.text import Text

from greenroom.agents._internal import PLAN_OPTIONS, SubmitPlan
from greenroom.cli import choices, interactive
from greenroom.cli.agent_view import PLAN_STEP
from greenroom.cli.painter import LastRows, Quoted, hang_indent, is_simple
from greenroom.flow._internal import PLAN_STEP as THEIRS
from tests.cli import held_up
from tests.cli.test_interactive import CTRL_D, READY
from tests.terminal_program import TerminalProgram


@pytest.mark.parametrize(
    ("modules", "later"),
    [
        (
            "greenroom.cli.dispatch, greenroom.cli.terminal_run, greenroom.cli.live_terminal",
            "rich httpx pydantic jsonschema markdown_it sqlite3 greenroom.llm greenroom.agents "
            "greenroom.permissions greenroom.cli.command_options",
        ),
        (
            "greenroom.cli.interactive, greenroom.net.client",
            "pydantic jsonschema referencing markdown_it sqlite3 rich.console email.utils "
            "logging.handlers greenroom.flow greenroom.shell.effects greenroom.programs.invocation "
            "greenroom.permissions.call greenroom.llm.gemini.provider greenroom.llm.offline "
            "greenroom.llm.openai.provider greenroom.memory.agent_memory",
        ),
        (
            "greenroom.cli.renderer",
            "greenroom.agents greenroom.permissions greenroom.llm greenroom.tools markdown_it",
        ),
    ],
    ids=["first key", "first request", "an agent of one's own"],
)
def test_nothing_waits_for_what_is_needed_later(modules, later):
    code = f"import sys, {modules}; print(*(set({later.split()}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_first_request_loads_nothing_while_keys_wait():
    code = (
        "import sys, trio; from greenroom.cli import terminal_run, options\n"
        "from greenroom.net import HttpClient\n"
        "async def ask():\n"
        "    async with HttpClient() as client, client.stream('GET', 'http://127.0.0.1:9/'): pass\n"
        "terminal_run._load(options.Options(), True); loaded = set(sys.modules)\n"
        "try: trio.run(ask)\n"
        "except Exception: print(*(set(sys.modules) - loaded))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


MARKED = """
import sys, threading, trio, trio.testing
from greenroom import AgentRuntime, AgentSession, ConsoleRenderer, InMemoryStore, TextComplete


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name in ("rich.console", "markdown_it", "rich.syntax"):
            print(name, threading.current_thread() is threading.main_thread(), file=sys.stderr)


async def writer(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            await agent.send(TextComplete("plain"))
            await trio.testing.wait_all_tasks_blocked()
            print("plain was shown", file=sys.stderr)
            await agent.send(TextComplete("- a list"))
        return


async def main():
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("writer"), writer)
        handle.send_input_nowait("go")
        await ConsoleRenderer(handle).run()


sys.meta_path.insert(0, Finder())
trio.run(main)
"""


def test_what_reads_markdown_is_loaded_for_the_first_marks_and_in_a_thread():
    done = subprocess.run(
        [sys.executable, "-c", MARKED],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "• a list" in done.stdout
    said = ["plain was shown", "rich.console False", "markdown_it False", "rich.syntax False"]
    assert done.stderr.splitlines() == said


def test_what_the_person_says_is_drawn_without_what_reads_markdown():
    said = hang_indent(Text("> "), Text("*hi*"))
    assert is_simple(said)
    assert is_simple(LastRows(said, 2))
    assert is_simple(Quoted(Text("! "), Text("ls")))
    assert not is_simple(hang_indent(Text("> "), Group(Text("a"), Text("b"))))


def test_at_the_end_of_the_process_nobody_looks_for_garbage():
    code = (
        "import atexit, gc, sys; from greenroom.cli import main; "
        "atexit.register(lambda: print(gc.isenabled(), gc.get_freeze_count() > 0)); "
        "sys.argv[1:] = ['complete', 'bash', 'greenroom ses']; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False True"


def test_the_chunks_of_plans_are_known_without_what_makes_plans():
    assert PLAN_STEP == THEIRS


def test_the_plans_of_plan_mode_are_known_without_what_asks_about_them():
    assert SubmitPlan.name == choices.SUBMIT_PLAN
    assert PLAN_OPTIONS == choices.PLAN_OPTIONS


def test_a_setting_that_can_not_be_used_is_said_once_the_terminal_is_restored(terminal, tmp_path):
    folder = tmp_path / "config" / "greenroom"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text('{"key_bindings": "ed"}')
    program = terminal(XDG_CONFIG_HOME=str(folder.parent))
    assert program.wait() == 2
    assert "key_bindings" in program.screen
    assert program.mode == program.before


def test_what_is_typed_before_the_line_opens_stands_in_it(terminal):
    program = terminal()
    program.type("early")
    program.wait_for("> early", READY)
    program.type("\x15" + CTRL_D)
    assert program.wait() == 0


def read_holds(path):
    """Return what the log says about calls that held up the event loop."""
    entries = map(json.loads, path.read_text().splitlines())
    return [each["message"] for each in entries if each["logger"] == "greenroom.watchdog"]


def test_the_log_names_a_call_that_holds_up_the_terminal(project, env, tmp_path):
    log = tmp_path / "log"
    command = [sys.executable, str(Path(held_up.__file__)), "--log", str(log)]
    program = TerminalProgram(command, project, {**env, "TERM": "xterm-256color"})
    try:
        program.wait_for("offline:rules", READY)
        program.type("/help\r")
        program.wait_for("> /help", "idle")
        program.type(CTRL_D)
        assert program.wait() == 0
    finally:
        program.close()
    assert any("show_nothing" in each for each in read_holds(log))


@pytest.mark.skipif(
    "GREENROOM_HOLDS" not in os.environ, reason="only an idle machine holds up none"
)
def test_nothing_holds_up_a_usual_session(terminal, tmp_path):
    log = tmp_path / "log"
    program = terminal("--log", str(log), "--allow", "Bash", size=(300, 100))
    program.wait_for("offline:rules", READY)
    for text in ("read README.md", "run seq 1 500", "/help", "/permissions", "/cost"):
        program.type(f"{text}\r")
        program.wait_for("> " + text, "idle")
    program.type(CTRL_D)
    assert program.wait() == 0
    assert read_holds(log) == []


def test_a_terminal_that_does_not_know_its_size_is_taken_for_a_usual_one(terminal):
    program = terminal(size=(0, 0))
    program.resize(0, 0)
    program._screen.resize(24, 80)
    program.wait_for("offline:rules", READY)
    program.type("read README.md\r")
    program.wait_for("A project of ours.", "idle")
    program.type(CTRL_D)
    assert program.wait() == 0


async def test_what_the_reply_needs_is_loaded_by_no_other_thread(monkeypatch):
    loaded = {}
    monkeypatch.setattr(
        interactive, "import_module", lambda name: loaded.update({name: threading.get_ident()})
    )
    await interactive._load_later()
    assert set(loaded) == {*interactive._LATER}
    assert set(loaded.values()) == {threading.get_ident()}
