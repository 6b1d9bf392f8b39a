"""A result too long for the model is in the session's files, and Read shows it, in every store."""

import re

import pytest
import trio

from greenroom.agents import coder
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, FileStore, InMemoryStore, SQLiteStore
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import Read, ToolRegistry, tool


@tool
def flood() -> str:
    """Return far too much."""
    return "\n".join(f"line {number} é" for number in range(50_000))


@pytest.mark.parametrize("kind", ["files", "sqlite", "memory"])
async def test_a_long_result_names_a_file_of_the_session_that_read_shows(kind, tmp_path):
    store = {
        "files": lambda: FileStore(tmp_path / "sessions"),
        "sqlite": lambda: SQLiteStore(tmp_path / "sessions.db"),
        "memory": InMemoryStore,
    }[kind]()
    rules = PermissionManager(
        [PermissionRule.allow_tool("flood"), PermissionRule.allow_tool("Read")]
    )
    registry, session = ToolRegistry([flood, Read()]), AgentSession.new("coder", store=store)
    async with AgentRuntime(store=store, workspace=tmp_path) as runtime:
        model = ScriptedProvider(call("flood"), "Done.")
        handle = runtime.spawn(session, coder, model, registry, rules)
        with trio.fail_after(60):
            await handle.ask("flood")
            await handle.shutdown()
        text = session.history[2].tool_results[0].text
        (name,) = set(re.findall(r"session:[\w-]+\.txt", text))
        assert "line 25000" not in text
    fork = await (await AgentSession.load(session.session_id, store=store)).fork()
    for each in (session.session_id, fork.session_id):
        again = await AgentSession.load(each, store=store)
        model = ScriptedProvider(
            call("Read", file_path=name, offset=25_001, limit=1),
            call("Read", file_path="session:../../secret"),
            "Done.",
        )
        async with AgentRuntime(store=store, workspace=tmp_path) as runtime:
            handle = runtime.spawn(again, coder, model, registry, rules)
            with trio.fail_after(60):
                await handle.ask("read it")
                await handle.shutdown()
        texts = [each.text for message in again.history for each in message.tool_results][1:]
        assert "line 25000 é" in texts[0]
        assert "there is no file session:../../secret" in texts[1]
