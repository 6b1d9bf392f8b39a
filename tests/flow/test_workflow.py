"""Running workflows: steps, merging, routes, lists, agents and workflows as nodes, streams."""

import operator
import random
from collections import Counter
from functools import partial
from inspect import Parameter, signature
from typing import Annotated, Literal, TypedDict

import msgspec
import pytest
import trio

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    ConfigurationError,
    Custom,
    Done,
    InMemoryStore,
    RuntimeLimits,
    ToolError,
)
from greenroom.agents import Runnable
from greenroom.core import SessionStorageError, TurnStatus
from greenroom.flow import END, START, Workflow, pipeline, request_approval
from greenroom.flow._internal import WorkflowError, WorkflowLimitError, ask_member
from greenroom.flow.workflow import WorkflowOptions
from greenroom.testing import Reply, ScriptedProvider, call
from tests.conftest import few


class State(msgspec.Struct, frozen=True):
    words: tuple[str, ...] = ()
    log: Annotated[list[str], operator.add] = []
    total: Annotated[int, operator.add] = 0
    best: str = ""


STATE = State(words=("a", "bcd", "ef", "g"))


def shuffled_workflow(seed):
    """A workflow with branches, a cycle and a list, whose nodes take random times."""
    clock = random.Random(seed)

    async def take_time():
        for _ in range(clock.randrange(20)):
            await trio.lowlevel.checkpoint()

    def node(name):
        async def work(state):
            await take_time()
            return {"log": [f"{name} sees {len(state.log)}"], "total": len(name)}

        return work

    async def measure(state, word):
        await take_time()
        return {"log": [word.upper()], "total": len(word)}

    def again(state: State) -> Literal["split", "END"]:
        return "split" if state.total < 40 else "END"

    workflow = Workflow(State).node("measure", measure).each("measure", over="words", concurrency=3)
    for name in ("split", "left", "right", "join"):
        workflow.node(name, node(name))
    workflow.edge(START, "split").edge("split", "left").edge("split", "right")
    workflow.edge("split", "measure", when=lambda state: state.total < 20)
    return (
        workflow.edge("left", "join")
        .edge("right", "join")
        .edge("measure", "join")
        .route("join", again)
    )


@pytest.mark.parametrize("is_converted", [False, True], ids=["of its type", "of another type"])
async def test_within_a_step_only_what_a_reducer_returns_of_another_type_is_copied(is_converted):
    given, returned = [], []

    def join(old: set[int], new: set[int]) -> object:
        given.append(old)
        returned.append(sorted(old | new) if is_converted else old | new)
        return returned[-1]

    class Numbers(TypedDict):
        items: list[int]
        found: Annotated[set[int], join]

    async def find(state: Numbers, item: int) -> dict[str, object]:
        return {"found": [item]}

    workflow = Workflow(Numbers).node("find", find).each("find", over="items")
    workflow.edge(START, "find").edge("find", END)
    run = await workflow.run({"items": [1, 2, 3], "found": []})
    assert run.state["found"] == {1, 2, 3}
    passed_on = [old is before for before, old in zip(returned[:2], given[1:3], strict=True)]
    assert passed_on == [not is_converted] * 2


async def inside(function):
    """Call a function in the turn of an agent, so that its runs are subagents of one runtime."""

    async def agent(internals):
        async for message in internals.inputs():
            async with internals.turn(message):
                await function()

    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("outer"), agent)
        assert (await handle.ask("Go.")).error == ""


async def test_the_trace_is_the_same_whatever_takes_longer(stopped_clock):
    traces = {}

    async def trace():
        for seed in range(few(100)):
            async with shuffled_workflow(seed).stream(STATE, mode="debug") as stream:
                chunks = [chunk async for chunk in stream if isinstance(chunk, Custom)]
            run = stream.result
            loaded = shuffled_workflow(0).load(run.session)
            assert (run.state, run.steps, run.next) == (loaded.state, loaded.steps, loaded.next)
            steps = [chunk for chunk in chunks if chunk.kind == "workflow.step"]
            assert [chunk.data["updates"] for chunk in steps[1:]] == [s.updates for s in run.steps]
            records = run.session.records("workflow.step")
            assert {each["at"] for each in records} == {"2026-01-14T10:30:00Z"}
            assert all(step.at == stopped_clock for step in run.steps)
            traces[msgspec.json.encode((run.state, run.steps, records, steps))] = run

    await inside(trace)
    (run,) = traces.values()
    assert run.state.log[:4] == ["split sees 0", "A", "BCD", "EF"]
    assert [list(step.updates) for step in run.steps[:3]] == [
        ["split"],
        ["measure", "left", "right"],
        ["join"],
    ]


