"""The built-in tools with real files, threads, processes and sockets, cancelled on a real clock."""

import os
import subprocess
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trio

from greenroom.agents import FileCheckpoints, coder
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.session import AgentSession, FileStore
from greenroom.testing import Scenario, ScriptedProvider, call, cancel_at_every_checkpoint
from greenroom.testing.fuzz import INVARIANTS, MODES, FuzzError
from greenroom.tools import ToolRegistry, WebFetch, builtin_tools, tool
from tests.agents.test_interrupts import processes_that_mention
from tests.testing.fuzz.counting import count

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")

EVERYWHERE = os.environ.get("GREENROOM_FUZZ") == "all"
MARKER = f"62.{os.getpid():08}"
"""A length of sleep that no other process has."""


class SlowPage(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        for word in (b"one ", b"two ", b"three"):
            self.wfile.write(word)

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture(scope="module")
def url():
    server = ThreadingHTTPServer(("127.0.0.1", 0), SlowPage)
    server.handle_error = lambda *args: None  # a client that was cancelled has left
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def steps(url):
    """What the model asks for, one reply after the other."""
    background = f"sleep {MARKER} & setsid sleep {MARKER} & echo started"
    return [
        [
            call("Read", file_path="a.txt"),
            call("Glob", pattern="*.txt"),
            call("Grep", pattern="one"),
        ],
        [call("Bash", command=background), call("Bash", command="cd /; echo in $PWD; sleep 0.02")],
        [
            call("Edit", file_path="a.txt", old_string="one", new_string="1"),
        ],
        [call("Write", file_path="b.txt", content="new"), call("WebFetch", url=url)],
        "Done.",
    ]


def worker(url):
    def answer(request):
        """Take the step after those that this conversation has made since its first input."""
        made = sum(message.role == "assistant" for message in request.messages)
        last = request.messages[-1]
        work = last.tool_results or (last.text == "Work!" and made == 0)
        return steps(url)[made] if work else "Here I am."

    return answer


TOOLS = ToolRegistry(builtin_tools())
TOOLS.register(WebFetch(allow_private=True), replace=True)


@pytest.fixture
def workshop(tmp_path, url):
    """Make the scenario in a new folder each time."""
    made = []

    def scenario():
        folder = tmp_path / str(len(made))
        made.append(folder)
        folder.mkdir()
        (folder / "a.txt").write_text("one\ntwo\n")
        return Scenario(
            coder,
            ScriptedProvider(*[worker(url)] * 20),
            TOOLS,
            PermissionManager([PermissionRule.allow_all()]),
            inputs="Work!",
            probe="Are you there?",  # the work can't be done twice: then the text to edit is gone
            store=FileStore(folder / "sessions"),
            workspace=folder,
        )

    scenario.folders = made
    return scenario


def test_the_built_in_tools_can_be_cancelled_anywhere(workshop):
    def no_process_got_away(trial):
        assert processes_that_mention(MARKER) == []

    def files_are_whole(trial):
        folder = workshop.folders[-1]
        assert (folder / "a.txt").read_text() in {"one\ntwo\n", "1\ntwo\n"}
        left = {path.name for path in folder.iterdir()}
        assert left <= {"a.txt", "b.txt", "sessions"}, left
        if (folder / "b.txt").exists():
            assert (folder / "b.txt").read_text() == "new"

    report = cancel_at_every_checkpoint(
        workshop,
        invariants=[*INVARIANTS, no_process_got_away, files_are_whole],
        at_most=None if EVERYWHERE else 10,
        real_time=True,
    )
    assert sum(report.cancels.values()) >= 8


def test_files_can_be_restored_wherever_it_was_cancelled(tmp_path):
    folders = []

    def answer(request):
        if request.messages[-1].text != "Work!":
            return "Done."
        return [
            call("Bash", command="echo 1 > a.txt; echo 2 > c.txt"),
            call("Write", file_path="b.txt", content="new"),
        ]

    def scenario():
        folder = tmp_path / str(len(folders))
        folders.append(folder)
        folder.mkdir()
        (folder / "a.txt").write_text("old")
        return Scenario(
            partial(coder, checkpoints=True),
            ScriptedProvider(*[answer] * 9),
            TOOLS,
            PermissionManager([PermissionRule.allow_all()]),
            inputs="Work!",
            probe="Are you there?",  # the work can't be done twice: then the text to edit is gone
            store=FileStore(folder / "sessions"),
            workspace=folder,
        )

    async def restore(folder, session_id):
        store = FileStore(folder / "sessions")
        if session_id not in {record.session_id for record in await store.list_all()}:
            return set(), ()
        session = await AgentSession.load(session_id, store=store)
        plan = await FileCheckpoints.plan_restore(session, 0, folder)
        assert (await plan.apply()).failed == {}
        yet = await FileCheckpoints.plan_restore(session, 0, folder)
        assert yet.steps == ()
        return {each.path for each in yet.files}, yet.gaps

    def files_are_as_they_were(trial):
        folder = folders[-1]
        listed, gaps = trio.run(restore, folder, trial.session_id)
        text = (folder / "a.txt").read_text()
        here = {path.name for path in folder.iterdir()} - {"sessions"}
        assert trial.mode in {"kill", "cancel", "shutdown"} or not (listed or gaps)
        assert gaps or (text == "old" and here <= {"a.txt", *listed})
        packs = list(folder.glob("sessions/*/checkpoints/*"))
        assert all(pack.suffix == ".pack" for pack in packs)

    # What a shell writes by `>` is there at once, and empty first.
    invariants = [each for each in INVARIANTS if each.__name__ != "files_are_whole"]
    report = cancel_at_every_checkpoint(
        scenario,
        invariants=[*invariants, files_are_as_they_were],
        at_most=None if EVERYWHERE else 8,
        real_time=True,
    )
    assert sum(report.cancels.values()) >= 6


def test_a_tool_in_a_process_of_its_own_can_be_cancelled_anywhere(tmp_path):
    def answer(request):
        return "Done." if request.messages[-1].tool_results else call("count", text="abc")

    def scenario():
        rules = PermissionManager([PermissionRule.allow_all()])
        model = ScriptedProvider(*[answer] * 9)
        return Scenario(coder, model, ToolRegistry([count]), rules, inputs="Count!")

    modes = MODES if EVERYWHERE else ["interrupt", "kill"]
    most = None if EVERYWHERE else 2
    report = cancel_at_every_checkpoint(scenario, modes=modes, at_most=most, real_time=True)
    assert sum(report.cancels.values()) >= 2


def test_a_process_that_a_tool_leaves_behind_is_found():
    left = []

    @tool
    async def careless() -> str:
        """Start something, and forget it."""
        left.append(subprocess.Popen(["sleep", MARKER]))  # noqa: ASYNC220 (what it does wrong)
        return "started"

    def answer(request):
        return "Done." if request.messages[-1].tool_results else call("careless")

    def scenario():
        rules = PermissionManager([PermissionRule.allow_all()])
        model = ScriptedProvider(*[answer] * 9)
        return Scenario(coder, model, ToolRegistry([careless]), rules, inputs="Go!")

    try:
        with pytest.raises(FuzzError, match=f"no_process_is_left: still there: sleep {MARKER}"):
            cancel_at_every_checkpoint(scenario)
    finally:
        for process in left:
            process.kill()
            process.wait()
