"""The page about troubleshooting: each row about agents is reproduced, and seen as it says."""

import json
import re
import time
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio
import trio.lowlevel
import trio.testing

from greenroom import (
    Agent,
    AgentContext,
    AgentRuntime,
    AgentSession,
    FileStore,
    GreenroomError,
    InMemoryStore,
    MailboxFullError,
    RuntimeLimits,
    ToolError,
    tool,
)
from greenroom.core import Done, Lagged, Price, TextDelta, Usage, UserInput
from greenroom.core._internal import RECALLED, EventLoopError
from greenroom.flow import (
    Blackboard,
    ConflictError,
    Plan,
    StaleWriteError,
    Subtask,
    TextTools,
    Topic,
    majority,
    most_confident,
    orchestrator,
    plan_and_execute,
    resolve,
)
from greenroom.flow._internal import AgentAnswer, PlanError, SubtaskStatus
from greenroom.llm import ModelOverloadedError, ModelTimeoutError, resilient
from greenroom.memory import SQLiteMemory
from greenroom.observability import (
    InvariantCheck,
    Metrics,
    Trace,
    TraceFile,
    Tracer,
    diagnose,
    prompt_sections,
    read_trace,
)
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.testing import Reply, ScriptedProvider, call, drift, run_in_virtual_time

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "troubleshooting.md"
FREE = Price(0.0, 0.0)
REPRODUCED = {}


def row(symptom):
    """Register what reproduces a row, by what its first cell says."""

    def register(function):
        assert symptom not in REPRODUCED
        REPRODUCED[symptom] = function
        return function

    return register


def fetch(page: str) -> str:
    """Fetch a page."""
    return f"{page}!"


def scripted(*steps, **named):
    return ScriptedProvider(*steps, **{"price": FREE, **named})


def results(result):
    return [r.text for each in result.messages for r in each.tool_results]


async def look_at(agent, folder, **spawned):
    """Run an agent, and return its diagnoses, its trace and the result of its turn."""
    store = FileStore(folder)
    async with TraceFile() as file:
        tracer = Tracer(file, content="redacted")
        async with AgentRuntime(store, instruments=[tracer]) as runtime:
            session = AgentSession.new("agent", store=store)
            handle = runtime.spawn(session, agent, **spawned)
            result = await handle.ask("Go.")
            await handle.shutdown()
    id_ = session.session_id
    loaded = await AgentSession.load(id_, store=store, keep_open=True)
    trace = await read_trace(id_, store=store)
    return {each.kind: each for each in diagnose(loaded, trace)}, trace, result


# The loop and its tools


@row("it makes the same call again and again")
async def repeats(folder):
    steps = [[call("fetch", page="a")]] * 9
    found, _, result = await look_at(Agent(scripted(*steps), tools=[fetch]), folder)
    assert "fetch" in found["loop"].text
    assert result.status == "failed"


@row("it goes on and never answers")
async def never_answers(folder):
    steps = [[call("fetch", page=str(at))] for at in range(3)]
    agent = Agent(scripted(*steps, "That is all I know."), tools=[fetch], max_steps=4)
    _, trace, result = await look_at(agent, folder)
    assert sum(each.kind == "model" for each in trace.spans) == 4
    assert result.text == "That is all I know."


@row("it calls tools that do not exist")
async def invented(folder):
    steps = [[call("fecth", page="a"), call("fecth", page="b")], "done"]
    found, *_ = await look_at(Agent(scripted(*steps), tools=[fetch]), folder)
    assert (found["invented tool"].text, "2 times" in found["invented tool"].message) == (
        "fecth",
        True,
    )
    assert found.keys() == {"invented tool"}


@row("its calls do not fit")
async def unfit(folder):
    found, *_ = await look_at(
        Agent(scripted([call("fetch", pages="a")], "done"), tools=[fetch]), folder
    )
    assert found["invalid input"].text == "fetch"


@row("its calls are text that can't be read")
async def unreadable(folder):
    model = TextTools(scripted("Action: [", "Final Answer: done"))
    found, trace, _ = await look_at(Agent(model, tools=[fetch]), folder)
    assert "format error" in found
    events = [event for each in trace.spans for event in each.events]
    (asked,) = [each for each in events if each.name == "react.reformat"]
    assert asked.attributes["reason"]
    (again,) = [each for each in events if each.name == "reply.restarted"]
    assert again.attributes["text"] == "Action: ["