async def test_each_node_has_a_copy_of_the_state(autojump_clock):
    class Box(TypedDict):
        items: list[int]

    async def spoil(state: Box) -> None:
        state["items"].append(9)
        await trio.sleep(1)

    async def look(state: Box) -> dict[str, object]:
        await trio.sleep(0.5)
        return {"items": [*state["items"], 2]}

    workflow = Workflow(Box).node("spoil", spoil).node("look", look)
    workflow.edge(START, "spoil").edge(START, "look").edge("spoil", END).edge("look", END)
    given: Box = {"items": [1]}
    assert (await workflow.run(given)).state == {"items": [1, 2]}
    assert given == {"items": [1]}


async def test_no_more_items_run_at_once_than_the_limit_says(autojump_clock):
    running, most = 0, 0

    async def work(state, word):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(1)
        running -= 1
        return {"log": word}

    workflow = Workflow(State).node("work", work).each("work", over="words", concurrency=4)
    workflow.edge(START, "work").edge("work", END)
    words = tuple("abcdefghij")
    begun = trio.current_time()
    run = await workflow.run(State(words=words))
    assert trio.current_time() - begun == pytest.approx(3)
    assert most == 4
    assert tuple(run.state.log) == words
    assert (await workflow.run(State())).state == State()


async def echo(agent, delay=0.0):
    """Answer with the length of the input, as a value."""
    async for message in agent.inputs():
        async with agent.turn(message) as turn:
            await trio.sleep(delay)
            turn.set_result(f"{message.sender}: {message.text}")


def test_a_run_has_the_arguments_of_every_other_runnable():
    named = {
        name
        for name, each in signature(Runnable.run).parameters.items()
        if each.kind is Parameter.KEYWORD_ONLY
    }
    assert WorkflowOptions.__annotations__.keys() - {"max_steps"} == named


def test_a_capability_that_stands_alone_is_refused():
    with pytest.raises(ConfigurationError, match=r"write capabilities=\['style'\]"):
        Workflow(State, capabilities="style")


async def test_an_argument_that_a_run_does_not_have_is_refused():
    async def look(state):
        return None

    workflow = Workflow(State).node("look", look).edge(START, "look").edge("look", END)
    with pytest.raises(TypeError, match="sesion"):
        await workflow.run(STATE, sesion="s-1")


async def test_agents_get_a_field_and_set_one():
    llm = ScriptedProvider("forty", '["x", "y"]')
    workflow = Workflow(State).node("ask", Agent(llm), input="best", output="best")
    workflow.node("list", Agent(llm), input="words", output="words")
    workflow.node("echo", echo, input="words", output="log")
    workflow.edge(START, "ask").edge("ask", "list").edge("list", "echo").edge("echo", END)
    run = await workflow.run(State(best="How many?", words=("a", "b")))
    assert run.state == State(words=("x", "y"), best="forty", log=['workflow: ["x","y"]'])
    assert [request.messages[0].text.split("\n")[-1] for request in llm.requests] == [
        "How many?",
        '["a","b"]',
    ]
    assert len(run.session.child_session_ids) == 3


async def test_agents_wait_for_room_among_the_subagents(autojump_clock):
    workflow = Workflow(State)

    async def slow(agent):
        await echo(agent, 1.0)

    workflow.node("echo", slow, output="log").each("echo", over="words", concurrency=100)
    workflow.edge(START, "echo").edge("echo", END)

    async def lead(agent):
        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                run = await workflow.run(State(words=tuple("abcdef")))
                turn.set_result(run.state.log)

    async with AgentRuntime(InMemoryStore(), RuntimeLimits(subagents=2)) as runtime:
        handle = runtime.spawn(AgentSession.new("lead"), lead)
        begun = trio.current_time()
        result = await handle.ask("Go.")
        assert result.value == [f"workflow: {letter}" for letter in "abcdef"], result
        assert trio.current_time() - begun == pytest.approx(3, abs=0.1)


