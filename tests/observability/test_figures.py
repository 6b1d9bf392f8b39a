"""What is counted: metrics, the ledger, and the runtime's own promises."""

from datetime import date
from itertools import count
from random import Random

import pytest
import trio
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from greenroom import (
    Agent,
    AgentContext,
    AgentRuntime,
    AgentSession,
    ConfigurationError,
    Done,
    FileStore,
    Guard,
    InMemoryStore,
    PermissionManager,
    PermissionRule,
    Reject,
    ToolRegistry,
    ToolResult,
    Usage,
    run_tools,
    stream_reply,
)
from greenroom.core import ToolEnd, UserInput
from greenroom.flow import Plan, Subtask, orchestrator
from greenroom.llm import ModelOverloadedError, resilient
from greenroom.memory import Compactor, ContextBudget
from greenroom.observability import InvariantCheck, Ledger, Metrics, Span, Tracer
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
    errors = (("error", "UnknownToolError"), ("tool", "_other"))
    assert found["greenroom_tool_errors_total", errors] == 1
    health = metrics.health()
    assert {tool: each.failure_rate for tool, each in health.items()} == {"fetch": 0, "_other": 1}
    assert health["fetch"].calls == 1
    assert health["fetch"].seconds >= 0
    assert "s-" not in metrics.text()


def test_each_token_counts_however_many_there_were():
    metrics, said = Metrics(), {"gen_ai.request.model": "m"}
    span = Span("model", "chat", "s-1", ("Ann",), "t", "1", start=1, end=10**9, attributes=said)
    for tokens, cost in ((987_654_321, 1234.5), (1, 0.0625)):
        metrics.end(replace(span, usage=Usage(input_tokens=tokens, cost=cost)), None)
    metrics.end(replace(span, end=12_345_678 * 10**9 + 1), None)
    lines = metrics.text().splitlines()
    assert 'greenroom_tokens_total{model="m",kind="input"} 987654322' in lines
    assert 'greenroom_cost_total{model="m"} 1234.5625' in lines
    (seconds,) = (line for line in lines if line.startswith("greenroom_model_seconds_sum"))
    assert float(seconds.split()[1]) == pytest.approx(12_345_680, abs=0.01)


def test_the_share_of_the_window_that_the_last_request_took_is_a_gauge():
    metrics = Metrics()
    for tokens in (20_000, 50_000):
        said = {
            "gen_ai.provider.name": "anthropic",
            "gen_ai.request.model": "claude-haiku-4-5",
            "gen_ai.usage.input_tokens": tokens,
        }
        metrics.end(
            Span("model", "chat", "s-1", ("Ann",), "t", "1", start=1, attributes=said), None
        )
    [line] = [each for each in metrics.text().splitlines() if each.startswith("greenroom_window")]
    assert line == 'greenroom_window_ratio{model="claude-haiku-4-5"} 0.25'
    assert "# TYPE greenroom_window_ratio gauge" in metrics.text()


async def test_ten_thousand_invented_tools_are_one_series():
    metrics = Metrics()
    steps = [[call(f"invented_{at}_{n}") for n in range(500)] for at in range(20)]
    async with AgentRuntime(InMemoryStore(), instruments=[Tracer(metrics)]) as runtime:
        await Agent(ScriptedProvider(*steps, "done"), tools=[fetch]).run("Go.", runtime=runtime)
    assert metrics.value("greenroom_tool_calls_total", tool="_other") >= 500
    for metric in ("calls_total", "errors_total", "seconds_count"):
        assert metrics.text().count(f"greenroom_tool_{metric}{{") == 1