@row("a tool failed, and the model does not know")
async def silent_failure(folder):
    async def fail(kind: str) -> str:
        """Fail."""
        await trio.lowlevel.checkpoint()
        if kind == "raises":
            raise ToolError("the disk is full")
        return "error: the disk is full"

    model = scripted([call("fail", kind="raises"), call("fail", kind="returns")], "done")
    await look_at(Agent(model, tools=[fail]), folder)
    raised, returned = model.requests[1].messages[-1].tool_results
    assert (raised.is_error, returned.is_error) == (True, False)


@row("a tool hangs")
async def hangs(folder):
    begun = trio.Event()

    @tool(timeout=60)
    async def wait() -> str:
        """Wait."""
        begun.set()
        await trio.sleep_forever()

    agent = Agent(scripted([call("wait")], "done"), tools=[wait])
    async with AgentRuntime(InMemoryStore()) as runtime, trio.open_nursery() as nursery:
        handle = runtime.spawn(AgentSession.new("agent"), agent)
        nursery.start_soon(handle.ask, "Go.")
        await begun.wait()
        await trio.sleep(20)
        assert re.search(r"wait \(.*\) 20\.0 s", str(runtime.tree()))
        await trio.sleep(41)
        assert "wait (" not in str(runtime.tree())


@row("a tool is slow")
async def slow(folder):
    async def crawl() -> str:
        """Crawl."""
        await trio.lowlevel.checkpoint()
        return "there"

    _, trace, _ = await look_at(Agent(scripted([call("crawl")], "done"), tools=[crawl]), folder)
    (ran,) = [each for each in trace.spans if each.kind == "tool"]
    late = msgspec.structs.replace(ran, end=ran.start + 31 * 10**9)
    spans = tuple(late if each is ran else each for each in trace.spans)
    session = AgentSession.new("agent", session_id=ran.session_id)
    assert [each.text for each in diagnose(session, Trace(spans))] == ["crawl"]


@row("a tool succeeds with wrong data")
async def wrong_data(folder):
    schema = {"type": "object", "required": ["price"], "properties": {"price": {"type": "number"}}}

    @tool(output_schema=schema)
    def quote() -> object:
        """Quote a price."""
        return {"prize": 7}

    metrics = Metrics()
    async with AgentRuntime(InMemoryStore(), instruments=[Tracer(metrics)]) as runtime:
        agent = Agent(scripted([call("quote")], "done"), tools=[quote])
        result = await agent.run("Go.", runtime=runtime)
    assert "does not fit what the tool promises" in results(result)[0]
    assert metrics.health()["quote"].failure_rate == 1


@row("a tool gets huge data")
async def huge(folder):
    def dump() -> str:
        """Dump all."""
        return "x" * 1_000_000

    agent = Agent(scripted([call("dump")], "done"), tools=[dump])
    result = await agent.run("Go.", store=FileStore(folder))
    assert "session:" in results(result)[0]


@row("a model's call times out")
async def times_out(folder):
    def late(request):
        raise ModelTimeoutError("no event within 60 s")

    found, trace, result = await look_at(Agent(resilient(scripted(late, "done"))), folder)
    assert "retry" in found
    assert "no event within 60 s" in str([each.events for each in trace.spans])
    assert result.text == "done"


@row("the window is full")
async def full(folder):
    usage = Usage(190_000, 5, cost=0.1)
    model = scripted(Reply("done", usage=usage), name="anthropic", model="claude-haiku-4-5")
    found, *_ = await look_at(Agent(model), folder)
    assert "95%" in found["context pressure"].message


@row("a request is large, and nobody knows why")
async def large(folder):
    model = scripted([call("fetch", page="a" * 9_000)], "done")
    await look_at(Agent(model, tools=[fetch], instructions="Be brief."), folder)
    sections = {each.name: each.tokens for each in prompt_sections(model.requests[1])}
    assert sections["results"] > sections["tools"] > 0
    assert sections["results"] > sections["system"] > 0


# Plans, teams and messages


@row("a subtask without an id")
async def no_id(folder):
    with pytest.raises(TypeError):
        Subtask()
    with pytest.raises(PlanError):
        Subtask("", "Find it.")


@row("a status is no JSON")
async def status(folder):
    assert json.dumps([SubtaskStatus.COMPLETED]) == '["completed"]'


@row("a copy changed the original")
async def frozen(folder):
    first = Subtask("a", "Find it.", tool="fetch", arguments={"page": "a"})
    with pytest.raises(AttributeError, match="immutable"):
        first.goal = "Lose it."
    with pytest.raises(TypeError, match="frozen"):
        first.arguments["page"] = "b"
    assert msgspec.structs.replace(first, goal="Lose it.").goal != first.goal


@row("subtasks wait for each other")
async def circle(folder):
    with pytest.raises(PlanError, match=r"(a → b → a|b → a → b)"):
        Plan("", [Subtask("a", "", after=["b"]), Subtask("b", "", after=["a"])])


