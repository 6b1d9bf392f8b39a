"""`greenroom cost`: what was paid, by whatever a person asks for."""

import json
import pathlib

import pytest
import trio

from greenroom import Agent, AgentRuntime, AgentSession, FileStore, Usage
from greenroom.observability import Ledger
from greenroom.testing import Reply, ScriptedProvider, call


def reply(*blocks, tokens):
    return Reply(list(blocks) or "done", usage=Usage(input_tokens=tokens, output_tokens=1))


@pytest.fixture
def paid(tmp_path):
    """A store with a session that has a subagent, and another session; and the words for it."""
    store = FileStore(tmp_path / "paid")

    async def main():
        inner = Agent(ScriptedProvider(reply(tokens=30), model="small"), name="Sub")
        ask = inner.as_tool("ask", description="Ask.")
        steps = [reply(call("ask", prompt="Find."), tokens=100), reply(tokens=200)]
        agent = Agent(ScriptedProvider(*steps, model="large"), name="Ann", tools=[ask])
        async with AgentRuntime(store) as runtime:
            for id_, each, turns in (("s-first", agent, 1), ("t-second", inner_again(), 2)):
                handle = runtime.spawn(AgentSession.new(each.name, session_id=id_), each)
                for _ in range(turns):
                    await handle.ask("Go.")
                await handle.shutdown()

    def inner_again():
        steps = [reply(tokens=3), reply(tokens=4)]
        return Agent(ScriptedProvider(*steps, model="small"), name="Bob")

    trio.run(main)
    return store, ("--sessions", str(tmp_path / "paid"))


def read(shown):
    rows = shown.json["rows"]
    by = next(iter(rows[0]))
    return {each[by]: each["usage"]["input_tokens"] for each in rows}


def test_a_bill_is_by_model_agent_session_or_day(run, paid):
    store, place = paid
    whole = trio.run(Ledger.of_store, store).total.input_tokens
    assert whole == 337
    assert read(run("cost", "--by", "model", "--json", *place)) == {"large": 300, "small": 37}
    assert set(read(run("cost", "--by", "session", "--json", *place))) >= {"s-first", "t-second"}
    assert read(run("cost", "--by", "agent", "--json", *place))["Bob"] == 7
    by_day = run("cost", "--json", *place)
    assert sum(read(by_day).values()) == by_day.json["total"]["input_tokens"] == 337


def test_one_session_is_billed_with_those_below_it(run, paid):
    _, place = paid
    shown = run("cost", "s-fir", "--json", *place)
    found = read(shown)
    assert found.pop("s-first") == 300
    assert list(found.values()) == [30]
    table = run("cost", "s-fir", *place).out.splitlines()
    assert table[0].split()[0] == "session"
    assert table[-1].split()[:3] == ["together", "330", "3"]


def test_days_before_the_first_do_not_count(run, paid):
    _, place = paid
    assert run("cost", "--since", "9000-01-01", "--json", *place).json["rows"] == []
    with pytest.raises(SystemExit) as end:
        run("cost", "--since", "yesterday", *place)
    assert end.value.code == 2


def test_a_damaged_session_is_left_out_and_that_is_said(run, paid):
    store, place = paid
    history = pathlib.Path(store.folder("t-second")) / "history.jsonl"
    lines = history.read_bytes().splitlines(keepends=True)
    history.write_bytes(b"".join([lines[0][:20] + b"x" * 8 + b"\n", *lines[1:]]))
    shown = run("cost", "--by", "agent", "--json", *place)
    assert shown.code == 1
    assert "left out: " in shown.err
    assert "Bob" not in read(shown)
    assert json.loads(shown.out)["total"]["input_tokens"] == 330
    assert run("cost", "unknown", *place).code == 2
