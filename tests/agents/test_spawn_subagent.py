"""`spawn_subagent`: callers in an agent's tree or tools get a subagent of that agent."""

import threading

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.agents import run_tools, stream_reply
from greenroom.core import (
    SessionError,
    SubAgentResult,
    SubAgentSpawned,
    ToolUseBlock,
    TurnError,
    TurnStatus,
)
from greenroom.core._internal import EventLoopError
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.resilience import Budget
from greenroom.runtime import AgentHandle, AgentRuntime, spawn_subagent
from greenroom.runtime._internal import ParentInfo
from greenroom.session import AgentSession, InMemoryStore
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import ToolRegistry, tool

SECONDS = 60
"""A safety net: what is waited for comes at once."""


def new(**options):
    return AgentSession.new("helper", **options)


async def echo(agent):
    async for message in agent.inputs():
        async with agent.turn(message) as turn:
            turn.set_result(message.text)


async def forever(agent):
    await trio.sleep_forever()


async def caller(agent, llm, *tools):
    """The usual loop, all of whose tools may run."""
    permissions = PermissionManager([PermissionRule.allow_all()])
    registry = ToolRegistry(tools)
    async for message in agent.inputs():
        async with agent.turn(message):
            while (reply := await stream_reply(agent, llm, registry)).tool_uses:
                await run_tools(agent, reply.tool_uses, registry, permissions)


class Stage:
    """An application with a nursery of its own, and one agent that calls one tool, `delegate`."""

    def __init__(self, nursery):
        self.nursery = nursery
        self.found = "nothing yet"
        self.done = trio.Event()

    def spawn(self, agent_fn=echo):
        self.found = spawn_subagent(new(), agent_fn)
        return self.found

    async def spawn_later(self, *, task_status=trio.TASK_STATUS_IGNORED):
        task_status.started()
        await trio.lowlevel.checkpoint()
        self.spawn()
        self.done.set()

    async def spawn_in_thread_later(self, *, task_status=trio.TASK_STATUS_IGNORED):
        task_status.started()
        for abandon in (False, True):
            await trio.to_thread.run_sync(
                trio.from_thread.run_sync, self.spawn, abandon_on_cancel=abandon
            )
            assert self.found is None
        self.done.set()


def async_tool(stage):
    @tool
    async def delegate() -> str:
        """Spawn."""
        stage.spawn()
        return "done"

    return delegate


def task_of_an_async_tool(stage):
    @tool
    async def delegate() -> str:
        """Spawn in a task of one's own."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.spawn_later)
        return "done"

    return delegate


def plain_tool(stage):
    @tool
    def delegate() -> str:
        """Spawn, as a function that does not wait."""
        trio.from_thread.run_sync(stage.spawn)
        return "done"

    return delegate


def plain_tool_that_awaits(stage):
    @tool
    def delegate() -> str:
        """Spawn in an async function."""
        trio.from_thread.run(stage.spawn_later)
        return "done"

    return delegate


def thread_of_a_plain_tool(stage):
    @tool
    def delegate() -> str:
        """Spawn in a task that is started by an async function that the thread calls."""

        async def spawn_in_a_task():
            async with trio.open_nursery() as nursery:
                await nursery.start(stage.spawn_later)

        trio.from_thread.run(spawn_in_a_task)
        return "done"

    return delegate


def thread_of_an_async_tool(stage):
    @tool
    async def delegate() -> str:
        """Spawn in a thread that the tool waits for."""
        await trio.to_thread.run_sync(trio.from_thread.run_sync, stage.spawn)
        return "done"

    return delegate


def application_task(stage):
    @tool
    async def delegate() -> str:
        """Leave it to a task that is the application's."""
        stage.nursery.start_soon(stage.spawn_later)
        await stage.done.wait()
        return "done"

    return delegate


def started_application_task(stage):
    @tool
    async def delegate() -> str:
        """Leave it to a task that is the application's once it has started."""
        await stage.nursery.start(stage.spawn_later)
        await stage.done.wait()
        return "done"

    return delegate


def thread_of_an_application_task(stage):
    @tool
    async def delegate() -> str:
        """Leave it to a thread of a task that is the application's."""
        stage.nursery.start_soon(stage.spawn_in_thread_later)
        await stage.done.wait()
        return "done"

    return delegate


def application_task_of_a_plain_tool(stage):
    @tool
    def delegate() -> str:
        """Leave it to a task that is the application's, from a thread."""
        trio.from_thread.run_sync(stage.nursery.start_soon, stage.spawn_later)
        trio.from_thread.run(stage.done.wait)
        return "done"

    return delegate


