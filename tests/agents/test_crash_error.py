"""`AgentCrashError`: a tool ends its agent, so supervision can act."""

import pytest
import trio

from greenroom import Agent, AgentCrashError, AgentRuntime, AgentSession, InMemoryStore
from greenroom.core import Error, Restarted, TurnStatus
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.resilience import Backoff, Retry
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import ToolRegistry, tool
from tests.agents.loops import simple_loop
from tests.session.accepted import check_accepted


def crash_here() -> str:
    """Crash the agent from a process of its own."""
    raise AgentCrashError("the bus is gone")


class Bus:
    """Two tools: one whose bus is gone, and one that waits beside it."""

    def __init__(self, kind):
        self.ran = 0

        @tool
        async def read_sensor() -> str:
            """Read the sensor."""
            self.ran += 1
            if kind == "group":
                raise ExceptionGroup("two", [AgentCrashError("the bus is gone"), ValueError("x")])
            if kind == "thread":
                await trio.to_thread.run_sync(crash_here)
            raise AgentCrashError("the bus is gone")

        @tool
        async def wait() -> str:
            """Wait for ever."""
            await trio.sleep_forever()
            return ""

        isolated = tool(name="read_sensor", isolation="process")(crash_here)
        self.tools = ToolRegistry([isolated if kind == "process" else read_sensor, wait])
        self.rules = PermissionManager([PermissionRule.allow_all()])

    def arguments(self, *script):
        return simple_loop, ScriptedProvider(*script), self.tools, self.rules


@pytest.mark.parametrize("kind", ["plain", "group", "thread", "process"])
async def test_it_ends_the_agent_with_this_crash(kind):
    bus = Bus(kind)
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        script = [call("wait"), call("read_sensor")]
        handle = runtime.spawn(AgentSession.new("worker"), *bus.arguments(script))
        async with handle.subscribe("all") as chunks:
            await handle.send_input("go")
            outcome = await handle.wait()
            errors = [chunk async for chunk in chunks if isinstance(chunk, Error)]
        history = await handle.history()
    assert outcome.status == "crashed"
    assert "the bus is gone" in str(outcome.error)
    assert [(each.kind, each.message) for each in errors] == [
        ("AgentCrashError", "the bus is gone")
    ]
    check_accepted(history)
    texts = [block.text for message in history for block in message.tool_results]
    assert all("had started" in text for text in texts)
    assert len(texts) == 2


async def test_a_supervisor_starts_the_agent_again_and_the_call_is_not_repeated(autojump_clock):
    bus = Bus("plain")
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        supervisor = runtime.supervisor(backoff=Backoff(first=0.01))
        arguments = bus.arguments(call("read_sensor"), "I am back.")
        handle = supervisor.spawn(AgentSession.new("worker"), *arguments, restart="transient")
        async with handle.subscribe("all") as chunks:
            first = await handle.ask("go")
            second = await handle.ask("are you there?")
            await handle.shutdown()
            again = [chunk async for chunk in chunks if isinstance(chunk, Restarted)]
    assert (first.status, second.text, bus.ran) == (TurnStatus.FAILED, "I am back.", 1)
    assert [each.error for each in again] == ["AgentCrashError: the bus is gone"]


async def test_a_run_raises_it_and_no_policy_tries_it_again():
    from greenroom.agents import resilient_tool

    ran = []

    async def read_sensor() -> str:
        """Read the sensor."""
        ran.append(1)
        raise AgentCrashError("the bus is gone")

    tools = [resilient_tool(read_sensor, retry=Retry(attempts=3))]
    agent = Agent(ScriptedProvider(call("read_sensor")), tools=tools)
    with pytest.raises(AgentCrashError, match="the bus is gone"):
        await agent.run("go")
    assert ran == [1]
