"""Spans: one tree for each run, whoever runs what, and nothing in them that may not leave."""

import json

import pytest
import trio

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    ConfigurationError,
    InMemoryStore,
    PermissionManager,
    PermissionRule,
)
from greenroom.flow import Plan, Subtask, execute_plan, pipeline
from greenroom.llm import ModelRateLimitError
from greenroom.observability import Tracer, current_traceparent, span
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
    assert step == "plan_step a"


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
    class Traced(kind):
        watchers = (Tracer(kept),)

    found = [find_violation(Traced, seed) for seed in range(SEED, SEED + PROGRAMS)]
    assert [each for each in found if each] == []
    kept.check()
    assert len(kept.begun) > PROGRAMS


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
