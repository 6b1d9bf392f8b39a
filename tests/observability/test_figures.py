"""What is counted: metrics, the ledger, and the runtime's own promises."""

from datetime import date

import pytest
from prometheus_client.parser import text_string_to_metric_families

from greenroom import (
    Agent,
    AgentContext,
    AgentRuntime,
    AgentSession,
    ConfigurationError,
    Done,
    FileStore,
    InMemoryStore,
    PermissionManager,
    PermissionRule,
    ToolRegistry,
    ToolResult,
    Usage,
    run_tools,
    stream_reply,
)
from greenroom.core import ToolEnd, UserInput
from greenroom.memory import Compactor, ContextBudget
from greenroom.observability import InvariantCheck, Ledger, Metrics, Tracer
from greenroom.testing import Reply, ScriptedProvider, call
from tests.runtime.chaos.run import find_violation
from tests.runtime.chaos.world import Family, Tree


def fetch(page: str) -> str:
    """Fetch a page."""
    return f"{page}!"


def reply(text, tokens):
    return Reply(text, usage=Usage(input_tokens=tokens, output_tokens=1))


async def test_metrics_are_read_by_prometheus():
    metrics = Metrics()
    async with AgentRuntime(InMemoryStore(), instruments=[Tracer(metrics)]) as runtime:
        agent = Agent(
            ScriptedProvider([call("fetch", page="a"), call("fecth", page="b")], reply("x", 7)),
            name='Ann "the" \\ one',
            tools=[fetch],
        )
        await agent.run("Go.", runtime=runtime)
    found = {}
    for family in text_string_to_metric_families(metrics.text()):
        for sample in family.samples:
            found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    assert found["greenroom_tool_calls_total", (("status", "ok"), ("tool", "fetch"))] == 1
    assert found["greenroom_tool_calls_total", (("status", "error"), ("tool", "_other"))] == 1
    assert found["greenroom_turn_seconds_count", (("agent", 'Ann "the" \\ one'),)] == 1
    assert found["greenroom_tokens_total", (("kind", "input"), ("model", "script"))] == 17
    assert found["greenroom_spans_open", (("kind", "turn"),)] == 0
    assert "s-" not in metrics.text()


async def test_ten_thousand_invented_tools_are_one_series():
    metrics = Metrics()
    steps = [[call(f"invented_{at}_{n}") for n in range(500)] for at in range(20)]
    async with AgentRuntime(InMemoryStore(), instruments=[Tracer(metrics)]) as runtime:
        await Agent(ScriptedProvider(*steps, "done"), tools=[fetch]).run("Go.", runtime=runtime)
    assert metrics.value("greenroom_tool_calls_total", tool="_other") >= 500
    assert metrics.text().count("greenroom_tool_calls_total{") == 1


def test_more_series_than_the_bound_are_counted_as_other():
    metrics = Metrics()
    for at in range(3_000):
        metrics._count("greenroom_turns_total", 1, agent=str(at), status="ok")
    assert metrics.text().count("greenroom_turns_total{") == 2_001
    assert metrics.value("greenroom_turns_total") == 3_000


async def test_an_alert_is_called_once_until_it_was_false_again(caplog):
    metrics, heard = Metrics(), []
    metrics.alert(
        "odd",
        lambda each: each.value("greenroom_turns_total") % 4 >= 2,
        lambda n, m: heard.append(n),
    )
    metrics.alert("broken", lambda each: 1 // 0, print)
    with pytest.raises(ConfigurationError, match="an alert 'odd' already"):
        metrics.alert("odd", bool, print)
    async with AgentRuntime(InMemoryStore(), instruments=[Tracer(metrics)]) as runtime:
        handle = runtime.spawn(AgentSession.new("a"), Agent(ScriptedProvider(*"abcdefg")))
        for _ in range(7):
            await handle.ask("Go.")
    assert heard == ["odd", "odd"]
    assert "the alert 'broken' raised" in caplog.text


async def test_what_is_stored_is_what_was_counted_live(tmp_path):
    store, ledger = FileStore(tmp_path), Ledger()
    inner = Agent(ScriptedProvider(*[reply("found", 10)] * 3), name="Sub")
    steps = [[call("ask", prompt="Find.")], reply("one " * 600, 100)] * 3
    summaries = [reply("Notes of what was said.", 1_000 + at) for at in range(60)]
    llm = ScriptedProvider(*steps, *[reply("two " * 600, 200)] * 6)
    compactor = Compactor(ScriptedProvider(*summaries), ContextBudget(4_000, reply=500))
    ask = inner.as_tool("ask", description="Ask.")

    async def ann(agent):
        tools = ToolRegistry([ask])
        permissions = PermissionManager(rules=[PermissionRule.allow_all()])
        async for message in agent.inputs():
            async with agent.turn(message):
                while True:
                    said = await stream_reply(agent, llm, tools=tools, compactor=compactor)
                    if not said.tool_uses:
                        break
                    await run_tools(agent, said.tool_uses, tools, permissions)

    async with AgentRuntime(store, instruments=[ledger]) as runtime:
        session = AgentSession.new("ann", store=store)
        session.set_metadata("owner", "shop")
        handle = runtime.spawn(session, ann)
        for _ in range(9):
            await handle.ask("Go on with the next part of it. " * 20)
        await handle.shutdown()
        forked = await (await AgentSession.load(session.session_id, store=store)).fork(2)
    stored = await Ledger.of_store(store)
    assert len(compactor._llm.requests) > 0
    assert stored.total == ledger.total
    assert stored.rows == ledger.rows
    assert {each.owner for each in ledger.rows} == {"shop"}
    assert forked.session_id not in {each.session for each in stored.rows}
    assert len(ledger.by("session")) == 4
    assert (await Ledger.of_store(store, since=date(9000, 1, 1))).rows == {}


@pytest.mark.parametrize("kind", [Family, Tree])
@pytest.mark.filterwarnings("ignore:Async generator")
def test_the_runtime_keeps_its_promises_and_a_lie_is_counted(kind):
    check = InvariantCheck()

    class Checked(kind):
        watchers = (check,)

    assert [each for each in (find_violation(Checked, seed) for seed in range(10)) if each] == []
    assert check.counts == {}
    agent = AgentContext(session_id="s-1", agent_type="a", current_turn=1)
    check.before_turn(agent, UserInput((), id="i-1"))
    check.before_turn(agent, UserInput((), id="i-2"))
    check.on_chunk(agent, ToolEnd("t-1", ToolResult.ok("x")))
    check.after_turn(agent, Done("i-1"))
    assert sum(check.counts.values()) >= 4
