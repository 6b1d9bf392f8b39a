"""Whoever watches changes nothing, and misses no call of a model."""

from dataclasses import replace as replace_value

import pytest
import trio

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    FileStore,
    InMemoryStore,
    PermissionManager,
    PermissionRule,
    ToolError,
    ToolUseBlock,
)
from greenroom.core._internal import serde
from greenroom.flow import TextTools, committee, handoff_team, plan_and_execute
from greenroom.llm import ModelOverloadedError, ModelSettings, resilient
from greenroom.observability import (
    Audit,
    InvariantCheck,
    JsonLog,
    Ledger,
    Metrics,
    OpenTelemetry,
    Recorder,
    TraceFile,
    Tracer,
)
from greenroom.testing import ScriptedProvider, call

ran = []


def fetch(page: str) -> str:
    """Fetch a page."""
    ran.append(page)
    return f"{page}!"


def leak(page: str) -> str:
    """Fail with a secret."""
    ran.append(page)
    raise ToolError("no sk-proj-Zq8x7Yw6Vv5Uu4Tt3Ss2Rr1")


def fail(request):
    raise ModelOverloadedError("busy")


def plain(message):
    """What was said, without the ids and times that differ from run to run."""
    return serde.loads(serde.encode(message)) | {"id": "", "created_at": "", "prefix": ""}


async def converse(store, instruments=(), gates=()):
    """Return what was asked, stored and run."""
    ran.clear()
    calls = [
        call("fetch", page="a"),
        call("fecth", page="b"),
        call("fetch", pages=1),
        call("leak", page="password=hunter22"),
        call("ask", prompt="Bearer eyOpaque9Token8Value7"),
    ]
    calls = [ToolUseBlock(f"t-{at}", each.name, each.input) for at, each in enumerate(calls)]
    sub = ScriptedProvider("found")
    llm = ScriptedProvider(calls, "done", "again")
    rules = [PermissionRule.deny_command("rm"), PermissionRule.allow_all()]
    agent = Agent(
        llm,
        tools=[fetch, leak, Agent(sub, name="Sub").as_tool("ask", description="Ask.")],
        permissions=PermissionManager(rules=rules),
        instructions="Be.",
        settings=ModelSettings(max_tokens=99, temperature=0.5),
    )
    async with AgentRuntime(store, instruments=instruments, gates=gates) as runtime:
        session = AgentSession.new("agent", store=store)
        handle = runtime.spawn(session, agent)
        await handle.ask("Fetch a and b, token=abc123secret9.")
        await handle.ask("And?")
        await handle.shutdown()
    loaded = await AgentSession.load(session.session_id, store=store)
    asked = [
        replace_value(request, messages=(), conversation="")
        for request in llm.requests + sub.requests
    ]
    said = [[plain(each) for each in request.messages] for request in llm.requests + sub.requests]
    decided = [(each.tool_use_id, each.decision, each.by) for each in await loaded.read_decisions()]
    return asked, said, [plain(each) for each in loaded.history], sorted(ran), decided


@pytest.mark.parametrize("content", ["none", "redacted", "full"])
async def test_nothing_differs_with_everything_attached(tmp_path, collector, content):
    alone = await converse(FileStore(tmp_path / "alone"))
    assert len(alone[0]) == 4
    async with TraceFile() as file, Recorder() as recorder, Audit(tmp_path / "audit") as audit:
        otel = OpenTelemetry(collector.tracers, collector.meters)
        tracer = Tracer(file, Metrics(), JsonLog(), otel, content=content)
        check = InvariantCheck()
        watched = await converse(
            FileStore(tmp_path / "watched"), [tracer, recorder, Ledger(), check], [audit]
        )
    assert watched == alone
    assert not check.counts


def make_plain(models):
    llm = ScriptedProvider([call("fetch", page="a")], fail)
    models.append(llm)
    return Agent(llm, tools=[fetch])


def make_compacting(models):
    def answer(request):
        return "word " * 300 if request.tools else "notes"

    steps = [[call("fetch", page="a" * 400)]] * 4
    llm = ScriptedProvider(*[step for each in steps for step in (each, answer)], *[answer] * 20)
    models.append(llm)
    return Agent(llm, tools=[fetch], window=1_500, max_steps=20)


def make_text_tools(*models):
    llm = ScriptedProvider("Action: [", "Final Answer: done")
    models[0].append(llm)
    return Agent(TextTools(llm), tools=[fetch])


def make_resilient(models):
    first, second = ScriptedProvider(fail, fail, fail), ScriptedProvider("done")
    models += [first, second]
    return Agent(resilient(first, fallback=[second]))


def make_plan(models):
    plan = {"goal": "Go.", "subtasks": [{"id": "a", "goal": "Look"}, {"id": "b", "goal": "Look"}]}
    llm = ScriptedProvider(serde.encode(plan).decode(), *["done"] * 5)
    models.append(llm)
    return plan_and_execute(llm, [fetch])


def make_handoffs(models):
    first = ScriptedProvider(call("transfer_to_Bob"))
    second = ScriptedProvider("done")
    models += [first, second]
    bob = Agent(second, name="Bob", description="Knows.")
    return handoff_team(Agent(first, name="Ann", description="Asks.", handoffs=[bob]), bob)


def make_committee(models):
    members = []
    for name in ("Ann", "Bob", "Cid"):
        llm = ScriptedProvider("yes")
        models.append(llm)
        members.append(Agent(llm, name=name))
    return committee(*members)


@pytest.mark.parametrize(
    "make",
    [
        make_plain,
        make_compacting,
        make_text_tools,
        make_resilient,
        make_plan,
        make_handoffs,
        make_committee,
    ],
)
async def test_each_call_that_reached_a_model_is_a_span_or_an_attempt(make, kept):
    models = []
    runnable = make(models)
    async with AgentRuntime(InMemoryStore(), instruments=[Tracer(kept)]) as runtime:
        with trio.fail_after(600):
            result = await runnable.run("Go.", runtime=runtime)
            for _ in range(6 if make is make_compacting else 0):
                result = await runnable.run("Go on.", session=result.session, runtime=runtime)
    if make is make_compacting:
        assert any(not each.tools for each in models[0].requests)
    kept.check()
    chats = [each for each in kept.spans if each.kind == "model"]
    attempts = [
        event
        for each in chats
        for event in each.events
        if event.name in ("model.retry", "model.fallback")
    ]
    assert len(chats) + len(attempts) == sum(len(each.requests) for each in models) > 0
    roots = [each for each in kept.spans if not each.parent_id]
    assert len(roots) == (7 if make is make_compacting else 1)