async def test_what_an_agent_has_come_to_is_saved_before_the_next_one_waits_for_room(
    autojump_clock,
):
    async def slow(agent):
        await echo(agent, 1.0)

    workflow = Workflow(State).node("echo", slow, output="log").each("echo", "words", concurrency=1)
    workflow.edge(START, "echo").edge("echo", END)
    store = InMemoryStore()
    session = AgentSession.new("lead", store=store)

    async def lead(agent):
        async def take_the_room():
            await trio.sleep(0.5)
            await ask_member(agent, partial(echo, delay=10.0), "x", name="other")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(take_the_room)
            await workflow(agent)

    async with AgentRuntime(store, RuntimeLimits(subagents=1)) as runtime:
        handle = runtime.spawn(session, lead)
        handle.send_input_nowait('{"words": ["a", "b"]}')
        await trio.sleep(1.5)  # the first has ended, and the second waits
        found = await AgentSession.load(session.session_id, store=store)
        assert found.last_record("workflow.node")["changes"] == {"log": ["workflow: a"]}
        await handle.shutdown(grace=0)


async def test_a_workflow_is_a_node_of_another_one_and_an_agent():
    class Inner(TypedDict):
        text: str

    async def shout(state: Inner) -> dict[str, object]:
        return {"text": state["text"].upper() + "!"}

    inner = Workflow(Inner, input="text", output="text").node("shout", shout)
    inner.edge(START, "shout").edge("shout", END)
    outer = Workflow(State, input="best", output="best").node(
        "inner", inner, input="best", output="best"
    )
    outer.edge(START, "inner").edge("inner", END)
    assert (await outer.run(State(best="hey"))).state.best == "HEY!"
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("shout"), outer)
        result = await handle.ask("ho")
        assert (result.value, result.text) == ("HO!", "HO!")
        assert (await handle.ask("ho")).value == "HO!"  # a finished run is not continued


async def test_an_input_does_not_read_the_runs_before_it(monkeypatch):
    async def echo(state):
        return {"best": state.best + "!"}

    def read_all(session, kind):
        raise AssertionError(f"all {kind} records were read")

    workflow = Workflow(State, input="best", output="best").node("echo", echo)
    workflow.edge(START, "echo").edge("echo", END)
    session = AgentSession.new("echo")
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(session, workflow)
        await handle.ask("one")
        with monkeypatch.context() as patch:
            patch.setattr(AgentSession, "records", read_all)
            assert (await handle.ask("two")).value == "two!"
            assert (await handle.ask("two")).value == "two!"  # a run that has ended is not resumed
    assert workflow.load(session).steps[0].run == 3


async def test_a_workflow_that_is_a_node_of_itself_is_refused():
    workflow = Workflow(State, input="best", output="best")
    workflow.node("self", workflow, input="best", output="best")
    workflow.edge(START, "self").edge("self", END)
    with pytest.raises(WorkflowError, match="it waits for this very answer"):
        _ = (await workflow.run(State())).output


async def test_a_failed_node_lets_the_others_end_and_is_named(autojump_clock):
    ended = []

    async def fail(state):
        await trio.sleep(1)
        raise ValueError("no way")

    async def work(state):
        await trio.sleep(2)
        ended.append("work")

    workflow = Workflow(State).node("fail", fail).node("work", work)
    workflow.edge(START, "fail").edge(START, "work").edge("fail", END).edge("work", END)
    with pytest.raises(ValueError, match="no way") as caught:
        await workflow.run(State())
    assert caught.value.__notes__ == ["in the node fail of a workflow"]
    assert ended == ["work"]


