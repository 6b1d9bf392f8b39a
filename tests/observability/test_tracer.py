"""Spans: one tree for each run, whoever runs what, and nothing in them that may not leave."""

import json
import operator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypedDict

import pytest
import trio
from pydantic import BaseModel

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    ConfigurationError,
    Custom,
    InMemoryStore,
    PermissionManager,
    PermissionRule,
    ToolError,
    tool,
)
from greenroom.core import Instrument, StateChange
from greenroom.core._internal import serde
from greenroom.flow import (
    END,
    START,
    Plan,
    RecoveryPolicy,
    Subtask,
    Workflow,
    execute_plan,
    pipeline,
    plan_and_execute,
)
from greenroom.llm import ModelRateLimitError
from greenroom.observability import Metrics, Tracer, current_traceparent, span
from greenroom.resilience import Backoff
from greenroom.testing import Reply, ScriptedProvider, call
from tests.runtime.chaos.effort import PROGRAMS, SEED
from tests.runtime.chaos.run import find_violation
from tests.runtime.chaos.world import Family, Tree

OUTER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def fetch(page: str) -> str:
    """Fetch a page."""
    with span("parse", size=3, page=page):
        return f"{page} {current_traceparent()}"


def fail(request):
    raise ModelRateLimitError("slow down, xylophone")


async def run(tracer, agent, text="Go.", **named):
    async with AgentRuntime(InMemoryStore(), instruments=[tracer], **named) as runtime:
        return await agent.run(text, runtime=runtime)


async def test_a_run_is_one_tree(kept):
    inner = Agent(ScriptedProvider([call("fetch", page="b")], "found"), name="Sub", tools=[fetch])
    calls = [call("fetch", page="a"), call("ask", prompt="Find b.")]
    outer = Agent(
        ScriptedProvider(calls, "done"),
        name="Ann",
        tools=[fetch, inner.as_tool("ask", description="Ask.")],
    )
    await run(Tracer(kept), outer)
    kept.check()
    fetched = ("execute_tool fetch", [("parse", [])])
    sub = [("chat script", []), fetched, ("chat script", [])]
    asked = ("execute_tool ask", [("invoke_agent Sub", sub)])
    assert kept.tree() == [
        ("invoke_agent Ann", [("chat script", []), fetched, asked, ("chat script", [])])
    ]


class Order(Instrument):
    """What a sink and a subscriber get, in order, but for states."""

    def __init__(self):
        self.seen = []

    def begin(self, span, agent):
        self.seen.append(f"{span.name} begins")

    def end(self, span, agent):
        self.seen.append(f"{span.name} ends {span.status}")

    def scope(self, span):
        return nullcontext()

    def on_chunk(self, agent, chunk):
        if not isinstance(chunk, StateChange):
            self.seen.append(type(chunk).__name__)


async def test_a_turn_with_one_call_takes_its_steps_in_order():
    order = Order()
    agent = Agent(ScriptedProvider([call("fetch", page="a")], "Done."), name="Ann", tools=[fetch])
    async with AgentRuntime(InMemoryStore(), instruments=[Tracer(order), order]) as runtime:
        await agent.run("Go.", runtime=runtime)
    assert order.seen == [
        *("TurnStart", "invoke_agent Ann begins"),
        *("chat script begins", "UsageReport", "chat script ends ok"),
        *("execute_tool fetch begins", "ToolStart", "parse begins", "parse ends ok", "ToolEnd"),
        *("execute_tool fetch ends ok", "chat script begins", "TextDelta", "TextComplete"),
        *("UsageReport", "chat script ends ok", "Done", "invoke_agent Ann ends ok", "Exited"),
    ]


