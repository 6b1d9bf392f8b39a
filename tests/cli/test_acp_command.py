"""`greenroom acp`, driven through its standard streams as an editor does."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec

import pytest

from greenroom.cli import acp_command, main
from greenroom.cli.options import Options
from greenroom.core import SessionLockedError
from greenroom.interop._internal import SessionRequest
from greenroom.tools import FileSystem
from tests.absent_programs import needs
from tests.cli.driven import Driver
from tests.interop.servers import PROGRAM, children
from tests.terminal_program import SECONDS


class Client(Driver):
    """An editor that answers each question in the same way."""

    option = "once"
    last_id = 0

    def ask(self, method, **params):
        """Send a request, and read until its answer."""
        self.last_id += 1
        self.say({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
        while True:
            line = self.wait_for_next()
            if line.get("method") == "session/request_permission":
                outcome = {"outcome": "selected", "optionId": self.option}
                self.say({"jsonrpc": "2.0", "id": line["id"], "result": {"outcome": outcome}})
            elif line.get("id") == self.last_id and "method" not in line:
                return line.get("result") or line

    def begin(self, folder, servers=()):
        self.ask("initialize", protocolVersion=1)
        return self.ask("session/new", cwd=str(folder), mcpServers=list(servers))["sessionId"]

    def prompt(self, session, text):
        blocks = [{"type": "text", "text": text}]
        return self.ask("session/prompt", sessionId=session, prompt=blocks)

    def shown(self, kind):
        updates = [line["params"]["update"] for line in self.lines if "update" in str(line)[:60]]
        return [each for each in updates if each["sessionUpdate"] == kind]


@pytest.fixture
def edit(run, project, monkeypatch):
    """Let a script be the editor of the command, which runs in another folder than the project."""
    run("models")  # sets the variables
    monkeypatch.chdir("/")

    def edit(script, *words):
        client = Client(script)
        with client.driving():
            code = main(["acp", *words])
        return code, client

    return edit


def text(client):
    return "".join(each["content"]["text"] for each in client.shown("agent_message_chunk"))


def test_a_session_works_in_its_own_folder_with_its_own_settings(edit, project, tmp_path, run):
    (project / ".greenroom").mkdir()
    (project / ".greenroom/settings.json").write_text('{"deny": ["Write"]}')
    other = tmp_path / "other"
    other.mkdir()

    def script(it):
        first = it.begin(project)
        it.prompt(first, "write a.txt: hello")
        second = it.ask("session/new", cwd=str(other), mcpServers=[])["sessionId"]
        it.prompt(second, "write a.txt: hello")
        listed = it.ask("session/list", cwd=str(project))["sessions"]
        assert [each["sessionId"] for each in listed] == [first]

    run("-p", "hello")  # whose session no person has used
    code, _ = edit(script)
    assert code == 0
    assert not (project / "a.txt").exists()
    assert (other / "a.txt").exists()


def test_what_is_chosen_and_what_is_offered(edit, project):
    def script(it):
        it.ask("initialize", protocolVersion=1)
        opened = it.ask("session/new", cwd=str(project), mcpServers=[])
        modes = [each["id"] for each in opened["modes"]["availableModes"]]
        assert ("bypass" in modes) == (opened["modes"]["currentModeId"] == "bypass")
        options = {each["id"]: each for each in opened["configOptions"]}
        assert set(options) == {"mode", "model", "effort"}
        for option, value in (("effort", "high"), ("mode", "accept-edits")):
            session = opened["sessionId"]
            it.ask("session/set_config_option", sessionId=session, configId=option, value=value)
        it.prompt(opened["sessionId"], "write a.txt: hello")
        assert not [each for each in it.lines if each.get("method", "")[-10:] == "permission"]
        wrong = it.ask("session/set_mode", sessionId=opened["sessionId"], modeId="deny")
        assert wrong["error"]["code"] == -32602

    code, client = edit(script)
    assert code == 0
    assert (project / "a.txt").exists()
    commands = [
        each["name"] for each in client.shown("available_commands_update")[0]["availableCommands"]
    ]
    assert {"init", "review", "compact"} <= set(commands)
    assert edit(lambda it: it.begin(project), "--permission-mode", "bypass")[0] == 0


@pytest.mark.parametrize(("option", "is_written"), [("project", True), ("never", False)])
def test_an_answer_is_kept_as_long_as_it_says(edit, project, option, is_written):
    def script(it):
        it.option = option
        it.prompt(it.begin(project), "write a.txt: one")
        it.option = "no" if is_written else "once"
        again = it.ask("session/new", cwd=str(project), mcpServers=[])["sessionId"]
        it.prompt(again, "read a.txt")
        it.prompt(again, "write a.txt: two")

    code, client = edit(script)
    assert code == 0
    assert len([line for line in client.lines if "request_permission" in str(line)]) == 1
    assert (project / "a.txt").exists() is is_written
    assert (project / ".greenroom/permissions.json").exists() is is_written


def test_a_plan_is_approved_and_its_mode_is_shown(edit, project):
    def script(it):
        it.option = "answer-2"
        session = it.begin(project)
        it.ask("session/set_mode", sessionId=session, modeId="plan")
        it.prompt(session, "submit the plan: write a.txt")
        [asked] = [line for line in it.lines if line.get("method", "")[-10:] == "permission"]
        names = [each["name"] for each in asked["params"]["options"]]
        assert names == ["approve", "approve, and accept edits", "None of these"]

    code, client = edit(script)
    assert code == 0
    modes = [each["currentModeId"] for each in client.shown("current_mode_update")]
    assert modes == ["plan", "accept-edits"]


def test_a_turn_that_is_spent_says_so(edit, project):
    def script(it):
        end = it.prompt(it.begin(project), "read README.md")
        assert end == {"stopReason": "max_turn_requests"}

    code, client = edit(script, "--max-steps", "1")
    assert code == 0
    assert "1 model call" in client.shown("agent_thought_chunk")[-1]["content"]["text"]


def test_commands_are_obeyed_and_the_session_is_like_any_other(
    edit, project, run, tmp_path, monkeypatch
):
    monkeypatch.setenv("GREENROOM_SESSIONS", str(tmp_path / "kept"))

    def script(it):
        session = it.begin(project)
        it.prompt(session, "read README.md")
        it.prompt(session, "/compact")
        assert it.prompt(session, "/review README.md") == {"stopReason": "end_turn"}
        found.append(session)

    found = []
    assert edit(script)[0] == 0
    [row] = run("sessions", "list", "--json").json
    assert (tmp_path / "kept" / row["session_id"]).is_dir()
    assert row["session_id"] == found[0]
    assert row["metadata"]["title"] == "read README.md"
    assert row["metadata"]["workspace"] == str(project)
    assert "headless" not in row["metadata"]


async def test_the_window_is_that_of_the_catalogue_or_the_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    options = Options(sessions=str(tmp_path / "sessions"), model="anthropic:claude-haiku-4-5")
    sessions = acp_command.EditorSessions(options)
    request = SessionRequest(sessions.new(), tmp_path, (), FileSystem())
    async with sessions.open(request) as parts:
        assert parts.window() == 200_000
        assert "anthropic:claude-haiku-4-5" in dict(parts.options()[1].values)


async def test_a_session_that_is_in_use_is_not_opened(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    sessions = acp_command.EditorSessions(Options(sessions=str(tmp_path / "sessions")))
    session = sessions.new()
    request = SessionRequest(session, tmp_path, (), FileSystem())
    async with sessions.open(request) as parts:
        await parts.handle.ask("hello")
        again = replace(request, session=await sessions.load(session.session_id))
        with pytest.raises(SessionLockedError):
            async with sessions.open(again):
                pass


@pytest.mark.skipif(find_spec("mcp") is None, reason="it needs the extra mcp")
def test_servers_of_the_editor_are_connected_once_a_person_agrees(edit, project):
    before = children()
    server = {"name": "My demo", "command": sys.executable, "args": [str(PROGRAM)], "env": []}

    def script(it):
        it.option = "allow_always"
        session = it.begin(project, [server])
        it.prompt(session, "hello")
        names = {
            each["name"] for each in it.shown("available_commands_update")[-1]["availableCommands"]
        }
        found.append(any(name.startswith("my-demo:") for name in names))
        it.prompt(session, "/compact")
        changed = {**server, "args": [*server["args"], "unlisted"]}
        for each in (server, changed):
            count = len(it.lines)
            session = it.ask("session/new", cwd=str(project), mcpServers=[each])["sessionId"]
            it.prompt(session, "hello")
            asked = [line for line in it.lines[count:] if "request_permission" in str(line)]
            found.append(len(asked))

    found = []
    code, _ = edit(script)
    assert code == 0
    assert found == [True, 0, 1]
    assert children() <= before


def test_nothing_else_reaches_standard_output(edit, project, monkeypatch, capfd):
    def open_store(options):
        print("noise of a library")
        assert sys.stdout is out
        os.write(1, b"noise of an extension\n")
        subprocess.run(["echo", "noise of a program"], check=True)
        assert os.read(0, 10) == b""
        return opened(options)

    opened, out = acp_command.open_configured_store, open(1, "w", closefd=False)  # noqa: SIM115
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(acp_command, "open_configured_store", open_store)
    code, client = edit(lambda it: it.prompt(it.begin(project), "read README.md"))
    assert code == 0
    assert all(each["jsonrpc"] == "2.0" for each in client.lines)
    err = capfd.readouterr().err
    assert [f"noise of {each}" in err for each in ("a library", "an extension", "a program")] == [
        True
    ] * 3


def test_the_end_of_the_input_and_a_lost_reader_end_a_turn(edit, project):
    def leave(it):
        session = it.begin(project)
        blocks = [{"type": "text", "text": "run sleep 600"}]
        params = {"sessionId": session, "prompt": blocks}
        it.say({"jsonrpc": "2.0", "id": 9, "method": "session/prompt", "params": params})
        while not it.shown("tool_call"):
            it.wait_for_next()

    def hang_up(it):
        leave(it)
        it.hang_up()

    code, client = edit(leave, "--permission-mode", "bypass")
    assert code == 0
    assert client.lines[-1]["result"] == {"stopReason": "cancelled"}
    code, _ = edit(hang_up, "--permission-mode", "bypass")
    assert code in (0, 141)


@needs("pgrep")
def test_a_signal_ends_it_in_order_and_nothing_is_left(project, start, env):
    process = start("acp", "--permission-mode", "bypass", stdin=subprocess.PIPE)
    for number, (method, params) in enumerate(
        [
            ("initialize", {"protocolVersion": 1}),
            ("session/new", {"cwd": str(project), "mcpServers": []}),
        ]
    ):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()
    lines = [json.loads(process.stdout.readline()) for _ in range(2)]
    session = lines[1]["result"]["sessionId"]
    blocks = [{"type": "text", "text": "run sleep 654.321"}]
    message = {"jsonrpc": "2.0", "id": 9, "method": "session/prompt"}
    message["params"] = {"sessionId": session, "prompt": blocks}
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()
    while b'"in_progress"' not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 128 + signal.SIGTERM
    assert json.loads(out.splitlines()[-1]) == {
        "jsonrpc": "2.0",
        "id": 9,
        "result": {"stopReason": "cancelled"},
    }
    left = subprocess.run(["pgrep", "-f", "sleep 654.321"], capture_output=True, check=False)
    assert left.stdout == b""
