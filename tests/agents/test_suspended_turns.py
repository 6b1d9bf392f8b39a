"""Turns that wait for an answer: where nobody is there to ask, and what their files are."""

import json
import shutil
from pathlib import Path

import pytest
import trio

from greenroom.agents import coder, run_tools, stream_reply
from greenroom.core import Done, PermissionRequest, PermissionResponse, TurnStatus
from greenroom.permissions import PermissionManager
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, FileStore
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import ToolRegistry, tool
from tests.agents.loops import simple_loop
from tests.session.accepted import check_accepted


class Shop:
    """A tool that has to be asked about, and a store that several processes use in turn."""

    def __init__(self, folder):
        self.folder, self.ran = folder, []
        self.store = FileStore(folder / "sessions")

        @tool(category="execute")
        def deploy() -> str:
            """Deploy."""
            self.ran.append("deploy")
            return "deployed"

        self.tools = ToolRegistry([deploy])

    def parts(self, *script):
        return ScriptedProvider(*script), self.tools, PermissionManager()

    def runtime(self):
        return AgentRuntime(store=self.store, workspace=self.folder)

    async def load(self, session):
        return await AgentSession.load(session.session_id, store=self.store, keep_open=True)


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path)


def files(folder):
    """The files of a session, but for its lock, and for how many lines there are at the least."""
    found = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    described = {**json.loads(found["metadata.json"]), "lines": None}
    return {**found, "metadata.json": described, "lock": None}


async def test_the_files_are_those_that_a_kill_at_the_question_would_have_left(shop):
    session = AgentSession.new("coder", store=shop.store)
    llm, tools, permissions = shop.parts(call("deploy"))
    asked, killed = trio.Event(), shop.folder / "killed"

    async def agent(agent):
        async for message in agent.inputs():
            async with agent.turn(message) as turn, trio.open_nursery() as nursery:
                reply = await stream_reply(agent, llm, tools)
                nursery.start_soon(run_tools, agent, reply.tool_uses, tools, permissions)
                await asked.wait()
                shutil.copytree(shop.store.folder(session.session_id), killed)
                turn.suspend()
                nursery.cancel_scope.cancel()

    async with shop.runtime() as runtime:
        handle = runtime.spawn(session, agent)
        async with handle.subscribe("all", answers=True) as chunks:
            await handle.send_input("go")
            seen = []
            async for chunk in chunks:
                seen.append(chunk)
                if isinstance(chunk, PermissionRequest):
                    asked.set()
                if isinstance(chunk, Done):
                    break
    assert files(shop.store.folder(session.session_id)) == files(killed)
    assert chunk.status is TurnStatus.WAITING
    (response,) = [each for each in seen if isinstance(each, PermissionResponse)]
    assert response.cancelled
    assert shop.ran == []


@pytest.mark.parametrize("answer", ["allow", "deny"])
async def test_where_nobody_is_there_the_turn_is_suspended_and_goes_on_with_the_answer(
    shop, answer
):
    session = AgentSession.new("coder", store=shop.store)
    async with shop.runtime() as runtime:
        handle = runtime.spawn(session, coder, *shop.parts(call("deploy")), unattended="suspend")
        assert (await handle.ask("go")).status is TurnStatus.WAITING
        assert await handle.pending() == ()
        await handle.shutdown()
    assert await session.read_decisions() == ()
    loaded = await shop.load(session)
    (question,) = loaded.open_questions
    async with shop.runtime() as runtime:
        handle = runtime.spawn(loaded, coder, *shop.parts("Done."), unattended="suspend")
        assert await handle.respond_permission(question.request_id, answer)
        chunks = [chunk async for chunk in handle.stream()]
    assert chunks[-1].status is TurnStatus.COMPLETED
    assert shop.ran == (["deploy"] if answer == "allow" else [])
    check_accepted(loaded.history)