async def test_errors_of_ours_in_a_group_end_the_run_too():
    async def fail(state):
        async with trio.open_nursery():
            raise ToolError("no way")

    workflow = Workflow(State).node("fail", fail).edge(START, "fail").edge("fail", END)
    with pytest.raises(ToolError, match="no way"):
        _ = (await workflow.run(State())).output


async def crash(agent):
    raise ValueError("broken")


async def test_an_agent_that_fails_is_an_error_with_its_node():
    for agent in (crash, Agent(ScriptedProvider())):
        workflow = Workflow(State).node("ask", agent, input="best", output="best")
        workflow.edge(START, "ask").edge("ask", END)
        with pytest.raises(WorkflowError, match="ask failed: "):
            _ = (await workflow.run(State(best="?"))).output


async def test_half_a_character_in_a_text_becomes_a_sign_for_it():
    async def write(state):
        return {"best": f"{state.best}, name\udc80"}

    workflow = Workflow(State, input="best").node("write", write)
    run = await workflow.edge(START, "write").edge("write", END).run("a\ud800")
    assert run.state.best == "a\ufffd, name\ufffd"


@pytest.mark.parametrize("where", ["the first state", "what write returned"])
async def test_a_value_that_is_too_long_for_a_record_is_named(where):
    async def write(state):
        return {"best": "long" * 100_000}

    workflow = Workflow(State).node("write", write).edge(START, "write").edge("write", END)
    first = State(best="long" * 100_000) if where == "the first state" else State()
    result = await workflow.run(first)
    assert isinstance(result.error, WorkflowError)
    assert f"{where} has 400," in str(result.error)


