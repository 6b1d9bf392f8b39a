"""Interrupts with real processes: when they return, nothing is left, and the agent goes on."""

import os
from pathlib import Path

import pytest
import trio

from greenroom.agents import coder
from greenroom.core import (
    Message,
    PermissionRequest,
    PermissionResponse,
    TextDelta,
    ToolProgress,
    ToolResultBlock,
    ToolUseBlock,
)
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, FileStore
from greenroom.testing import Reply, ScriptedProvider, call
from greenroom.tools import ToolRegistry, builtin_tools

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")


def processes_that_mention(marker):
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in entry.read_bytes() and int(entry.parent.name) != os.getpid():
                found.append(entry.parent.name)
        except OSError:
            continue  # it ended while we looked
    return found


def check_pairs(history):
    """A strict model API accepts this history: every call is answered in the next message."""
    for message, following in zip(history, [*history[1:], Message.user("")], strict=True):
        asked = [block.id for block in message.content if isinstance(block, ToolUseBlock)]
        answered = [b.tool_use_id for b in following.content if isinstance(b, ToolResultBlock)]
        assert asked == answered


async def start(runtime, *script, rules=()):
    arguments = (ScriptedProvider(*script), ToolRegistry(builtin_tools()))
    handle = runtime.spawn(AgentSession.new("coder"), coder, *arguments, PermissionManager(rules))
    reader = handle.subscribe("all")
    await handle.send_input("go")
    return handle, reader


async def until(reader, wanted):
    async for chunk in reader:
        if wanted(chunk):
            return chunk
    raise AssertionError("the agent has ended")


async def settle(handle, answer):
    """Interrupt, check what is left, and see that the next input is answered."""
    report = await handle.interrupt()
    assert report.abandoned == ()
    check_pairs(await handle.history())
    assert (await handle.ask("and now?")).text == answer
    return report


async def test_during_a_model_stream(tmp_path):
    async with AgentRuntime(store=FileStore(tmp_path)) as runtime:
        with trio.fail_after(60):
            handle, reader = await start(runtime, Reply("I think that", hangs=True), "back")
            await until(reader, lambda chunk: chunk == TextDelta(" that"))
            await settle(handle, "back")


async def test_during_processes_that_try_to_get_away(tmp_path):
    marker = f"60.{os.getpid():08}"  # a length of sleep that no other process has
    command = f"sleep {marker} & setsid sleep {marker} & echo ready; sleep {marker}"
    async with AgentRuntime(store=FileStore(tmp_path), workspace=tmp_path) as runtime:
        with trio.fail_after(60):
            rules = [PermissionRule.allow_tool("Bash")]
            handle, reader = await start(
                runtime, call("Bash", command=command), "back", rules=rules
            )
            await until(reader, lambda chunk: isinstance(chunk, ToolProgress))
            assert len(processes_that_mention(marker)) >= 3
            report = await settle(handle, "back")
            assert processes_that_mention(marker) == []
            assert len(report.repaired) == 1
            (answer,) = (await handle.history())[2].tool_results
            assert "Its output until then:\nready" in answer.text
    loaded = await AgentSession.load(handle.session_id, store=FileStore(tmp_path))
    check_pairs(loaded.history)


async def test_during_a_permission_prompt(tmp_path):
    async with AgentRuntime(store=FileStore(tmp_path), workspace=tmp_path) as runtime:
        with trio.fail_after(60):
            handle, reader = await start(runtime, call("Bash", command="make"), "back")
            request = await until(reader, lambda chunk: isinstance(chunk, PermissionRequest))
            report = await settle(handle, "back")
            assert len(report.repaired) == 1
            response = await until(reader, lambda chunk: isinstance(chunk, PermissionResponse))
            assert response.cancelled
            assert await handle.pending() == ()
            assert not await handle.respond_permission(request.request_id, "allow")


async def test_leaving_the_runtime_kills_what_runs(tmp_path):
    marker = "61.000731"
    async with AgentRuntime(store=FileStore(tmp_path), workspace=tmp_path) as runtime:
        with trio.fail_after(60):
            command = f"echo ready; sleep {marker}"
            handle, reader = await start(
                runtime, call("Bash", command=command), rules=[PermissionRule.allow_tool("Bash")]
            )
            await until(reader, lambda chunk: isinstance(chunk, ToolProgress))
            await handle.shutdown(grace=0)
    assert processes_that_mention(marker) == []
    loaded = await AgentSession.load(handle.session_id, store=FileStore(tmp_path))
    check_pairs(loaded.history)
