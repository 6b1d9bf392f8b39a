"""Plain functions in threads: what they may tell the event loop, and how they are left behind."""

import threading

import pytest
import trio

from greenroom import AgentRuntime, AgentSession, run_tools
from greenroom.core import AgentContext, ToolProgress, ToolStatus, ToolUseBlock
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.session import InMemoryStore
from greenroom.tools import ToolRegistry, tool
from greenroom.tools.blocking import (
    _ThreadCall,
    run_blocking,
)


@pytest.fixture
def context():
    return AgentContext(session_id="s-1", agent_type="test", current_tool_use_id="t")


async def run(made, arguments, context):
    with trio.fail_after(60):
        return await ToolRegistry([made]).execute(made.name, arguments, context)


@tool
def work(context: AgentContext) -> str:
    """Report from this thread, and from another one."""
    context.progress("half")
    helper = threading.Thread(target=context.progress, args=("whole",))
    helper.start()
    helper.join()
    return "done"


async def calling(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            permissions = PermissionManager([PermissionRule.allow_all()])
            await run_tools(agent, [ToolUseBlock("t1", "work")], ToolRegistry([work]), permissions)


async def test_what_threads_report_reaches_a_subscriber():
    heard = []
    with trio.fail_after(60):
        async with AgentRuntime() as runtime:
            handle = runtime.spawn(AgentSession.new("caller", store=InMemoryStore()), calling)
            async with handle.subscribe() as chunks:
                await handle.send_input("go")
                async for chunk in chunks:
                    if isinstance(chunk, ToolProgress):
                        heard.append(chunk.output)
                    if len(heard) == 2:
                        break
    assert heard == ["half", "whole"]


async def test_a_thread_can_not_open_a_clean_up_scope(context):
    @tool
    def tidy(context: AgentContext) -> str:
        with context.cleanup(1.0):
            return "tidied"

    result = await run(tidy, {}, context)
    assert result.is_error
    assert result.text.startswith("context.cleanup was called in a thread")


@pytest.mark.parametrize("report", ["progress", "report_abandoned"])
async def test_what_is_reported_after_the_call_was_left_behind_is_dropped(context, report):
    heard, begun, release, ended = [], trio.Event(), threading.Event(), trio.Event()
    context.on_progress = lambda _, text: heard.append(text)

    def block(context):
        trio.from_thread.run_sync(begun.set)
        release.wait(20)
        getattr(context, report)("too late")
        trio.from_thread.run_sync(ended.set)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_blocking, block, "block", context)
            await begun.wait()
            context.on_abandon = heard.append
            nursery.cancel_scope.cancel()
        release.set()
        await ended.wait()
    assert heard == ["thread of block"]


async def test_a_report_on_its_way_when_the_call_is_left_behind_is_dropped(context):
    heard = []
    work = _ThreadCall(lambda context: context, context)
    work.give_up()
    work._receive(heard.append, "too late")
    assert heard == []


def test_a_thread_that_outlives_the_event_loop_reports_to_nobody(context):
    heard, kept = [], []
    context.on_progress = lambda _, text: heard.append(text)
    trio.run(run_blocking, kept.append, "keep", context)
    kept[0].progress("nobody is there")
    assert heard == []


async def test_a_thread_that_is_left_behind_is_reported(context):
    abandoned, begun, release = [], trio.Event(), threading.Event()
    context.on_abandon = abandoned.append

    @tool
    def block() -> str:
        trio.from_thread.run_sync(begun.set)
        release.wait(20)
        return "late"

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, block, {}, context)
            await begun.wait()
            nursery.cancel_scope.cancel()
    release.set()
    assert abandoned == ["thread of block"]


async def test_a_thread_that_outlasts_its_time_is_left_behind(context):
    abandoned, release = [], threading.Event()
    context.on_abandon = abandoned.append

    @tool(timeout=0.05)
    def block() -> str:
        release.wait(20)
        return "late"

    result = await run(block, {}, context)
    release.set()
    assert result.status is ToolStatus.TIMEOUT
    assert abandoned == ["thread of block"]


async def test_a_function_that_has_not_begun_is_not_reported_and_never_runs(context):
    abandoned, ran = [], []
    context.on_abandon = abandoned.append
    with trio.CancelScope() as scope:
        scope.cancel()
        await run_blocking(lambda _: ran.append(1), "block", context)
    assert scope.cancelled_caught
    assert (abandoned, ran) == ([], [])


async def test_work_that_was_given_up_does_not_begin(context):
    ran = []
    work = _ThreadCall(lambda _: ran.append(1), context)
    assert work.give_up() is False
    with pytest.raises(RuntimeError, match="given up"):
        work.run()
    assert ran == []