@pytest.mark.parametrize("kind", ["function", "agent"])
async def test_a_time_out_ends_its_node(autojump_clock, kind):
    ended = trio.Event()

    async def hang(*_):
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    async def hanging(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await hang()

    fields = {"input": "best"} if kind == "agent" else {}
    workflow = Workflow(State).node("hang", hanging if fields else hang, timeout=5, **fields)
    workflow.edge(START, "hang").edge("hang", END)
    begun = trio.current_time()
    with pytest.raises(WorkflowLimitError, match="hang took longer than 5 seconds"):
        _ = (await workflow.run(State(best="Hang!"))).output
    assert ended.is_set()
    assert trio.current_time() - begun == pytest.approx(5, abs=0.5)


async def double(state):
    return {"total": max(1, state.total), "log": [str(state.total)]}


def doubling_workflow():
    workflow = Workflow(State).node("double", double, repeatable=True).edge(START, "double")
    return workflow.route("double", lambda state: "double" if state.total < 8 else END)


async def read(mode, **options):
    async with doubling_workflow().stream(mode=mode, **options) as stream:
        return [each async for each in stream], stream.result


async def test_a_run_is_read_in_three_modes():
    states, run = await read("values", input=State())
    assert [state.total for state in states] == [0, 1, 2, 4, 8]
    assert states[-1] == run.state
    steps, run = await read("updates", input=State())
    assert tuple(steps) == run.steps
    assert steps[2].updates == {"double": {"total": 2, "log": ["2"]}}
    chunks, run = await read("debug", input=State())
    assert [chunk.text for chunk in chunks if isinstance(chunk, Custom) and chunk.text] == [
        "workflow: begins with double",
        *(f"workflow: step {n}: double → double" for n in (1, 2, 3)),
        "workflow: step 4: double → the end",
    ]
    assert isinstance(chunks[-1], Done)
    with pytest.raises(WorkflowError, match="write values, updates or debug"):
        await read("everything")


async def test_chunks_say_that_an_item_begins_and_ends():
    async def measure(state, word):
        return {"log": [word]}

    workflow = Workflow(State).node("measure", measure).each("measure", over="words")
    workflow.edge(START, "measure").edge("measure", END)
    async with workflow.stream(State(words=("a", "b")), mode="debug") as stream:
        chunks = [chunk async for chunk in stream if isinstance(chunk, Custom)]
    units = [chunk for chunk in chunks if chunk.kind == "workflow.node"]
    begun = [chunk for chunk in units if chunk.data["status"] == "executing"]
    assert [chunk.text for chunk in begun] == [f"workflow: measure[{n}] begins" for n in (0, 1)]
    about = {"step": 1, "node": "measure", "item": 1, "session_id": ""}
    assert begun[1].data == {**about, "status": "executing"}
    ended = [chunk.data for chunk in units if chunk not in begun]
    assert {**about, "status": "completed"} in ended
    assert len(ended) == 2


async def test_states_are_kept_for_who_reads_them_alone():
    async with doubling_workflow().stream(State(), mode="updates") as stream:
        async for _ in stream:
            assert len(stream._task.unread) <= 1


async def test_no_state_is_copied_for_who_reads_none():
    made = Counter()

    class Counted(msgspec.Struct, frozen=True):
        total: int = 1

        def __post_init__(self):
            made[mode] += 1

    async def add(state):
        return {"total": state.total + 1}

    workflow = Workflow(Counted).node("add", add).edge(START, "add")
    workflow.route("add", lambda state: "add" if state.total < 8 else END)
    for mode in ("values", "updates"):
        async with workflow.stream({"total": 1}, mode=mode) as stream:
            await stream.finish()
    assert made["values"] == made["updates"]


async def test_leaving_a_stream_stops_the_run_and_it_can_be_resumed():
    session = AgentSession.new("left", store=InMemoryStore())
    async with doubling_workflow().stream(State(), session=session) as stream:
        async for state in stream:
            if state.total == 2:
                break
    assert doubling_workflow().load(session).status is TurnStatus.INTERRUPTED
    run = await doubling_workflow().run(session=session)
    assert run.state.log == ["0", "1", "2", "4"]
    again = await doubling_workflow().run(session=session)
    assert (again.state, again.steps) == (run.state, run.steps)
    assert (await doubling_workflow().run(State(total=4), session=session)).state.log == ["4"]


async def test_a_limit_that_is_raised_lets_a_run_go_on():
    session = AgentSession.new("long", store=InMemoryStore())
    with pytest.raises(WorkflowLimitError):
        _ = (await doubling_workflow().run(State(), session=session, max_steps=2)).output
    states, _ = await read("values", session=session)
    assert [state.total for state in states] == [2, 4, 8]


@pytest.mark.checkpoint("6.4 an answer lets the work go on")
async def test_a_question_is_answered_by_a_function_or_by_a_later_run():
    class Draft(TypedDict, total=False):
        text: str
        is_approved: bool

    async def approve(state: Draft) -> dict[str, object]:
        answer = await request_approval("Publish this", state["text"])
        return {"is_approved": answer.allowed}

    workflow = Workflow(Draft).node("approve", approve, repeatable=True)
    workflow.edge(START, "approve").edge("approve", END)

    async def agree(request):
        return request.details == "Hello"

    assert (await workflow.run({"text": "Hello"}, approve=agree)).state["is_approved"]
    assert not (await workflow.run({"text": "Hello"})).state["is_approved"]
    session = AgentSession.new("draft", store=InMemoryStore())
    run = await workflow.run({"text": "Hello"}, session=session, approve="later")
    assert (run.status, run.next) == (TurnStatus.WAITING, ("approve",))
    assert [request.action for request in run.pending] == ["Publish this"]
    (node,) = [request.input["node"] for request in run.pending]
    run = await workflow.run(session=session, answers={node: True})
    assert run.state["is_approved"]
    with pytest.raises(WorkflowError, match="outside the nodes of a workflow"):
        await request_approval("Hm")
    with pytest.raises(WorkflowError, match="an answer for 'nobody'"):
        _ = (await workflow.run({"text": "Hello"}, answers={"nobody": True})).output


@pytest.mark.parametrize("make", [lambda member: member, pipeline])
async def test_what_asks_no_model_gets_its_input_again_where_a_person_lets_it_run_again(make):
    heard, session = [], AgentSession.new("left", store=InMemoryStore())

    async def member(agent):
        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                heard.append(message.text)
                if len(heard) == 1:
                    nursery.cancel_scope.cancel()
                    await trio.sleep_forever()
                turn.set_result("done")

    workflow = Workflow(State).node("a", make(member), input="best", output="best")
    workflow.edge(START, "a").edge("a", END)
    async with trio.open_nursery() as nursery:
        await workflow.run(State(best="Begin."), session=session)
    run = await workflow.run(session=session, answers={"a": True})
    assert (run.state.best, heard) == ("done", ["Begin.", "Begin."])


async def test_a_run_knows_nothing_of_one_before_it_in_its_session():
    hold = [True]

    async def left(state):
        return {"log": "left"}

    async def right(state):
        if hold:
            raise ToolError("not yet")

    workflow = Workflow(State).node("left", left).node("right", right, repeatable=True)
    workflow.edge(START, "left").edge(START, "right").edge("left", END).edge("right", END)
    session = AgentSession.new("two", store=InMemoryStore())
    for _ in range(2):
        with pytest.raises(ToolError):
            _ = (await workflow.run(State(log=["first"]), session=session)).output
    hold.clear()
    records = session.records("workflow.node")
    assert (await workflow.run(session=session)).state.log == ["first", "left"]
    starts = [each for each in session.records("workflow.node") if "changes" not in each]
    assert len(starts) == 2  # that of "left", in each of the runs
    assert len(records) == 4


async def test_a_fork_of_a_run_asks_about_an_agent_that_the_other_one_may_go_on_with(
    autojump_clock,
):
    asked = []
    llm = ScriptedProvider(Reply("It is", hangs=True), "It is there.", "Again.")
    workflow = Workflow(State).node("ask", Agent(llm), input="best", output="best", timeout=5)
    workflow.edge(START, "ask").edge("ask", END)
    session = AgentSession.new("first", store=InMemoryStore())
    with pytest.raises(WorkflowLimitError):
        _ = (await workflow.run(State(best="Where?"), session=session)).output

    async def agree(request):
        asked.append(request.details)
        return True

    fork = await session.fork()
    assert (await workflow.run(session=session, approve=agree)).state.best
    assert asked == []
    assert [message.text for message in llm.requests[1].messages] == [
        "Where?",
        "It is",
        "Go on where you left off.",
    ]
    assert (await workflow.run(session=fork, approve=agree)).state.best == "Again."
    assert len(asked) == 1
    assert "of which this is a fork" in asked[0]


async def test_a_stored_run_of_another_workflow_is_refused():
    session = AgentSession.new("other", store=InMemoryStore())
    with pytest.raises(WorkflowLimitError):
        _ = (await doubling_workflow().run(State(), session=session, max_steps=1)).output
    workflow = Workflow(State).node("other", double).edge(START, "other").edge("other", END)
    with pytest.raises(WorkflowError, match="continues with 'double', which is not a node"):
        _ = (await workflow.run(session=session)).output


async def test_a_node_whose_agent_waits_for_the_workflow_is_refused_with_the_chain():
    async def work() -> str:
        """Work."""
        return (await workflow.run(State(best="?"))).output.best

    def model(request):
        results = request.messages[-1].tool_results
        return results[0].text if results else call("work")

    boss = Agent(ScriptedProvider(*[model] * 20), tools=[work], name="boss")
    workflow = Workflow(State).node("ask", boss, input="best", output="best")
    workflow.edge(START, "ask").edge("ask", END)
    result = await boss.run("Go.")
    told = "ask can't be asked: it waits for this very answer (boss → workflow → boss)"
    assert told in result.text


@pytest.mark.parametrize("is_agent", [False, True])
async def test_a_node_that_can_not_be_recorded_does_not_run(monkeypatch, is_agent):
    llm = ScriptedProvider("Hello.")

    async def greet(state):
        return {"best": (await Agent(llm).run("Say hello.")).output}

    workflow = Workflow(State)
    if is_agent:
        workflow.node("greet", Agent(llm), input="best", output="best")
    else:
        workflow.node("greet", greet)
    workflow.edge(START, "greet").edge("greet", END)
    session = AgentSession.new("workflow", store=InMemoryStore())

    async def fail(**options):
        monkeypatch.undo()
        raise SessionStorageError("the disk is full")

    monkeypatch.setattr(session, "save", fail)
    with pytest.raises(SessionStorageError, match="the disk is full"):
        _ = (await workflow.run(STATE, session=session)).output
    assert llm.requests == []