INSIDE = [
    async_tool,
    task_of_an_async_tool,
    plain_tool,
    plain_tool_that_awaits,
    thread_of_a_plain_tool,
    thread_of_an_async_tool,
]
OUTSIDE = [
    application_task,
    started_application_task,
    thread_of_an_application_task,
    application_task_of_a_plain_tool,
]


async def call_once(place, *, level=0):
    """Run a turn in which the agent or its subagent calls the tool; return what is visible."""
    async with AgentRuntime(InMemoryStore()) as runtime, trio.open_nursery() as nursery:
        stage = Stage(nursery)
        llm = ScriptedProvider(ToolUseBlock("the-call", "delegate"), "done")
        session = AgentSession.new("lead")
        args = (caller, llm, place(stage))
        with trio.fail_after(SECONDS):
            if level:
                args = (above, session, *args)
                root = runtime.spawn(AgentSession.new("above"), *args)
            else:
                root = runtime.spawn(session, *args, name="lead")
            assert (await root.ask("go")).status is TurnStatus.COMPLETED
            chunks = root.subscribe("all")
            found = stage.found
            lineage = found._actor.context.lineage if found else ()
            await runtime.shutdown_all()
        told = [chunk async for chunk in chunks if isinstance(chunk, SubAgentSpawned)]
        return found, session.session_id, lineage, told


async def above(agent, session, *args):
    async for message in agent.inputs():
        async with agent.turn(message):
            child = agent.spawn(session, *args, name="lead", report=False)
            await child.ask(message.text)


@pytest.mark.parametrize("place", INSIDE)
async def test_in_a_tool_it_is_a_subagent_of_the_agent_that_calls(place):
    found, caller_id, lineage, told = await call_once(place)
    assert type(found) is AgentHandle
    assert found.parent == ParentInfo(caller_id, "the-call")
    assert lineage == ("lead", "helper")
    assert [chunk.tool_use_id for chunk in told] == ["the-call"]


@pytest.mark.parametrize("place", [async_tool, plain_tool])
async def test_in_a_tool_of_a_subagent_it_is_below_that(place):
    found, caller_id, lineage, _ = await call_once(place, level=1)
    assert found.parent == ParentInfo(caller_id, "the-call")
    assert lineage == ("above", "lead", "helper")


@pytest.mark.parametrize("place", OUTSIDE)
async def test_in_the_application_s_nursery_there_is_no_agent(place):
    found, _, _, told = await call_once(place)
    assert found is None
    assert told == []


async def test_outside_there_is_no_agent():
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(new(), echo)
        await handle.ask("go")
        assert spawn_subagent(new(), echo) is None
        assert (
            await trio.to_thread.run_sync(trio.from_thread.run_sync, spawn_subagent, new(), echo)
            is None
        )
        assert runtime.list_active() == (handle.session_id,)


def test_without_any_event_loop_there_is_no_agent():
    assert spawn_subagent(new(), echo) is None


async def test_the_agent_itself_may_call_it_in_a_turn_and_between_two(autojump_clock):
    seen = []

    async def agent_fn(agent):
        seen.append(spawn_subagent(new(), forever))
        async for message in agent.inputs():
            async with agent.turn(message):
                seen.append(spawn_subagent(new(), forever))
                await trio.sleep_forever()

    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(new(), agent_fn)
        await handle.send_input("go")
        await wait_all_tasks_blocked()
        await handle.interrupt()
        before, in_turn = seen
        assert before.parent == in_turn.parent == ParentInfo(handle.session_id)
        assert runtime.is_running(before.session_id)
        assert not runtime.is_running(in_turn.session_id)


@pytest.mark.parametrize("place", [async_tool, plain_tool])
async def test_it_counts_for_the_budgets_of_the_agent_that_calls(place):
    async def steps(agent):
        await agent.step()

    async with AgentRuntime(InMemoryStore()) as runtime, trio.open_nursery() as nursery:
        stage, budget = Stage(nursery), Budget(model_calls=10)
        stage.spawn = lambda: spawn_subagent(new(), steps, report=False)
        llm = ScriptedProvider(call("delegate"), "done")
        handle = runtime.spawn(new(), caller, llm, place(stage), budget=budget)
        with trio.fail_after(SECONDS):
            await handle.ask("go")
            await wait_all_tasks_blocked()
        assert budget.used["model_calls"] == 3