async def test_a_turn_that_raises_has_its_span_and_its_end_as_well():
    async def crash(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                raise ZeroDivisionError

    order = Order()
    async with AgentRuntime(InMemoryStore(), instruments=[Tracer(order), order]) as runtime:
        handle = runtime.spawn(AgentSession.new("Ann"), crash)
        assert (await handle.ask("Go.")).status == "failed"
    turn = ["TurnStart", "invoke_agent Ann begins", "Done", "invoke_agent Ann ends error"]
    assert order.seen == [*turn, "Error", "Exited"]


async def test_the_current_span_is_that_of_the_tool_also_in_threads_side_by_side(kept):
    seen = {}

    async def slow(page: str) -> str:
        """Fetch slowly."""
        await trio.sleep(0.01)
        seen[page] = current_traceparent()
        return ""

    def plain(page: str) -> str:
        """Fetch in a thread."""
        seen[page] = current_traceparent()
        return ""

    calls = [call("slow" if at % 2 else "plain", page=str(at)) for at in range(10)]
    await run(
        Tracer(kept, content="full"), Agent(ScriptedProvider(calls, "."), tools=[slow, plain])
    )
    tools = [each for each in kept.spans if each.kind == "tool"]
    assert len(tools) == 10
    assert {
        each.attributes["gen_ai.tool.call.arguments"]["page"]: each.traceparent for each in tools
    } == seen


async def test_an_input_may_continue_a_trace(kept):
    async with AgentRuntime(InMemoryStore(), instruments=[Tracer(kept)]) as runtime:
        agent = Agent(ScriptedProvider("a", "b"))
        handle = runtime.spawn(AgentSession.new("agent"), agent)
        await handle.ask("Go.", metadata={"traceparent": OUTER})
        await handle.ask("Go.", metadata={"traceparent": "no"})
    first, second = (each for each in kept.spans if each.kind == "turn")
    assert first.traceparent[:35] == OUTER[:35]
    assert first.parent_id == OUTER[36:52]
    assert (second.parent_id, second.trace_id != first.trace_id) == ("", True)


async def test_an_agent_of_a_plan_and_of_a_pattern_works_within_the_turn(kept):
    first, second = (Agent(ScriptedProvider("x"), name=name) for name in ("Ann", "Bob"))
    await run(Tracer(kept), pipeline(first, second))
    kept.check()
    (turn,) = (each for each in kept.spans if not each.parent_id)
    assert [each.name for each in kept.spans if each.kind == "turn"][1:] == [
        "invoke_agent Ann",
        "invoke_agent Bob",
    ]
    assert {each.trace_id for each in kept.spans} == {turn.trace_id}


async def test_steps_of_a_plan_are_spans_and_hold_their_calls(kept):
    plan = Plan("Fetch.", [Subtask("a", "Fetch a.", tool="fetch", arguments={"page": "a"})])

    async def planner(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await execute_plan(agent, plan, None, tools=[fetch])

    async with AgentRuntime(InMemoryStore(), instruments=[Tracer(kept)]) as runtime:
        await runtime.spawn(AgentSession.new("planner"), planner).ask("Go.")
    kept.check()
    ((_, [(step, _)]),) = kept.tree()
    assert step == "plan_step 1"


class State(TypedDict):
    words: list[str]
    found: Annotated[list[str], operator.add]


def make_workflow(*, fails=False):
    async def split(state):
        return {"words": state["words"] * 2}

    async def count(state):
        if fails:
            raise ToolError("no numbers")
        return {}

    found = Agent(ScriptedProvider("x", "y"), name="looker")
    workflow = Workflow(State)
    workflow.node("split", split).node("look", found, output="found").node("count", count)
    workflow.each("look", over="words")
    return (
        workflow.edge(START, "split").edge("split", "look").edge("look", "count").edge("count", END)
    )


@pytest.mark.parametrize("fails", [False, True])
async def test_a_workflow_is_a_span_and_so_is_each_node_and_item(kept, fails):
    tracer = Tracer(kept)
    async with AgentRuntime(InMemoryStore(), instruments=[tracer]) as runtime:
        handle = runtime.spawn(AgentSession.new("research"), make_workflow(fails=fails))
        await handle.ask('{"words": ["a"], "found": []}')
    kept.check()
    asked = [("invoke_agent look", [("chat script", [])])]
    steps = [
        ("workflow_step split", []),
        ("workflow_step look[0]", asked),
        ("workflow_step look[1]", asked),
        ("workflow_step count", []),
    ]
    ((_, [(name, found)]),) = kept.tree()
    assert (name, sorted(found)) == ("invoke_workflow research", sorted(steps))
    ends = {each.name: str(each.status) for each in kept.spans}
    failed = "error" if fails else "ok"
    assert ends["workflow_step look[1]"] == "ok"
    assert ends["workflow_step count"] == ends["invoke_workflow research"] == failed
    (whole,) = (each for each in kept.spans if each.kind == "workflow")
    assert whole.attributes["gen_ai.operation.name"] == "invoke_workflow"
    assert whole.attributes["gen_ai.workflow.name"] == "research"


async def test_the_stages_of_a_recovery_are_events_of_the_open_span(kept):
    failures = iter([ToolError("away"), ToolError("later")])

    @tool(idempotent=True)
    def look(page: str) -> str:
        """Look."""
        for failure in failures:
            raise failure
        return page

    plan = Plan("Look.", [Subtask("a", "Look.", tool="look", arguments={"page": "a"})])
    policy = RecoveryPolicy(backoff=Backoff(first=0.0))

    async def planner(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await execute_plan(agent, plan, None, tools=[look], recovery=policy)

    tracer = Tracer(kept, content="redacted")
    async with AgentRuntime(InMemoryStore(), instruments=[tracer]) as runtime:
        await runtime.spawn(AgentSession.new("planner"), planner).ask("Go.")
    told = [
        {name: event.attributes[name] for name in ("component", "error", "attempt", "decision")}
        for each in kept.spans
        for event in each.events
        if event.name == "recovery" and event.attributes["severity"] == "low"
    ]
    stages = {"component": "tool", "error": "failed", "decision": "retry"}
    assert told == [{**stages, "attempt": 1}, {**stages, "attempt": 2}]
    assert [each.status for each in kept.spans if each.kind == "plan_step"][-1] == "ok"


async def test_failures_are_told_by_their_class(kept):
    agent = Agent(
        ScriptedProvider([call("fetch", page="a")], fail),
        name="Ann",
        tools=[fetch],
        permissions=PermissionManager(rules=[PermissionRule.deny_tool("fetch")]),
    )
    await run(Tracer(kept), agent)
    kept.check()
    tool = kept.find("execute_tool fetch")
    assert (tool.status, tool.error) == ("error", "PermissionError")
    failed = [each for each in kept.spans if each.kind == "model"][1]
    assert (failed.status, failed.error) == ("error", "ModelRateLimitError")
    turn = kept.find("invoke_agent Ann")
    assert (turn.status, turn.error) == ("error", "ModelRateLimitError")


async def test_without_content_no_word_leaves(kept):
    word = "xylophone"
    agent = Agent(
        ScriptedProvider([call("fetch", page=word)], Reply(word), fail),
        name="Ann",
        instructions=word,
        tools=[fetch],
    )
    async with AgentRuntime(InMemoryStore(), instruments=[Tracer(kept)]) as runtime:
        handle = runtime.spawn(AgentSession.new("agent"), agent)
        await handle.ask(word)
        await handle.ask(word)
    assert kept.spans
    assert word not in repr(kept.spans)


async def test_what_is_cut_off_leaves_no_half_of_a_secret(kept):
    key = "sk-ant-api03-Zm9vYmFyMTIz"
    text = "x" * 1_985 + f" {key} is wrong"

    async def tell(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.send(Custom("shop.note", {"note": text}))
                with suppress(ValueError), span("look"):
                    raise ValueError(text)

    tracer = Tracer(kept, content="redacted")
    async with AgentRuntime(InMemoryStore(), instruments=[tracer]) as runtime:
        await runtime.spawn(AgentSession.new("teller"), tell).ask("Go.")
    (failed,) = (each for each in kept.spans if each.kind == "span")
    (event,) = (event for each in kept.spans for event in each.events)
    for said in (failed.error, event.attributes["note"]):
        assert 1_900 < len(said) <= 2_000
        assert key[:6] not in said


async def test_no_word_of_the_users_own_spans_leaves_without_content(kept):
    async def work(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                with span("parse for sk-ant-api03-Zm9vYmFyMTIz", words=["xylophone"], size=2):
                    pass

    async with AgentRuntime(InMemoryStore(), instruments=[Tracer(kept)]) as runtime:
        await runtime.spawn(AgentSession.new("worker"), work).ask("Go.")
    (own,) = (each for each in kept.spans if each.kind == "span")
    assert (own.name, own.attributes) == ("parse for [secret]", {"size": 2})


async def trace_own(tracer, **attributes):
    """Trace a span with these attributes in a turn, and return that turn's status."""

    async def work(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                with span("own", **attributes):
                    pass

    async with AgentRuntime(InMemoryStore(), instruments=[tracer]) as runtime:
        return (await runtime.spawn(AgentSession.new("worker"), work).ask("Go.")).status


@dataclass
class Login:
    user: str
    password: str


class Account(BaseModel):
    user: str
    password: str


async def test_secrets_are_hidden_in_whatever_a_span_of_the_users_holds(kept):
    login, keys = Login("ann", "hunter2"), {"sk-ant-api03-Zm9vYmFyMTIz"}
    account = Account(user="ann", password="hunter2")
    given = {"login": login, "logins": [login], "keys": keys, "account": [account]}
    await trace_own(Tracer(kept, content="redacted"), **given)
    hidden = {"user": "ann", "password": "[secret]"}
    own = kept.find("own").attributes
    assert own == {
        "login": hidden,
        "logins": [hidden],
        "keys": ["[secret]"],
        "account": [hidden],
    }


async def test_a_span_of_the_users_may_hold_whatever_there_is(kept):
    class Odd:
        def __str__(self):
            raise ValueError("no")

    (circle := []).append(circle)
    given = {"path": Path("a.txt"), "by": {1: 2}, "odd": Odd(), "circle": circle}
    assert await trace_own(Tracer(kept, content="full"), **given) == "completed"
    assert kept.find("own").attributes == {
        "path": "a.txt",
        "by": {"1": 2},
        "odd": "(Odd)",
        "circle": "(list)",
    }


async def trace_block(kept, block):
    """Run a block in a turn, which must change nothing, and return the one span that it makes."""

    async def work(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await block()

    async with AgentRuntime(InMemoryStore(), instruments=[Tracer(kept, content="full")]) as runtime:
        done = await runtime.spawn(AgentSession.new("worker"), work).ask("Go.")
    assert (done.status, done.error) == ("completed", "")
    kept.check()
    return kept.find("own")


async def test_a_nursery_that_is_cancelled_is_interrupted_and_has_not_failed(kept):
    async def block():
        with trio.move_on_after(1), span("own"):
            async with trio.open_nursery() as nursery:
                for _ in range(2):
                    nursery.start_soon(trio.sleep_forever)

    found = await trace_block(kept, block)
    assert (found.status, found.error) == ("interrupted", "Cancelled")


async def test_a_generator_may_be_closed_by_another_task_than_began_it(kept):
    async def list_pages():
        with span("own"):
            yield "a"
            yield "b"

    async def block():
        pages = list_pages()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(anext, pages)
        await pages.aclose()

    found = await trace_block(kept, block)
    assert (found.status, found.error) == ("interrupted", "GeneratorExit")


async def test_an_error_whose_message_can_t_be_read_is_raised_on(kept):
    class OddError(Exception):
        def __str__(self):
            raise ValueError("no")

    async def block():
        with pytest.raises(OddError), span("own"):
            raise OddError

    found = await trace_block(kept, block)
    assert (found.status, found.error[:9]) == ("error", "OddError:")


@pytest.mark.parametrize("content", ["none", "redacted"])
async def test_ids_of_subtasks_are_words_of_the_model(kept, content):
    subtasks = [{"id": each, "goal": "Look."} for each in ("xylophone", "marmalade")]
    plan = json.dumps({"goal": "Go.", "subtasks": subtasks})
    tracer = Tracer(kept, metrics := Metrics(), content=content)
    await run(tracer, plan_and_execute(ScriptedProvider(plan, *["done"] * 3)))
    kept.check()
    steps = [each for each in kept.spans if each.kind == "plan_step"]
    ids = ["1", "2"] if content == "none" else ["xylophone", "marmalade"]
    assert [each.name for each in steps] == [f"plan_step {each}" for each in ids]
    for step in steps:
        (turn,) = (each for each in kept.spans if each.parent_id == step.span_id)
        assert turn.name == f"invoke_agent {turn.lineage[-1]}" == f"invoke_agent {step.name[10:]}"
    shown = metrics.text() + serde.encode(kept.spans).decode()
    assert ("xylophone" in shown, "marmalade" in shown) == (content != "none",) * 2


def list_kept(tracer):
    """What a tracer has in its dicts."""
    parts = [vars(each) for each in (tracer, tracer._content, tracer._output)]
    kept = [value for each in parts for value in each.values() if isinstance(value, dict)]
    assert len(kept) == 5
    return [each for each in kept if each]


async def test_a_tracer_keeps_nothing_of_an_agent_that_has_ended(kept):
    tracer = Tracer(kept, content="redacted")
    inner = Agent(ScriptedProvider("found"), name="Sub")
    outer = Agent(
        ScriptedProvider(call("ask", prompt="Find b."), "done"),
        tools=[inner.as_tool("ask", description="Ask.")],
    )
    await run(tracer, outer)
    assert len(kept.spans) == 6
    assert not list_kept(tracer)


async def test_content_has_the_form_of_the_conventions(kept):
    agent = Agent(
        ScriptedProvider([call("fetch", page="a")], "done"), tools=[fetch], instructions="Be."
    )
    await run(Tracer(kept, content="full"), agent, "Fetch a.")
    chats = [each.attributes for each in kept.spans if each.kind == "model"]
    assert chats[0]["gen_ai.system_instructions"] == [{"type": "text", "content": "Be."}]
    assert [each["role"] for each in chats[1]["gen_ai.input.messages"]] == [
        "user",
        "assistant",
        "tool",
    ]
    assert chats[1]["gen_ai.output.messages"] == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "done"}],
            "finish_reason": "stop",
        }
    ]
    json.dumps(chats)


def test_an_unknown_level_is_refused():
    with pytest.raises(ConfigurationError, match="content='all' is unknown"):
        Tracer(content="all")


@pytest.mark.parametrize(("value", "shows"), [("true", True), ("SPAN_ONLY", True), ("no", False)])
async def test_the_variable_of_the_conventions_is_the_default(kept, monkeypatch, value, shows):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", value)
    await run(Tracer(kept), Agent(ScriptedProvider("Hi.")))
    (chat,) = (each for each in kept.spans if each.kind == "model")
    assert ("gen_ai.input.messages" in chat.attributes) is shows


@pytest.mark.parametrize("kind", [Family, Tree])
@pytest.mark.filterwarnings("ignore:Async generator")
def test_whatever_happens_each_span_ends_within_its_tree(kind, kept):
    tracer = Tracer(kept)

    class Traced(kind):
        watchers = (tracer,)

    found = [find_violation(Traced, seed) for seed in range(SEED, SEED + PROGRAMS)]
    assert [each for each in found if each] == []
    kept.check()
    assert len(kept.begun) > PROGRAMS
    assert not list_kept(tracer)


async def test_the_stages_of_a_call_are_on_its_span(kept):
    @tool(timeout=5, version="2")
    async def work(how: Literal["well", "raises", "hangs"]) -> str:
        """Work."""
        if how == "raises":
            raise ValueError("broken")
        if how == "hangs":
            await trio.sleep_forever()
        return how

    metrics = Metrics()
    steps = [[call("work", how=each)] for each in ("well", "badly", "raises", "hangs")]
    await run(Tracer(kept, metrics), Agent(ScriptedProvider(*steps, "done"), tools=[work]))
    spans = [each for each in kept.spans if each.kind == "tool"]
    ends = [(each.status, each.attributes.get("error.type", "")) for each in spans]
    assert ends == [
        ("ok", ""),
        ("error", "InvalidInputError"),  # it never ran
        ("error", "ValueError"),  # nothing but the result learns of it
        ("error", "TimeoutError"),
    ]
    for stage in ("validation_ms", "execution_ms"):
        reached = [f"greenroom.tool.{stage}" in each.attributes for each in spans]
        assert reached == [True, False, True, True]
    assert spans[0].attributes["greenroom.tool.version"] == "2"
    assert metrics.health()["work"].failure_rate == 0.75


@pytest.mark.parametrize(
    ("sink", "says"),
    [
        ("trace.jsonl", r"'trace.jsonl' takes no spans \(write Tracer\(TraceFile"),
        ([Metrics()], r"takes no spans .*Tracer\(sink, another_sink\)"),
        (Metrics, r"Metrics is a class, not a sink \(write Tracer\(Metrics"),
    ],
)
def test_what_takes_no_spans_is_refused_as_a_sink(sink, says):
    with pytest.raises(ConfigurationError, match=says):
        Tracer(sink)


async def test_a_sink_that_raises_is_logged_once_and_keeps_others_from_nothing(kept, caplog):
    class Broken(type(kept)):
        def begin(self, span, agent):
            raise ValueError("broken")

        def end(self, span, agent):
            raise ValueError("broken")

    await run(Tracer(Broken(), kept), Agent(ScriptedProvider("Hi."), name="Ann"))
    kept.check()
    assert kept.tree() == [("invoke_agent Ann", [("chat script", [])])]
    assert caplog.text.count("the sink Broken raised") == 1


@pytest.mark.parametrize("where", ["scope", "enter", "exit"])
async def test_a_scope_that_raises_keeps_others_from_nothing(kept, caplog, where):
    class Broken(type(kept)):
        def scope(self, span):
            if where == "scope":
                raise ValueError("broken")
            return self.enter()

        @contextmanager
        def enter(self):
            if where == "enter":
                raise ValueError("broken")
            yield
            raise ValueError("broken")

    fetch_one = Agent(ScriptedProvider([call("fetch", page="a")], "Hi."), name="Ann", tools=[fetch])
    await run(Tracer(Broken(), kept), fetch_one)
    kept.check()
    below = [
        ("chat script", []),
        ("execute_tool fetch", [("parse", [])]),
        ("chat script", []),
    ]
    assert kept.tree() == [("invoke_agent Ann", below)]
    assert caplog.text.count("the sink Broken raised") == 1
    assert "the hook" not in caplog.text