@row("subtasks run in the wrong order")
async def order(folder):
    steps = [Subtask("sum", "Add.", after=["x", "y"]), Subtask("y", ""), Subtask("x", "")]
    found = Plan("", steps).order()
    assert found[-1] == "sum"


@row("it stays in planning")
async def planning(folder):
    planner = scripted(Reply("", hangs=True))
    agent = plan_and_execute(planner)
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("planner"), agent)
        await handle.send_input("Go.")
        await trio.sleep(5)
        assert "turn 1" in str(runtime.tree())
        handle.kill()


@row("agents delegate in a circle")
async def delegates(folder):
    def asks(name):
        def model(request):
            found = request.messages[-1].tool_results
            return found[0].text if found else call(name, prompt="?")

        return scripted(*[model] * 9)

    ann = Agent(asks("bob"), tools=lambda _: [bob.as_tool()], name="ann", description="Asks.")
    bob = Agent(asks("ann"), tools=lambda _: [ann.as_tool()], name="bob", description="Asks.")
    assert "ann → bob → ann" in (await ann.run("Go.")).output


@row("an orchestrator does not respond")
async def busy(folder):
    limits = RuntimeLimits(mailbox=1)
    async with AgentRuntime(InMemoryStore(), limits=limits) as runtime:

        async def waits(agent):
            async for message in agent.inputs():
                async with agent.turn(message):
                    await trio.sleep_forever()

        handle = runtime.spawn(AgentSession.new("boss"), waits)
        await handle.send_input("Go.")
        await trio.testing.wait_all_tasks_blocked()
        handle.send_input_nowait("And on.")
        with pytest.raises(MailboxFullError):
            handle.send_input_nowait("And on.")
        assert "mailbox 1/1" in str(runtime.tree())
        handle.kill()


@row("a worker ignores its tasks")
async def ignores(folder):
    topic = Topic("tasks")
    async with AgentRuntime(InMemoryStore()) as runtime:
        worker = runtime.spawn(AgentSession.new("worker"), Agent(scripted("done")))
        assert (await topic.publish("Sort them.")).delivered == ()
        assert topic.statistics().members == {}
        topic.join(worker)
        assert (await topic.publish("Sort them.")).delivered == (worker.session_id,)


@row("messages are lost")
async def lost(folder):
    topic = Topic("tasks", when_full="refuse")
    limits = RuntimeLimits(mailbox=1)
    async with AgentRuntime(InMemoryStore(), limits=limits) as runtime:

        async def sleeps(agent):
            await trio.sleep_forever()

        worker = runtime.spawn(AgentSession.new("worker"), sleeps)
        topic.join(worker)
        await topic.publish("one")
        assert list((await topic.publish("two")).missed) == [worker.session_id]
        worker.kill()


@row("shared findings are outdated")
async def outdated(folder):
    board = Blackboard()
    await board.put("capital", "Bonn", 0)
    await board.put("capital", "Berlin", 1)
    with pytest.raises(StaleWriteError, match="has version 2"):
        await board.put("capital", "Paris", 1)


@row("two agents write at once")
async def at_once(folder):
    board, told = Blackboard(), []

    async def write(value):
        try:
            await board.put("claim", value, 0)
        except StaleWriteError:
            told.append(value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write, "ann")
        nursery.start_soon(write, "bob")
    assert {board.get("claim").value, *told} == {"ann", "bob"}


@row("agents contradict each other")
async def contradict(folder):
    answers = [AgentAnswer("ann", "tabs", 0.5), AgentAnswer("bob", "spaces", 0.5)]
    with pytest.raises(ConflictError, match="ann") as refused:
        await resolve(answers, majority, most_confident)
    assert "bob" in str(refused.value)


@row("the final answer lacks a result")
async def lacks(folder):
    plan = Plan("", [Subtask("a", "Measure."), Subtask("b", "Guess.")])
    worker = Agent(scripted("It is 21 degrees.", "It rains."), name="worker")
    boss = scripted(*["It is warm and wet."] * 3)
    async with AgentRuntime(InMemoryStore()) as runtime:
        team = orchestrator(boss, worker, planner=plan)
        handle = runtime.spawn(AgentSession.new("team"), team, unattended="deny")
        await handle.ask("Go.")
        await handle.shutdown()
    last = str(boss.requests[-1].messages)
    assert "It is 21 degrees." in last
    assert "It rains." in last


