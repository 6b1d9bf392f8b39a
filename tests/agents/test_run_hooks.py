"""The hooks around a tool that runs, in its own task, and the one for what an agent publishes."""

from contextvars import ContextVar

import pytest
import trio

from greenroom import Agent, AgentRuntime, AgentSession, InMemoryStore, tool
from greenroom.core import SubAgentOutput, SubAgentSpawned, ToolResult, ToolStart, ToolUseBlock
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import ToolRegistry

current = ContextVar("current", default="")


class Spans:
    def __init__(self):
        self.log, self.chunks = [], []

    def before_tool_run(self, agent, call):
        current.set(call.id)
        self.log.append(("begin", call.id, call.name))

    def after_tool_run(self, agent, call, result):
        self.log.append(("end", call.id, None if result is None else result.text))
        assert current.get() == call.id

    def on_chunk(self, agent, chunk):
        self.chunks.append((agent.session_id, chunk))


async def run(agent, spans, **options):
    async with AgentRuntime(InMemoryStore(), instruments=[spans]) as runtime:
        handle = runtime.spawn(AgentSession.new("a"), agent, unattended="deny")
        with trio.fail_after(60):
            result = await handle.ask("Go.")
        await handle.shutdown()
        assert runtime.instruments.statistics().failures == {}
        return result, [chunk async for chunk in handle.subscribe("all")] if options else []


async def test_a_variable_is_that_of_its_call_side_by_side_and_in_threads():
    seen, both = {}, trio.Event()
    arrived = []

    async def one(label: str) -> str:
        """Wait for the other two."""
        arrived.append(label)
        if len(arrived) == 3:
            both.set()
        await both.wait()
        seen[label] = current.get()
        return label

    def in_a_thread(label: str) -> str:
        """Wait for the others, in a thread."""
        trio.from_thread.run(one, label)
        seen[label + " thread"] = current.get()
        return label

    calls = [
        ToolUseBlock("1", "one", {"label": "a"}),
        ToolUseBlock("2", "one", {"label": "b"}),
        ToolUseBlock("3", "in_a_thread", {"label": "c"}),
    ]
    spans = Spans()
    result, _ = await run(Agent(ScriptedProvider(calls, "done"), tools=[one, in_a_thread]), spans)
    assert result.text == "done"
    assert (seen["a"], seen["b"], seen["c thread"]) == ("1", "2", "3")
    assert current.get() == ""
    assert sorted(spans.log)[:3] == [
        ("begin", "1", "one"),
        ("begin", "2", "one"),
        ("begin", "3", "in_a_thread"),
    ]
    assert [what for what, *_ in spans.log] == ["begin"] * 3 + ["end"] * 3


async def test_only_what_runs_is_told():
    def fails(number: int) -> str:
        """Fail."""
        raise ValueError("no")

    def denied(number: int) -> str:
        """Never run."""

    @tool(runs_on="client")
    def outside(number: int) -> str:
        """Run at the client."""

    calls = [
        ToolUseBlock("1", "fails", {"number": 1}),
        ToolUseBlock("2", "fails", {"number": "many"}),
        ToolUseBlock("3", "denied", {"number": 1}),
        ToolUseBlock("4", "unknown", {}),
        ToolUseBlock("5", "fails", {}, invalid="no JSON"),
    ]
    rules = PermissionManager([PermissionRule.deny_tool("denied"), PermissionRule.allow_all()])
    spans = Spans()
    agent = Agent(
        ScriptedProvider(calls, "done"), tools=[fails, denied, outside], permissions=rules
    )
    await run(agent, spans)
    assert spans.log == [("begin", "1", "fails"), ("end", "1", "ValueError: no")]


async def test_a_client_s_call_is_not_a_run():
    @tool(runs_on="client")
    def outside(number: int) -> str:
        """Run at the client."""

    spans = Spans()
    agent = Agent(
        ScriptedProvider(ToolUseBlock("1", "outside", {"number": 1}), "done"), tools=[outside]
    )
    async with AgentRuntime(InMemoryStore(), instruments=[spans]) as runtime:
        handle = runtime.spawn(AgentSession.new("a"), agent)
        with trio.fail_after(60):
            async for chunk in handle.stream(await handle.send_input("Go.")):
                if isinstance(chunk, ToolStart):
                    await handle.send_tool_result("1", ToolResult.ok("told"))
        assert (await handle.history())[2].tool_results[0].text == "told"
    assert spans.log == []


async def test_a_run_that_is_cancelled_ends_without_a_result(autojump_clock):
    async def wait() -> str:
        """Wait."""
        await trio.sleep_forever()

    spans = Spans()
    agent = Agent(ScriptedProvider(ToolUseBlock("1", "wait", {}), "done"), tools=[wait])
    async with AgentRuntime(InMemoryStore(), instruments=[spans]) as runtime:
        handle = runtime.spawn(AgentSession.new("a"), agent)
        await handle.send_input("Go.")
        await trio.sleep(1)
        await handle.interrupt()
    assert spans.log == [("begin", "1", "wait"), ("end", "1", None)]


async def test_a_hook_can_t_change_what_runs():
    class Greedy:
        def before_tool_run(self, agent, call):
            call.input.clear()
            raise ValueError("a broken hook")

    async def look(label: str) -> str:
        """Look."""
        return f"seen {label}"

    async with AgentRuntime(InMemoryStore(), instruments=[Greedy()]) as runtime:
        agent = Agent(ScriptedProvider(call("look", label="a"), "done"), tools=[look])
        handle = runtime.spawn(AgentSession.new("a"), agent)
        await handle.ask("Go.")
        history = await handle.history()
    assert history[2].tool_results[0].text == "seen a"


async def test_a_loop_of_its_own_is_told_alike():
    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    tools = ToolRegistry([look])

    async def loop(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                with agent.tool_call(call("look")) as scope:
                    async with scope.running():
                        context = agent.context.with_tool_use_id("7")
                        scope.end(await tools.execute("look", {}, context))

    spans = Spans()
    await run(loop, spans)
    assert spans.log == [("begin", "7", "look"), ("end", "7", "seen")]


def unwrap(chunk):
    return unwrap(chunk.chunk) if isinstance(chunk, SubAgentOutput) else chunk


@pytest.mark.parametrize("below", [0, 1, 2])
async def test_each_chunk_is_told_once_where_it_is_published(below):
    agent = Agent(ScriptedProvider("done"), name="worker", description="works")
    for depth in range(below):
        agent = Agent(
            ScriptedProvider(call("worker", prompt="go"), "done"),
            tools=[agent.as_tool(name="worker")],
            name=f"worker{depth}",
            description="passes it on",
        )
    spans = Spans()
    _, published = await run(agent, spans, read=True)
    told = [chunk for _, chunk in spans.chunks]
    assert not any(isinstance(chunk, SubAgentOutput) for chunk in told)
    assert len({session for session, _ in spans.chunks}) == below + 1
    assert sum(isinstance(chunk, SubAgentSpawned) for chunk in told) == below
    assert told == [unwrap(chunk) for chunk in published]
