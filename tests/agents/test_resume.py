"""What belongs to an agent is there again when its session goes on the next day."""

import re
from pathlib import Path

import trio

from greenroom.agents import coder
from greenroom.core import Answer, Done, Error, Message, PermissionRequest, RuleDecision, Usage
from greenroom.permissions import PermissionManager
from greenroom.resilience import Budget
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, FileStore, InMemoryStore
from greenroom.testing import Reply, ScriptedApprover, ScriptedProvider, call
from greenroom.tools import ToolRegistry, builtin_tools, tool
from greenroom.tools._internal import TodoList


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


class NoFiles(InMemoryStore):
    """A store of others, from before stores kept files."""

    put_file = None


async def test_a_temporary_folder_goes_with_its_agent():
    @tool
    def flood() -> str:
        """Say a lot."""
        return "x" * 100_000

    llm = ScriptedProvider(call("flood"), "so much")
    arguments = (llm, ToolRegistry([flood]), PermissionManager(mode="bypass"))
    async with AgentRuntime(store=NoFiles()) as runtime:
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


@tool(category="execute")
def deploy() -> str:
    """Deploy."""
    return "deployed"


class Day:
    """One process's day with a session: a runtime and a manager of its own."""

    def __init__(self, store, session, workspace="."):
        self.permissions = PermissionManager()
        self.approver = ScriptedApprover(Answer(RuleDecision.ALLOW, remember="session"))
        self._store, self._session, self._workspace = store, session, workspace

    async def ask(self, *script):
        llm = ScriptedProvider(*script)
        async with AgentRuntime(store=self._store, workspace=self._workspace) as runtime:
            handle = runtime.spawn(
                self._session, coder, llm, ToolRegistry([deploy]), self.permissions
            )
            chunks = handle.subscribe("all")
            async with trio.open_nursery() as nursery:
                await nursery.start(self.approver.attend, handle)
                assert (await handle.ask("go")).error == ""
                await handle.shutdown()
                nursery.cancel_scope.cancel()
            self.chunks = [chunk async for chunk in chunks]
        return self.approver.requests

    @property
    def notes(self):
        return [chunk.message for chunk in self.chunks if isinstance(chunk, Error)]


async def test_what_was_granted_for_the_session_is_not_asked_again_when_it_goes_on(tmp_path):
    store = FileStore(tmp_path)
    session = AgentSession.new("coder", store=store)
    assert len(await Day(store, session).ask(call("deploy"), "done")) == 1
    session = await AgentSession.load(session.session_id, store=store)
    next_day = Day(store, session)
    assert await next_day.ask(call("deploy"), "done") == []
    assert next_day.notes == []
    assert session.history[-2].tool_results[0].text == "deployed"


async def test_it_is_asked_again_in_a_fork_in_another_folder_and_once_it_was_rewound(tmp_path):
    store = FileStore(tmp_path / "sessions")
    session = AgentSession.new("coder", store=store)
    await Day(store, session).ask(call("deploy"), "done")
    script = call("deploy"), "done"
    assert len(await Day(store, await session.fork()).ask(*script)) == 1
    elsewhere = Day(store, session, tmp_path)
    assert len(await elsewhere.ask(*script)) == 1
    assert len(elsewhere.notes) == 1
    assert "holds in" in elsewhere.notes[0]
    await session.rewind(to=2)
    assert len(await Day(store, session).ask(*script)) == 1


async def test_a_rewind_takes_an_answer_back_from_a_manager_that_still_knows_it(tmp_path):
    store = FileStore(tmp_path)
    session = AgentSession.new("coder", store=store)
    day = Day(store, session)
    await day.ask(call("deploy"), "done")
    await session.rewind(to=0)
    day.approver = ScriptedApprover("allow")
    assert len(await day.ask(call("deploy"), "done")) == 1


async def test_a_grant_is_on_the_disk_before_the_tool_that_it_allows_starts(tmp_path):
    store = FileStore(tmp_path)
    session = AgentSession.new("coder", store=store)
    seen = []

    @tool(name="deploy", category="execute")
    async def look() -> str:
        """Look at what a crash would leave now."""
        found = await AgentSession.load(session.session_id, store=store)
        seen.append(found.conversation.grants[0]["tool"])
        assert session.is_saved
        return "looked"

    async with AgentRuntime(store=store) as runtime:
        parts = ScriptedProvider(call("deploy"), "done"), ToolRegistry([look]), PermissionManager()
        handle = runtime.spawn(session, coder, *parts)
        async with trio.open_nursery() as nursery:
            approver = ScriptedApprover(Answer(RuleDecision.ALLOW, remember="session"))
            await nursery.start(approver.attend, handle)
            await handle.ask("go")
            nursery.cancel_scope.cancel()
    assert seen == [["deploy"]]


async def test_a_rule_that_was_tampered_with_allows_nothing_and_is_told_of(tmp_path):
    store = FileStore(tmp_path)
    session = AgentSession.new("coder", store=store)
    session.add_message(Message.user("hello"))
    session.conversation.add_grants(
        [{"decision": "allow", "all": True, "session": session.session_id}]
    )
    await session.save()
    day = Day(store, await AgentSession.load(session.session_id, store=store))
    assert len(await day.ask(call("deploy"), "done")) == 1
    assert len(day.notes) == 1
    assert day.notes[0].startswith(
        "a remembered answer does not hold: an answer can't have the field 'all'"
    )


async def test_a_budget_goes_on_from_what_the_session_has_used(tmp_path):
    store = FileStore(tmp_path)
    session = AgentSession.new("coder", store=store)
    script = call("deploy"), Reply("done", usage=Usage(90, 10))
    day = Day(store, session)
    await day.ask(*script)
    assert (session.used.model_calls, session.used.tool_calls) == (2, 1)
    assert session.used.usage.total >= 100
    loaded = await AgentSession.load(session.session_id, store=store)
    budget = Budget(model_calls=3, used=loaded.used)
    async with AgentRuntime(store=store) as runtime:
        parts = ScriptedProvider("one", "two"), ToolRegistry([deploy]), PermissionManager()
        handle = runtime.spawn(loaded, coder, *parts, budget=budget)
        assert (await handle.ask("go")).text == "one"
        assert "3 model calls" in (await handle.ask("go")).error
        assert (await handle.usage()) == loaded.history[-2].usage
    assert budget.used["model_calls"] == loaded.used.model_calls == 3
    assert budget.used["tokens"] == loaded.used.usage.total


async def test_what_a_person_is_asked_about_is_on_the_disk_while_they_think(tmp_path):
    store = FileStore(tmp_path)
    session = AgentSession.new("coder", store=store)
    async with AgentRuntime(store=store) as runtime:
        parts = ScriptedProvider(call("deploy"), "no"), ToolRegistry([deploy]), PermissionManager()
        handle = runtime.spawn(session, coder, *parts)
        async with handle.subscribe("all", answers=True) as chunks:
            await handle.send_input("go")
            async for chunk in chunks:
                if isinstance(chunk, PermissionRequest):
                    break
            killed_now = await AgentSession.load(session.session_id, store=store)
            await handle.respond_permission(chunk.request_id, "deny")
            async for chunk in chunks:
                if isinstance(chunk, Done):
                    break
    assert [each.role for each in killed_now.history] == ["user", "assistant", "user"]
    assert "was not started" in killed_now.history[-1].tool_results[0].text
