"""`greenroom drift`, `export-test` and `prompt`: what was asked, against what is asked today."""

import json
from pathlib import Path

import pytest
import trio

from greenroom import AgentRuntime, AgentSession, FileStore
from greenroom.observability import TraceFile, Tracer
from greenroom.testing import Reply, ScriptedProvider, call

AGENTS = """
from greenroom import Agent
from greenroom.llm import OfflineProvider

ann = Agent(OfflineProvider(), name="ann", instructions="Be brief.")
bob = Agent(OfflineProvider(), name="bob", instructions="Be \\x1b[31mpolite.")
number = 7
"""


@pytest.fixture
def place(project, tmp_path):
    """A session of an agent that is in a module of the project, and the words that name it."""
    name = f"shop_{tmp_path.name}".replace("-", "_")  # modules stay loaded
    (project / f"{name}.py").write_text(AGENTS)
    store = FileStore(tmp_path / "kept")

    async def main():
        namespace = {}
        exec(AGENTS, namespace)
        async with TraceFile() as file:
            tracer = Tracer(file, content="redacted")
            async with AgentRuntime(store, instruments=[tracer]) as runtime:
                session = AgentSession.new("ann", session_id="s-1", store=store)
                handle = runtime.spawn(session, namespace["ann"])
                await handle.ask("Hello, \x1b[31mred.")
                await handle.ask("And then?")
                await handle.shutdown()

    trio.run(main)
    return name, ("s-1", "--sessions", str(tmp_path / "kept"))


def test_whether_an_agent_drifted_is_the_exit_code(run, place):
    module, (id_, *words) = place
    same = run("drift", id_, f"{module}:ann", *words)
    assert (same.code, same.out) == (0, "nothing differs\n")
    changed = run("drift", id_, f"{module}:bob", *words)
    assert changed.code == 1
    assert changed.out.startswith("request 1 differs\n--- recorded\n+++ now\n")
    assert '-      "content": "Be brief."' in changed.out
    assert "\x1b" not in changed.out
    told = run("drift", id_, f"{module}:bob", "--json", *words)
    assert told.json["step"] == 1
    assert run("drift", id_, f"{module}:ann", "--json", *words).json is None


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        ("shop", "does not say where the agent is"),
        ("shop.py:ann", "shop.py is a file, not a module (write shop:ann)"),
        ("./bots/shop.py:ann", "shop.py is a file, not a module (write bots.shop:ann)"),
        ("shop.py", "shop.py is a file, not a module (write shop:NAME)"),
        ("{}:eve", "has no attribute 'eve'"),
        ("no.such.module:ann", "No module named 'no'"),
        ("{}:number", "is not an agent: its type is int"),
    ],
)
def test_an_agent_that_can_not_be_imported_is_an_error_of_usage(run, place, agent, why):
    module, (id_, *words) = place
    found = run("drift", id_, agent.format(module), *words)
    assert found.code == 2
    assert why in found.err


def test_a_session_without_a_record_is_an_error_of_usage(run, place, project):
    module, _ = place
    run("-p", "read README.md", "--trace", "off")
    run("-p", "read README.md", "--trace", "none")
    ids = [each["session_id"] for each in run("sessions", "list", "--json").json]
    for id_ in ids:
        for command in (("drift", id_, f"{module}:ann"), ("export-test", id_, f"{module}:ann")):
            assert run(*command).code == 2
        assert run("prompt", "show", id_, "1").code == 2
    assert run("drift", "none", f"{module}:ann").code == 2


def test_a_test_is_written_once(run, place, project, monkeypatch):
    monkeypatch.syspath_prepend(str(project))
    module, (id_, *words) = place
    path = project / "test_s_1.py"
    made = run("export-test", id_, f"{module}:ann", "-o", str(path), *words)
    assert (made.code, made.out) == (0, "")
    assert run("export-test", id_, f"{module}:ann", *words).out == path.read_text()
    assert run("export-test", id_, f"{module}:ann", "-o", str(path), *words).code == 2
    forced = run("export-test", id_, f"{module}:ann", "-o", str(path), "--force", *words)
    assert forced.code == 0
    names = {}
    exec(path.read_text(), names)
    names["test_s_1"]()


def test_a_prompt_is_shown_whole_and_by_its_parts(run, place):
    _, (id_, *words) = place
    shown = run("prompt", "show", id_, "2", *words).out
    assert "── system\nBe brief.\n" in shown
    assert "── user\nAnd then?" in shown
    assert "\x1b" not in shown
    assert "red." in shown
    facts = run("prompt", "show", id_, "2", "--json", *words).json
    assert len(facts["gen_ai.input.messages"]) == 3
    parts = json.loads(run("prompt", "show", id_, "2", "--sections", "--json", *words).out)
    assert [each["name"] for each in parts] == ["system", "inputs", "replies"]
    table = run("prompt", "show", id_, "2", "--sections", *words).out.splitlines()
    whole = sum(each["tokens"] for each in parts)
    assert table[-1].split() == ["together", str(whole)]
    missing = run("prompt", "show", id_, "3", *words)
    assert missing.code == 2
    assert "there is no request 3 on record (the trace has 2, counted from 1)" in missing.err


def test_a_trace_that_lacks_lines_is_said_to(run, place):
    module, (id_, *words) = place
    with Path(words[-1], "s-1", "trace.jsonl").open("a") as file:
        file.write('{"type": "lost", "lines": 3}\n')
    shown = run("prompt", "show", id_, "1", *words)
    assert "3 lines of the trace were dropped" in shown.err
    refused = run("drift", id_, f"{module}:ann", *words)
    assert refused.code == 2
    assert "3 lines of the trace of s-1 were dropped" in refused.err


def test_a_prompt_is_sent_again_and_replies_are_counted(run, place):
    _, (id_, *words) = place
    again = run("prompt", "replay", id_, "1", *words)
    assert again.code == 0
    assert again.out
    many = run("prompt", "replay", id_, "1", "--times", "3", "--model", "offline:", *words)
    assert many.out == again.out * 3
    assert "1 different replies to 3 requests: 3" in many.err
    assert run("prompt", "replay", id_, "1", "--json", *words).json["role"] == "assistant"
    assert run("prompt", "replay", id_, "1", "--model", "nobody:x", *words).code == 2
    assert run("prompt", "replay", id_, "1", "--model", "anthropic:", *words).code == 2


def test_a_prompt_with_tools_is_shown_with_calls_and_results(run, tmp_path):
    def fetch(page: str) -> str:
        """Fetch a page."""
        return f"the text of {page}"

    async def main():
        from greenroom import Agent

        steps = [call("fetch", page="a")], Reply("done")
        agent = Agent(ScriptedProvider(*steps), name="ann", tools=[fetch])
        store = FileStore(tmp_path / "kept")
        async with TraceFile() as file:
            tracer = Tracer(file, content="redacted")
            async with AgentRuntime(store, instruments=[tracer]) as runtime:
                return (await agent.run("Go.", runtime=runtime)).session.session_id

    id_ = trio.run(main)
    shown = run("prompt", "show", id_, "2", "--sessions", str(tmp_path / "kept")).out
    assert "fetch: Fetch a page.\n  {" in shown
    assert 'fetch {"page":"a"}' in shown
    assert "the text of a" in shown
    parts = run("prompt", "show", id_, "2", "--sections", "--sessions", str(tmp_path / "kept")).out
    assert [line.split()[0] for line in parts.splitlines()[1:]] == [
        "tools",
        "inputs",
        "calls",
        "results",
        "together",
    ]
