"""What belongs to an agent is there again when its session goes on the next day."""

import re
from pathlib import Path

from greenroom.agents import coder
from greenroom.permissions import PermissionManager
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, FileStore, MemoryStore
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import TodoList, ToolRegistry, builtin_tools, tool


async def test_the_todo_list_is_kept_with_the_session(tmp_path):
    store = FileStore(tmp_path)
    todos = [{"content": "Look", "status": "completed"}, {"content": "Leap", "status": "pending"}]
    llm = ScriptedProvider(call("Todo", todos=todos), "noted")
    arguments = (llm, ToolRegistry(builtin_tools()), PermissionManager())
    async with AgentRuntime(store=store) as runtime:
        handle = runtime.spawn(AgentSession.new("coder"), coder, *arguments)
        assert (await handle.ask("plan")).text == "noted"

    seen = []

    async def look(agent):
        seen.append(str(TodoList.of(agent.context)))

    async with AgentRuntime(store=store) as runtime:
        session = await AgentSession.load(handle.session_id, store=store)
        await runtime.spawn(session, look).wait(check=True)
    assert seen == ["[x] Look\n[ ] Leap"]


async def test_a_temporary_folder_goes_with_its_agent():
    @tool
    def flood() -> str:
        """Say a lot."""
        return "x" * 100_000

    llm = ScriptedProvider(call("flood"), "so much")
    arguments = (llm, ToolRegistry([flood]), PermissionManager(mode="bypass"))
    async with AgentRuntime(store=MemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("coder"), coder, *arguments)
        await handle.ask("go")
        result = (await handle.history())[2].tool_results[0].text
        kept = Path(re.search(r"\S+/flood-\w+\.txt", result)[0])
        assert kept.read_text() == "x" * 100_000
        await handle.shutdown()
        assert not kept.parent.exists()


async def test_a_model_cannot_write_to_its_own_session(tmp_path):
    store = FileStore(tmp_path / "sessions")
    session = AgentSession.new("coder")
    history = tmp_path / "sessions" / session.session_id / "history.jsonl"
    spilled = history.parent / "output" / "x.txt"
    llm = ScriptedProvider(
        call("Write", file_path=str(history), content=""),
        call("Write", file_path=str(spilled), content=""),
        "no luck",
    )
    permissions = PermissionManager(mode="bypass")
    arguments = (llm, ToolRegistry(builtin_tools()), permissions)
    (tmp_path / "work").mkdir()
    async with AgentRuntime(store=store, workspace=tmp_path / "work") as runtime:
        await runtime.spawn(session, coder, *arguments).ask("go")
    results = [block for message in session.history for block in message.tool_results]
    assert [block.is_error for block in results] == [True, True]
    assert all("outside the workspace" in block.text for block in results)
    assert history.read_bytes()
    assert not spilled.exists()
