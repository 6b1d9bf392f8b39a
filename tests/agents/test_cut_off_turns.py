"""A turn that its process has cut off: which one it was, and how an agent goes on with it."""

import shutil
from pathlib import Path

import pytest
import trio

from greenroom import Agent
from greenroom.agents import coder
from greenroom.core import Done, Message, Resume, TurnStatus
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, FileStore, InMemoryStore
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import ToolRegistry, tool
from tests.session.accepted import check_accepted


class Place:
    """Where processes follow each other: a store, and what the tool has done."""

    def __init__(self, folder):
        self.folder, self.ran = folder, []
        self.store = FileStore(folder / "sessions")

        @tool(category="execute")
        def deploy() -> str:
            """Deploy."""
            self.ran.append("deploy")
            return "deployed"

        self.tools = ToolRegistry([deploy])

    def agent_fn(self, kind, *script):
        llm = ScriptedProvider(*script)
        permissions = PermissionManager([PermissionRule.allow_all()])
        if kind == "coder":
            return coder, (llm, self.tools, permissions)
        return Agent(llm, tools=[self.tools.get("deploy")], permissions=permissions), ()

    async def load(self, session_id, **options):
        return await AgentSession.load(session_id, store=self.store, **options)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.mark.parametrize("kind", ["coder", "agent"])
async def test_wherever_the_process_dies_the_turn_goes_on_to_its_end_once(place, kind):
    """Each line of a history is one commit: the lines before it are what a kill leaves."""
    session = AgentSession.new("coder", store=place.store)
    async with AgentRuntime(store=place.store, workspace=place.folder) as runtime:
        function, parts = place.agent_fn(kind, call("deploy"), "It is out.")
        await runtime.spawn(session, function, *parts).ask("Ship it.", id="order-1")
    folder = Path(place.store.folder(session.session_id))
    lines = (folder / "history.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) > 2
    for count in range(1, len(lines) + 1):
        (folder / "history.jsonl").write_bytes(b"".join(lines[:count]))
        place.ran.clear()
        loaded = await place.load(session.session_id, on_cut_off="continue")
        assert loaded.has_input("order-1")
        was_cut_off = count < len(lines)
        assert loaded.cut_off == ("order-1" if was_cut_off else None)
        async with AgentRuntime(store=place.store, workspace=place.folder) as runtime:
            function, parts = place.agent_fn(kind, "Out.")
            handle = runtime.spawn(loaded, function, *parts)
            if was_cut_off:
                *_, done = [chunk async for chunk in handle.stream()]
                assert done.status is TurnStatus.COMPLETED
                assert done.inputs[1:] == ("order-1",)
                assert (await handle.answer("order-1")).text in ("Out.", "")
            await handle.shutdown()
        assert place.ran == [], "a call that may have started is not started again"
        assert loaded.cut_off is None
        check_accepted(loaded.history)
        assert (await place.load(session.session_id)).cut_off is None
        shutil.rmtree(folder / "output", ignore_errors=True)


async def seen_by(session):
    seen = []

    async def agent_fn(agent):
        async for message in agent.inputs():
            seen.append(message)
            async with agent.turn(message):
                pass

    async with AgentRuntime(store=session.store) as runtime:
        handle = runtime.spawn(session, agent_fn)
        await trio.testing.wait_all_tasks_blocked()
        await handle.shutdown()
    return seen


async def cut_off_session(*messages):
    session = AgentSession.new("coder", store=InMemoryStore())
    session.add_message(Message.user("go", id="i-1"))
    session.conversation.begin_turn("i-1")
    for message in messages:
        session.add_message(message)
    await session.save()
    return session


async def test_only_a_session_that_was_loaded_to_continue_goes_on_with_it():
    session = await cut_off_session()
    loaded = await AgentSession.load(session.session_id, store=session.store)
    assert loaded.cut_off == "i-1"
    assert await seen_by(loaded) == []
    loaded = await AgentSession.load(session.session_id, store=session.store, on_cut_off="continue")
    (resume,) = await seen_by(loaded)
    assert resume == Resume(id=resume.id, cut_off="i-1")
    assert loaded.cut_off is None


async def test_an_input_that_waits_comes_first_and_the_turn_is_over():
    session = await cut_off_session()
    loaded = await AgentSession.load(session.session_id, store=session.store, on_cut_off="continue")

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                assert not isinstance(message, Resume)

    async with AgentRuntime(store=session.store) as runtime:
        handle = runtime.spawn(loaded, agent_fn)
        handle.send_input_nowait("else")
        assert (await handle.ask("more")).status is TurnStatus.COMPLETED
    assert loaded.cut_off is None


async def test_an_answer_that_was_stored_is_not_asked_for_again():
    for function in (coder, Agent(ScriptedProvider(), output_type=str)):
        session = await cut_off_session(Message.assistant("Done."))
        loaded = await AgentSession.load(
            session.session_id, store=session.store, on_cut_off="continue"
        )
        parts = (ScriptedProvider(), ToolRegistry([]), PermissionManager())
        async with AgentRuntime(store=session.store) as runtime:
            handle = runtime.spawn(loaded, function, *(parts if function is coder else ()))
            *_, done = [chunk async for chunk in handle.stream()]
        assert isinstance(done, Done)
        assert done.status is TurnStatus.COMPLETED
        assert [each.text for each in loaded.history] == ["go", "Done."]


async def test_a_rewind_to_before_the_input_and_a_fork_leave_none_and_a_compaction_keeps_it():
    session = await cut_off_session(Message.assistant("hm"))
    await session.compact("It began.", keep=0)
    assert session.cut_off == "i-1"
    assert (await session.fork()).cut_off is None
    session = await cut_off_session()
    await session.rewind(0)
    assert session.cut_off is None
    assert session.has_input("i-1")


async def test_a_turn_that_waits_for_an_answer_has_no_end_on_record(place):
    session = AgentSession.new("coder", store=place.store)
    async with AgentRuntime(store=place.store, workspace=place.folder) as runtime:
        parts = (ScriptedProvider(call("deploy")), place.tools, PermissionManager())
        handle = runtime.spawn(session, coder, *parts, unattended="suspend")
        await handle.ask("Ship it.", id="order-1")
    loaded = await place.load(session.session_id, keep_open=True, on_cut_off="continue")
    assert loaded.cut_off == "order-1"
    async with AgentRuntime(store=place.store, workspace=place.folder) as runtime:
        parts = (ScriptedProvider("Out."), place.tools, PermissionManager())
        handle = runtime.spawn(loaded, coder, *parts)
        (question,) = await handle.pending()
        await handle.respond_permission(question.request_id, "allow")
        *_, done = [chunk async for chunk in handle.stream()]
    assert (done.status, done.inputs[1:]) == (TurnStatus.COMPLETED, ("order-1",))
    assert place.ran == ["deploy"]


async def test_it_is_stop_or_continue():
    session = await cut_off_session()
    with pytest.raises(ValueError, match="on_cut_off"):
        await AgentSession.load(session.session_id, store=session.store, on_cut_off="ask")
