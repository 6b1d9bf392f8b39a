"""Interrupts while a blocking tool runs in its own process: control, clean-up, no side effect."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trio

from greenroom.agents import coder
from greenroom.core import AgentContext, Message, ToolProgress, ToolResultBlock, ToolUseBlock
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, FileStore, InMemoryStore
from greenroom.testing import Reply, ScriptedProvider, call
from greenroom.tools import ToolRegistry, WorkerPool, tool
from tests.tools.killable import block, who, write_later
from tests.tools.test_worker_pool import descendants, is_alive

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")

ALLOWED = PermissionManager([PermissionRule.allow_all()])


def start(runtime, script, *tools, kind="coder"):
    handle = runtime.spawn(
        AgentSession.new(kind), coder, ScriptedProvider(*script), ToolRegistry(tools), ALLOWED
    )
    return handle, handle.subscribe("all")


async def progress_of(reader, count):
    """Wait until so many tools have told something; what they told, by their calls."""
    told = {}
    async for chunk in reader:
        if isinstance(chunk, ToolProgress):
            told[chunk.id] = chunk.output
        if len(told) == count:
            return told
    raise AssertionError("the agent has ended")


def tasks():
    """The names of all tasks of this trio.run, but for the one that asks."""
    waiting, found = [trio.lowlevel.current_root_task()], []
    while waiting:
        task = waiting.pop()
        found.append(task.name)
        waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return sorted(found)


def check_pairs(history):
    """A strict model API accepts this history: every call is answered in the next message."""
    for message, following in zip(history, [*history[1:], Message.user("")], strict=True):
        asked = [block.id for block in message.content if isinstance(block, ToolUseBlock)]
        answered = [b.tool_use_id for b in following.content if isinstance(b, ToolResultBlock)]
        assert asked == answered


async def test_an_interrupt_of_two_tools_leaves_no_task_no_process_and_no_side_effect(tmp_path):
    cleaned = []

    @tool(concurrent=True)
    async def listen(context: AgentContext) -> str:
        context.progress("listening")
        try:
            await trio.sleep_forever()
        finally:
            with context.cleanup(2.0):
                await trio.sleep(0.2)
                cleaned.append("listen")
        return "heard"

    effect = tmp_path / "effect"
    calls = [call("listen"), call("write_later", path=str(effect), seconds=600)]
    async with AgentRuntime(store=FileStore(tmp_path / "sessions")) as runtime:
        with trio.fail_after(60):
            handle, reader = start(runtime, [Reply(calls), "back"], listen, write_later)
            tasks_before, processes_before = tasks(), descendants()
            await handle.send_input("go")
            told = await progress_of(reader, 2)
            pid = int(told[calls[1].id].removeprefix("process "))
            assert is_alive(pid)
            assert len(tasks()) > len(tasks_before)

            report = await handle.interrupt()

            # It had not called the agent's function yet when the tasks were counted.
            assert tasks() == sorted([*tasks_before, "agent coder"])
            assert descendants() == processes_before
            assert not is_alive(pid)  # so nobody is there to write it later
            assert not effect.exists()
            assert cleaned == ["listen"]
            assert report.abandoned == ()
            assert set(report.repaired) == {each.id for each in calls}
            check_pairs(await handle.history())
            assert (await handle.ask("and now?")).text == "back"


async def test_a_thread_is_abandoned_where_a_process_is_not(tmp_path):
    release = threading.Event()

    @tool(concurrent=True, isolation="thread")
    def wait_for(context: AgentContext) -> str:
        context.progress("waiting")
        release.wait(600)
        return "late"

    calls = [call("wait_for"), call("write_later", path=str(tmp_path / "effect"), seconds=600)]
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        with trio.fail_after(60):
            handle, reader = start(runtime, [Reply(calls)], wait_for, write_later)
            await handle.send_input("go")
            await progress_of(reader, 2)
            report = await handle.interrupt()
    release.set()
    assert report.abandoned == ("thread of wait_for",)


async def test_a_kill_and_the_end_of_the_runtime_leave_no_process(tmp_path):
    before = descendants()
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        with trio.fail_after(60):
            effect = str(tmp_path / "effect")
            writing = call("write_later", path=effect, seconds=600)
            handle, reader = start(runtime, [writing], write_later)
            await handle.send_input("go")
            await progress_of(reader, 1)
            handle.kill()
            await handle.wait()
            assert descendants() == before
            other, _ = start(runtime, [call("who"), "done"], who)
            assert (await other.ask("who?")).text == "done"
            assert len(descendants() - before) == 3  # the launcher, its child, and the warm worker
    assert descendants() == before


@pytest.mark.parametrize("how", ["busy", "stubborn", "setsid"])
async def test_an_interrupt_without_any_grace_leaves_no_process_either(tmp_path, how):
    before = descendants()
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        with trio.fail_after(60):
            blocking = call("block", folder=str(tmp_path), how=how)
            handle, reader = start(runtime, [blocking, "back"], block)
            await handle.send_input("go")
            await progress_of(reader, 1)
            report = await handle.interrupt(grace=0)
            assert report.abandoned == ()
            assert descendants() == before
            assert (await handle.ask("and now?")).text == "back"


async def test_the_agents_of_a_runtime_share_a_pool_and_runtimes_do_not():
    async def ask(runtime, kind):
        handle, _ = start(runtime, [call("who"), "done"], who, kind=kind)
        assert (await handle.ask("who?")).text == "done"
        (answer,) = (await handle.history())[2].tool_results
        return answer.text

    async with (
        AgentRuntime(store=InMemoryStore()) as one,
        AgentRuntime(store=InMemoryStore()) as two,
    ):
        one.resources.insert(WorkerPool(size=1))
        with trio.fail_after(60):
            first, second = await ask(one, "a"), await ask(one, "b")
            third = await ask(two, "a")
    assert first == second != third


PROGRAM = """
import os, sys
import trio
from greenroom.core import AgentContext
from greenroom.tools import ToolRegistry, WorkerPool
from tests.tools.killable import block, who

async def main():
    context = AgentContext(session_id="s", agent_type="t", current_tool_use_id="t")
    context.resources.insert(WorkerPool())
    context.on_progress = lambda _, text: print(text.split()[1] + "]", flush=True)
    tools = ToolRegistry([block, who])
    print("[" + (await tools.execute("who", {}, context)).text.split(",")[0].strip("["), end=", ")
    await tools.execute("block", {"folder": sys.argv[1], "how": "setsid"}, context)

trio.run(main)
"""


def test_the_death_of_the_program_ends_its_workers(tmp_path):
    root, before = str(Path(__file__).parents[2]), descendants()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.PIPE, cwd=root
    ) as program:
        pids = json.loads(program.stdout.readline())
        below = descendants() - before - {program.pid}
        assert set(pids) <= set(below)
        assert len(below) >= 4
        handles = [os.pidfd_open(pid) for pid in below if is_alive(pid)]
        program.send_signal(signal.SIGKILL)

    async def gone():
        with trio.fail_after(60):
            for handle in handles:
                await trio.lowlevel.wait_readable(handle)

    trio.run(gone)
    assert not any(map(is_alive, below))
    assert not (tmp_path / "side effect").exists()
    for handle in handles:
        os.close(handle)


def test_two_runs_of_trio_one_after_the_other_have_workers_of_their_own():
    async def main():
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            handle, _ = start(runtime, [call("who"), "done"], who)
            with trio.fail_after(60):
                await handle.ask("who?")
            return (await handle.history())[2].tool_results[0].text

    assert trio.run(main) != trio.run(main)