async def test_a_question_outside_of_any_call_leaves_the_turn_waiting_too(shop):
    async def agent(agent):
        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                await agent.request_permission("review", "Start")
                turn.set_result("started")

    async with shop.runtime() as runtime:
        handle = runtime.spawn(AgentSession.new("asker"), agent, unattended="suspend")
        assert (await handle.ask("go")).status is TurnStatus.WAITING


async def test_a_loop_that_does_not_know_of_it_stays_valid(shop):
    session = AgentSession.new("coder", store=shop.store)
    async with shop.runtime() as runtime:
        handle = runtime.spawn(session, coder, *shop.parts(call("deploy")), unattended="suspend")
        await handle.ask("go")

    loaded = await shop.load(session)
    async with shop.runtime() as runtime:
        handle = runtime.spawn(loaded, simple_loop, *shop.parts("I could not.", "Hello."))
        assert [chunk async for chunk in handle.stream()][-1].status is TurnStatus.COMPLETED
        assert (await handle.ask("hi")).text == "Hello."
    assert shop.ran == []
    check_accepted(loaded.history)


async def test_it_is_suspended_again_where_still_nobody_is_there(shop):
    session, ids = AgentSession.new("coder", store=shop.store), set()
    async with shop.runtime() as runtime:
        handle = runtime.spawn(session, coder, *shop.parts(call("deploy")), unattended="suspend")
        await handle.ask("go")
    size = len(files(shop.store.folder(session.session_id))["history.jsonl"])
    for _ in range(3):
        loaded = await shop.load(session)
        ids |= {each.request_id for each in loaded.open_questions}
        async with shop.runtime() as runtime:
            handle = runtime.spawn(loaded, coder, *shop.parts(), unattended="suspend")
            chunks = [chunk async for chunk in handle.stream()]
        assert chunks[-1].status is TurnStatus.WAITING
    assert len(ids) == 1
    assert len(files(shop.store.folder(session.session_id))["history.jsonl"]) == size
    assert len(await loaded.read_branches()) == 1


async def test_the_last_who_could_answer_leaves_it_open(shop):
    session = AgentSession.new("coder", store=shop.store)
    async with shop.runtime() as runtime:
        handle = runtime.spawn(session, coder, *shop.parts(call("deploy")), unattended="suspend")
        async with handle.subscribe("all", answers=True) as chunks:
            await handle.send_input("go")
            async for chunk in chunks:
                if isinstance(chunk, PermissionRequest):
                    break
        done = [chunk async for chunk in handle.stream()][-1]
    assert done.status is TurnStatus.WAITING


async def test_a_shutdown_leaves_it_open_too(shop):
    session = AgentSession.new("coder", store=shop.store)
    async with shop.runtime() as runtime:
        handle = runtime.spawn(session, coder, *shop.parts(call("deploy")), unattended="suspend")
        async with handle.subscribe("all", answers=True) as chunks:
            await handle.send_input("go")
            async for chunk in chunks:
                if isinstance(chunk, PermissionRequest):
                    break
            await handle.shutdown()
    assert len((await shop.load(session)).open_questions) == 1


async def test_what_a_subagent_asks_is_denied_where_nobody_is_there(shop):
    session = AgentSession.new("coder", store=shop.store)
    script = (call("Task", description="deploy", prompt="deploy"), call("deploy"), "No.", "No.")
    async with shop.runtime() as runtime:
        handle = runtime.spawn(session, coder, *shop.parts(*script), unattended="suspend")
        result = await handle.ask("go")
    assert result.status is TurnStatus.COMPLETED
    assert shop.ran == []


@pytest.mark.parametrize("durability", ["step", "turn"])
async def test_a_power_cut_takes_nothing_of_it(shop, durability):
    session = AgentSession.new("coder", store=shop.store)
    session.durability = durability
    loose = []

    async def agent(agent, *parts):
        await coder(agent, *parts)
        loose.append(agent.session.journal._tail.is_loose)

    async with shop.runtime() as runtime:
        handle = runtime.spawn(session, agent, *shop.parts(call("deploy")), unattended="suspend")
        assert (await handle.ask("go")).status is TurnStatus.WAITING
        await handle.shutdown()
    assert loose == [False]
