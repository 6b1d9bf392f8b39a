"""Whoever watches changes nothing, and misses no call of a model."""

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
)
from greenroom.core._internal import serde
from greenroom.flow import TextTools, committee, handoff_team, plan_and_execute
from greenroom.llm import ModelOverloadedError, resilient
from greenroom.observability import (
    Audit,
    InvariantCheck,
    JsonLog,
    Ledger,
    Metrics,
    Recorder,
    TraceFile,
    Tracer,
)
from greenroom.testing import ScriptedProvider, call


def fetch(page: str) -> str:
    """Fetch a page."""
    return f"{page}!"


def fail(request):
    raise ModelOverloadedError("busy")


def plain(message):
    """What was said, without the ids and times that differ from run to run."""
    return serde.loads(serde.encode(message)) | {"id": "", "created_at": "", "prefix": ""}


async def converse(store, instruments=(), gates=()):
    steps = [[call("fetch", page="a"), call("fecth", page="b"), call("fetch", pages=1)], "done"]
    for at, each in enumerate(steps[0]):
        steps[0][at] = serde.convert(
            serde.loads(serde.encode(each)) | {"id": f"t-{at}"}, type(each)
        )
    llm = ScriptedProvider(*steps, "again")
    rules = [PermissionRule.deny_command("rm"), PermissionRule.allow_all()]
    agent = Agent(
        llm, tools=[fetch], permissions=PermissionManager(rules=rules), instructions="Be."
    )
    async with AgentRuntime(store, instruments=instruments, gates=gates) as runtime:
        session = AgentSession.new("agent", store=store)
        handle = runtime.spawn(session, agent)
        await handle.ask("Fetch a and b.")
        await handle.ask("And?")
        await handle.shutdown()
    loaded = await AgentSession.load(session.session_id, store=store)
    requests = [
        ([plain(each) for each in request.messages], request.system, request.tools)
        for request in llm.requests
    ]
    return requests, [plain(each) for each in loaded.history]


async def test_requests_and_history_are_the_same_with_everything_attached(tmp_path):
    alone = await converse(FileStore(tmp_path / "alone"))
    async with TraceFile() as file, Recorder() as recorder, Audit(tmp_path / "audit") as audit:
        tracer = Tracer(file, Metrics(), JsonLog(), content="redacted")
        check = InvariantCheck()
        watched = await converse(
            FileStore(tmp_path / "watched"), [tracer, recorder, Ledger(), check], [audit]
        )
    assert watched == alone
    assert not check.counts


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
    "make", [make_text_tools, make_resilient, make_plan, make_handoffs, make_committee]
)
async def test_each_call_that_reached_a_model_is_a_span_or_an_attempt(make, kept):
    models = []
    runnable = make(models)
    async with AgentRuntime(InMemoryStore(), instruments=[Tracer(kept)]) as runtime:
        with trio.fail_after(600):
            await runnable.run("Go.", runtime=runtime)
    kept.check()
    chats = [each for each in kept.spans if each.kind == "model"]
    attempts = [
        event
        for each in chats
        for event in each.events
        if event.name in ("model.retry", "model.fallback")
    ]
    assert len(chats) + len(attempts) == sum(len(each.requests) for each in models) > 0
    assert len([each for each in kept.spans if not each.parent_id]) == 1