async def test_an_interrupt_ends_it_with_the_turn_that_called():
    @tool
    async def wait_in_the_loop() -> str:
        """Wait for a subagent."""
        return (await spawn_subagent(new(), forever).ask("go")).text

    @tool
    def wait_in_a_thread() -> str:
        """Wait for a subagent."""
        child = trio.from_thread.run_sync(spawn_subagent, new(), forever)
        try:
            return trio.from_thread.run(child.ask, "go").text
        finally:
            ended.set()

    for one in (wait_in_the_loop, wait_in_a_thread):
        ended = threading.Event()
        async with AgentRuntime(InMemoryStore()) as runtime:
            handle = runtime.spawn(new(), caller, ScriptedProvider(call(one.name)), one)
            await handle.send_input("go")
            with trio.fail_after(SECONDS):
                async with handle.subscribe() as chunks:
                    async for chunk in chunks:
                        if isinstance(chunk, SubAgentSpawned):
                            break
                report = await handle.interrupt(grace=SECONDS)
            assert any("subagent helper" in what for what in report.stopped)
            assert runtime.list_active() == (handle.session_id,)
    assert await trio.to_thread.run_sync(ended.wait, SECONDS)


async def test_a_thread_whose_call_was_given_up_spawns_no_more():
    """An interrupt can't stop the thread; but nothing new comes of it afterwards."""
    begun, go_on, refusals = trio.Event(), threading.Event(), []
    refused = trio.Event()

    @tool
    def stubborn() -> str:
        """Try to spawn when the call is over."""
        trio.from_thread.run_sync(begun.set)
        go_on.wait(SECONDS)
        for spawn in (
            lambda: trio.from_thread.run_sync(spawn_subagent, new(), forever),
            lambda: trio.from_thread.run(spawn_in_a_task),
        ):
            try:
                spawn()
            except TurnError as error:
                refusals.append(str(error))
        with pytest.raises(EventLoopError):
            spawn_subagent(new(), forever)
        trio.from_thread.run_sync(refused.set)
        return "late"

    async def spawn_in_a_task():
        await trio.lowlevel.checkpoint()
        spawn_subagent(new(), forever)

    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(new(), caller, ScriptedProvider(call("stubborn"), "hello"), stubborn)
        await handle.send_input("go")
        with trio.fail_after(SECONDS):
            await begun.wait()
            report = await handle.interrupt()
            assert report.abandoned == ("thread of stubborn",)
            # What is begun now is not to get the subagents of the turn that is over.
            assert (await handle.ask("again")).text == "hello"
            go_on.set()
            await refused.wait()
        assert [("is over" in each) for each in refusals] == [True, True]
        assert await handle.children() == ()


async def test_a_thread_has_to_go_through_the_event_loop():
    errors = []

    @tool
    def direct() -> str:
        """Spawn without `from_thread`."""
        try:
            spawn_subagent(new(), forever)
        except EventLoopError as error:
            errors.append(error)
        return "done"

    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(new(), caller, ScriptedProvider(call("direct"), "done"), direct)
        await handle.ask("go")
        assert "from_thread" in errors[0].hint
        assert await handle.children() == ()


@pytest.mark.parametrize("report", [True, False])
async def test_scope_and_report_are_those_of_spawn(report):
    seen = []

    async def agent_fn(agent):
        async for message in agent.inputs():
            seen.append(message)
            if isinstance(message, SubAgentResult):
                continue
            async with agent.turn(message):
                spawn_subagent(new(), echo_once, message.text, scope="agent", report=report)
                agent_is_in_turn.set()
                await trio.sleep_forever()

    async def echo_once(agent, text):
        await interrupted.wait()
        async with agent.turn(seen[0]) as turn:
            turn.set_result(text)

    agent_is_in_turn, interrupted = trio.Event(), trio.Event()
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(new(), agent_fn)
        await handle.send_input("go")
        await agent_is_in_turn.wait()
        await handle.interrupt()
        interrupted.set()
        await wait_all_tasks_blocked()
        assert [message.value for message in seen[1:]] == ["go"] * report


async def test_a_session_of_another_tree_is_refused():
    async def agent_fn(agent):
        with pytest.raises(SessionError, match="its place already"):
            spawn_subagent(AgentSession.new_subagent("helper", "somebody-else", None), echo)
        with pytest.raises(SessionError, match="its place already"):
            agent.spawn(AgentSession.new_subagent("helper", "somebody-else", None), echo)

    async with AgentRuntime(InMemoryStore()) as runtime:
        await runtime.spawn(new(), agent_fn).wait(check=True)
