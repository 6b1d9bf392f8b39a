"""What the disk has when a tool starts: the reply that asked for it, and that it starts, synced."""

import json

import pytest

from greenroom.agents import coder
from greenroom.core import TurnStatus
from greenroom.fs._internal import durable
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, FileStore
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import ToolRegistry, tool


@pytest.fixture
def events(monkeypatch):
    """What each commit holds, each sync of a file, and each run of a tool, in order."""
    seen, append, sync = [], durable.append, durable.sync

    def appended(fd, data, at, *, flush=True):
        if data:
            seen.append([name for entry in json.loads(data)["e"] for name in names(entry)])
        append(fd, data, at, flush=flush)

    def synced(fd):
        seen.append("sync")
        sync(fd)

    monkeypatch.setattr(durable, "append", appended)
    monkeypatch.setattr(durable, "sync", synced)
    return seen


def names(entry):
    """The kind of an entry; of a message, those of its blocks."""
    content = entry.get("message", {}).get("content", [])
    return [block["type"] for block in content] or [entry["kind"]]


async def test_a_reply_is_synced_with_the_start_of_its_tools_before_they_start(tmp_path, events):
    @tool
    async def act() -> str:
        """Act."""
        events.append("act")
        return "acted"

    session = AgentSession.new("coder", store=FileStore(tmp_path))
    permissions = PermissionManager([PermissionRule.allow_all()])
    llm = ScriptedProvider(call("act"), call("act"), "done")
    async with AgentRuntime() as runtime:
        handle = runtime.spawn(session, coder, llm, ToolRegistry([act]), permissions)
        assert (await handle.ask("go")).status is TurnStatus.COMPLETED
        seen = list(events)
    step = [["tool_use", "decision", "tools_started"], "sync", "act", ["tool_result"]]
    assert seen[seen.index(step[0]) :] == [*step, *step, ["text", "turn"], "sync"]
