"""`greenroom trace` and `greenroom audit`: what a session did, and whether a record is whole."""

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from greenroom import (
    Agent,
    AgentRuntime,
    FileStore,
    InMemoryStore,
    PermissionManager,
    PermissionRule,
)
from greenroom.observability import Audit, TraceFile, Tracer
from greenroom.testing import ScriptedProvider, call


def test_a_run_can_be_looked_at_as_a_tree_a_page_or_objects(run, project):
    assert run("-p", "read README.md").code == 0
    [session] = run("sessions", "list", "--json").json
    id_ = session["session_id"]
    shown = run("trace", id_[:6])
    names = [line.split("  ")[1:3] for line in shown.out.splitlines()]
    assert [" ".join(each).split()[0] for each in names] == [
        "invoke_agent",
        "chat",
        "execute_tool",
        "chat",
    ]
    page = project / "trace.html"
    assert run("trace", id_, "--html", str(page)).code == 0
    assert "execute_tool Read" in page.read_text()
    assert page.stat().st_mode & 0o777 == 0o600
    objects = run("trace", id_, "--json").out.splitlines()
    assert len(objects) == 4
    assert "A project of ours" in objects[2]


def test_a_session_in_a_database_has_a_trace_which_goes_with_it(run, project, tmp_path):
    place = ("--sessions", str(project / "kept.db"))
    assert run("-p", "read README.md", *place).code == 0
    [session] = run("sessions", "list", "--json", *place).json
    shown = run("trace", session["session_id"], *place)
    assert "execute_tool Read" in shown.out
    assert run("prompt", "show", session["session_id"], "1", *place).code == 0
    [trace] = tmp_path.rglob("trace.jsonl")
    assert run("sessions", "rm", session["session_id"], "--yes", *place).code == 0
    assert not trace.parent.exists()


def test_subagents_are_shown_unless_they_are_left_out(run, project):
    async def main():
        helper = Agent(ScriptedProvider("Found."), name="helper")
        script = ScriptedProvider([call("ask", prompt="Find it.")], "Done.")
        allowed = PermissionManager(rules=[PermissionRule.allow_all()])
        ask = helper.as_tool("ask", description="Ask.")
        lead = Agent(script, name="lead", tools=[ask], permissions=allowed)
        async with (
            TraceFile() as file,
            AgentRuntime(FileStore(project / "kept"), instruments=[Tracer(file)]) as runtime,
        ):
            return (await lead.run("Go.", runtime=runtime)).session.session_id

    id_ = trio.run(main)
    for option, is_shown in (None, True), ("--tree", True), ("--no-tree", False):
        shown = run("trace", id_, "--sessions", "kept", *([option] if option else []))
        assert "invoke_agent lead" in shown.out
        assert ("invoke_agent helper" in shown.out) is is_shown


def test_how_much_of_what_is_said_a_trace_holds_is_an_option(run):
    run("-p", "read README.md", "--trace", "none")
    [session] = run("sessions", "list", "--json").json
    shown = run("trace", session["session_id"], "--json")
    assert "execute_tool Read" in shown.out
    assert "A project of ours" not in shown.out


def test_a_session_without_a_trace_is_an_error_with_a_way_out(run):
    run("-p", "read README.md", "--trace", "off")
    [session] = run("sessions", "list", "--json").json
    shown = run("trace", session["session_id"])
    assert shown.code == 2
    assert "there is no trace of" in shown.err


def test_what_went_wrong_is_said_and_is_the_exit_code(run, project):
    (project / "README.md").write_text("x")
    run("-p", "read README.md")
    [session] = run("sessions", "list", "--json").json
    assert (run("diagnose", session["session_id"]).out.strip()) == "nothing went wrong"
    run("-p", "read missing.md", "--trace", "off")
    ids = {each["session_id"] for each in run("sessions", "list", "--json").json}
    found = run("diagnose", *(ids - {session["session_id"]}))
    assert "so only its conversation was looked at" in found.err
    assert (found.code, found.out) == (2, "")


def test_a_diagnosis_needs_no_content_but_says_which_lines_it_lacks(run, env):
    run("-p", "read missing.md", "--trace", "none")
    [session] = run("sessions", "list", "--json").json
    found = run("diagnose", session["session_id"])
    assert (found.code, found.out.strip(), found.err) == (0, "nothing went wrong", "")
    sessions = Path(env["HOME"], ".local/state/greenroom/sessions")
    trace = sessions / session["session_id"] / "trace.jsonl"
    with trace.open("a") as file:
        file.write('{"type":"dropped","lines":7}\n')
    assert "7 lines of the trace were dropped" in run("diagnose", session["session_id"]).err
    trace.write_text("")  # what a full disk leaves
    found = run("diagnose", session["session_id"])
    assert (found.code, found.out) == (2, "")
    assert "so only its conversation was looked at" in found.err


def test_what_a_kill_has_cut_off_is_open(run, start, project, env):
    """A process that is killed in the middle of a tool leaves its turn and its call open."""
    os.mkfifo(project / "go")
    running = start("-p", "run cat go", "--permission-mode", "bypass")
    id_ = wait_for_tool(running, Path(env["HOME"], ".local/state/greenroom/sessions"))
    running.kill()
    running.wait()
    os.close(os.open(project / "go", os.O_RDWR | os.O_NONBLOCK))  # it ends what was left behind
    shown = run("trace", id_)
    marks = {line[2:24].strip(): line[0] for line in shown.out.splitlines()}
    assert marks == {"invoke_agent coder": "…", "chat rules": " ", "execute_tool Bash": "…"}
    spans = [json.loads(line) for line in run("trace", id_, "--json").out.splitlines()]
    ends = {each["name"]: each.get("end", 0) for each in spans}
    assert ends.pop("chat rules") > 0
    assert set(ends.values()) == {0}


def wait_for_tool(running, sessions):
    """Wait until a trace says that a tool has begun; return its session."""
    for _ in range(1_200):
        for path in sessions.glob("*/trace.jsonl"):
            if "execute_tool" in path.read_text():
                return path.parent.name
        with suppress(subprocess.TimeoutExpired):
            running.wait(0.05)
            break
    raise AssertionError("no tool has begun")


@pytest.mark.parametrize("given", [b"the key", b"the key\n", b"the key\n\n", b"\x0c\x00\n"])
def test_an_audit_is_verified_and_shown(run, tmp_path, given):
    """Whether the program that wrote it has taken off the end of the key's line, or not."""
    path, key = tmp_path / "audit.jsonl", tmp_path / "key"
    key.write_bytes(b"the key\n" if given == b"the key" else given)

    async def main():
        def fetch(page: str) -> str:
            """Fetch a page."""
            return page

        agent = Agent(ScriptedProvider([call("fetch", page="a")], "done"), tools=[fetch])
        async with Audit(path, key=given) as audit:
            async with AgentRuntime(InMemoryStore(), gates=[audit]) as runtime:
                await agent.run("Go.", runtime=runtime)
        return audit.head

    head = trio.run(main)
    good = run("audit", "verify", str(path), "--key-file", str(key), "--head", head)
    assert (good.code, "all is as it was written" in good.out) == (0, True)
    assert "fetch" in run("audit", "show", str(path)).out
    path.write_bytes(path.read_bytes().replace(b"fetch", b"fetsh", 1))
    bad = run("audit", "verify", str(path), "--key-file", str(key))
    assert bad.code == 1
    assert "was changed" in bad.out
    assert run("audit", "verify", str(tmp_path / "none")).code == 2
