"""`greenroom trace` and `greenroom audit`: what a session did, and whether a record is whole."""

import trio

from greenroom import Agent, AgentRuntime, InMemoryStore
from greenroom.observability import Audit
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
    objects = run("trace", id_, "--json").out.splitlines()
    assert len(objects) == 4
    assert "A project of ours" in objects[2]


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


def test_an_audit_is_verified_and_shown(run, tmp_path):
    path, key = tmp_path / "audit.jsonl", tmp_path / "key"
    key.write_bytes(b"the key\n")

    async def main():
        def fetch(page: str) -> str:
            """Fetch a page."""
            return page

        agent = Agent(ScriptedProvider([call("fetch", page="a")], "done"), tools=[fetch])
        async with Audit(path, key=b"the key") as audit:
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