async def test_how_long_subtasks_wait_for_a_worker_is_counted(kept):
    async def worker(agent):
        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                waiting.append(metrics.value("greenroom_subtasks_waiting"))
                await trio.sleep(70)
                waiting.append(metrics.value("greenroom_subtasks_waiting"))
                turn.set_result("Done.")

    worker.capabilities = ["law"]
    worker.description = "Knows the law."
    metrics, waiting = Metrics(), []
    plan = Plan("", [Subtask(name, "Sue.", capability="law") for name in "ab"])
    other = Agent(ScriptedProvider("?"), name="other", capabilities=["art"])
    team = orchestrator(ScriptedProvider("They pay."), worker, other, planner=plan)
    async with AgentRuntime(InMemoryStore(), instruments=[Tracer(metrics, kept)]) as runtime:
        handle = runtime.spawn(AgentSession.new("team"), team, unattended="deny")
        await handle.ask("Go.")
        await handle.shutdown()
    assert metrics.value("greenroom_subtask_wait_seconds") == 2
    text = metrics.text()
    assert float(text.partition("greenroom_subtask_wait_seconds_sum ")[2].split()[0]) == 70, text
    steps = [each for each in kept.spans if each.kind == "plan_step"]
    waits = [event.attributes["waited"] for each in steps for event in each.events]
    assert waits == [0, 70]
    assert waiting == [1, 1, 0, 0]  # the other one of the two, until the first is done
    assert "# TYPE greenroom_subtasks_waiting gauge" in text
    assert metrics.value("greenroom_subtasks_waiting") == 0


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

    class Caller:
        async def __call__(self, name, metrics):
            pass

    for functions in ((trio.sleep, print), (bool, trio.sleep), (bool, Caller())):
        with pytest.raises(ConfigurationError, match="'async' has an async function"):
            metrics.alert("async", *functions)
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


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_became_of_it_is_billed_once(tmp_path, seed):
    """Replies that were thrown away, left behind by a rewind, or copied by a fork."""
    random, store, ledger = Random(seed), FileStore(tmp_path), Ledger()
    tokens = count(1_000)

    def paid(text, **named):
        return Reply(text, usage=Usage(next(tokens), 1, next(tokens)), **named)

    def step():
        kind = random.choice(["plain", "plain", "tool", "ask", "broken", "stopped"])
        if kind == "broken":
            return [paid("half", error=ModelOverloadedError("busy")), paid("whole")]
        if kind == "stopped":
            return [paid("a secret")]
        if kind == "tool":
            return [paid([call("fetch", page="a")]), paid("done")]
        if kind == "ask":
            return [paid([call("ask", prompt="Find.")]), paid("done")]
        return [paid("done")]

    inner = Agent(ScriptedProvider(*[paid("found") for _ in range(50)]), name="Sub")
    ask = inner.as_tool("ask", description="Ask.")

    guard = Guard(lambda _, text: Reject("no") if "secret" in text else None, on="output")

    async def talk(session, runtime):
        steps = [each for _ in range(4) for each in step()]
        spare = ScriptedProvider(*[paid("spare") for _ in range(9)], model="spare")
        llm = resilient(ScriptedProvider(*steps), fallback=[spare])
        agent = Agent(llm, name="Ann", tools=[fetch, ask], guards=[guard])
        handle = runtime.spawn(session, agent)
        for _ in range(4):
            await handle.ask("Go.")
        await handle.shutdown()
        return await AgentSession.load(session.session_id, store=store, keep_open=True)

    async with AgentRuntime(store, instruments=[ledger]) as runtime:
        session = await talk(AgentSession.new("ann", store=store), runtime)
        await session.rewind(2)
        session = await talk(session, runtime)
        forked = await session.fork(random.randint(1, len(session.history)))
        await talk(forked, runtime)
    stored = await Ledger.of_store(store)
    assert stored.rows == ledger.rows
    assert stored.damaged == ()
    roots = {each.root for each in stored.rows}
    assert roots == {session.session_id, forked.session_id}
    tree = await Ledger.of_store(store, session_id=session.session_id)
    assert tree.rows == {k: v for k, v in stored.rows.items() if k.root == session.session_id}


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