@row("a person's answer never comes")
async def never_comes(folder):
    permissions = PermissionManager(rules=[PermissionRule.ask_for_tool("fetch")])
    agent = Agent(scripted([call("fetch", page="a")]), tools=[fetch], permissions=permissions)
    found, *_ = await look_at(agent, folder, unattended="suspend")
    assert "never answered" in found


@row("memories that do not fit")
async def unfitting(folder):
    memory = SQLiteMemory()
    await memory.add("The port of the tests is 8080.")
    told = []
    for threshold in (0.0, 1.0):
        agent = Agent(scripted("Hm."), memory=memory, recall_threshold=threshold)
        result = await agent.run("Which tests failed at noon, and why?")
        told.append(any(each.sender == RECALLED for each in result.messages))
    assert told == [True, False]


@row("memories are not found")
async def not_found(folder):
    memory = SQLiteMemory()
    await memory.add("Lunch is at noon.")
    assert not await memory.recall("dinner")
    assert await memory.recall("lunch")


@row("a state that can't be")
async def impossible(folder):
    check = InvariantCheck()
    agent = AgentContext(session_id="s-1", agent_type="a", current_turn=1)
    check.before_turn(agent, UserInput((), id="i-1"))
    check.after_turn(agent, Done("i-2"))
    assert check.counts["a turn ends that has not begun"] == 1


@row("a dashboard falls behind")
async def falls_behind(folder):
    async def talks(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                for _ in range(3_000):
                    await agent.send(TextDelta("x"))

    limits = RuntimeLimits(ring_chunks=100)
    async with AgentRuntime(InMemoryStore(), limits=limits) as runtime:
        handle = runtime.spawn(AgentSession.new("talker"), talks)
        late = handle.subscribe()
        await handle.ask("Go.")
        await handle.shutdown()
        batches = [batch async for batch in in_batches(late)]
    assert isinstance(batches[0][0], Lagged)
    assert max(map(len, batches)) > 1


async def in_batches(chunks):
    while True:
        try:
            batch = await chunks.take()
        except (StopAsyncIteration, trio.EndOfChannel, trio.ClosedResourceError):
            return
        if not batch:
            return
        yield batch


# Tests of agents


@row("a test of a tool hangs")
async def waits_for_an_hour(folder):
    begun = time.monotonic()
    await trio.sleep(3_600)
    assert time.monotonic() - begun < 60


@row("the script is used up")
async def used_up(folder):
    result = await Agent(ScriptedProvider([call("fetch", page="a")]), tools=[fetch]).run("Go.")
    with pytest.raises(GreenroomError, match="this was request 2"):
        _ = result.output


@row("errors of event loops")
async def event_loops(folder):
    with pytest.raises(EventLoopError, match="run_sync"):
        Agent(scripted("Hi.")).run_sync("Go.")


@row("passes here and fails elsewhere")
async def elsewhere(folder):
    done = []

    async def work(seconds):
        await trio.sleep(seconds)
        done.append(seconds)

    async with trio.open_nursery() as nursery:
        for seconds in (0.3, 0.1, 0.2):
            nursery.start_soon(work, seconds)
    assert done == [0.1, 0.2, 0.3]


@row("a test with a real model is flaky")
async def flaky(folder):
    def ask(instructions):
        return Agent(scripted("Hi!"), instructions=instructions, name="agent")

    store = FileStore(folder)
    async with TraceFile() as file:
        tracer = Tracer(file, content="redacted")
        async with AgentRuntime(store, instruments=[tracer]) as runtime:
            session = (await ask("Be brief.").run("Go.", runtime=runtime)).session
    trace = await read_trace(session.session_id, store=store)
    assert await drift(session, trace, ask("Be brief.")) is None
    assert (await drift(session, trace, ask("Be polite."))).step == 1


@row("errors are never tested")
async def never_tested(folder):
    def fail(request):
        raise ModelOverloadedError("busy")

    model = ScriptedProvider(fail, "Hi.")
    assert (await Agent(resilient(model)).run("Go.")).output == "Hi."


def rows():
    text = PAGE.read_text()
    part = text[text.index("## An agent does something odd") : text.index("## Runs, sessions")]
    cells = [
        re.split(r"(?<!\\) \| ", line.strip("| ")) for line in part.splitlines() if "|" in line
    ]
    return {each[0]: each for each in cells if each[0] not in {"what you see", "---"}}


def test_each_row_is_reproduced_and_has_its_four_cells():
    assert rows().keys() == REPRODUCED.keys()
    assert all(len(each) == 4 and all(each) for each in rows().values())


@pytest.mark.parametrize("symptom", REPRODUCED)
def test_a_row(symptom, tmp_path):
    run_in_virtual_time(partial(REPRODUCED[symptom], tmp_path))
