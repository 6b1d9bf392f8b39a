"""A question outlives the process that asked it: asked again, answered ahead, or passed over."""

import shutil
from pathlib import Path

import pytest
import trio
import trio.testing

from greenroom.agents import coder
from greenroom.core import (
    Done,
    Message,
    PermissionRequest,
    PermissionResponse,
    Resume,
    ToolEnd,
    ToolUseBlock,
    TurnError,
    TurnStatus,
    UserInput,
)
from greenroom.permissions import PermissionManager
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, FileStore, InMemoryStore
from greenroom.testing import Reply, ScriptedApprover, ScriptedProvider
from greenroom.tools import ToolRegistry, tool
from tests.agents.loops import simple_loop
from tests.session.accepted import check_accepted


class Place:
    """Where processes follow each other: a store, and what the tool has done."""

    def __init__(self, folder):
        self.folder = folder
        self.store = FileStore(folder / "first")
        self.session_id = ""
        self.ran = []

        @tool(category="execute")
        def deploy(to: str) -> str:
            """Deploy."""
            self.ran.append(to)
            return f"deployed to {to}"

        self.tools = ToolRegistry([deploy])

    async def die(self, *calls, answers=()):
        """Ask about these calls, and die at the first question without an answer; return that."""
        async with AgentRuntime(store=self.store, workspace=self.folder) as runtime:
            session = AgentSession.new("coder")
            script = ScriptedProvider(Reply(calls))
            handle = runtime.spawn(session, coder, script, self.tools, PermissionManager())
            async with handle.subscribe("all", answers=True) as chunks:
                await handle.send_input("go")
                request = await next_request(chunks)
                for answer in answers:
                    await handle.respond_permission(request.request_id, answer)
                    seen = [await next_of(chunks), await next_of(chunks)]
                    (request,) = (each for each in seen if isinstance(each, PermissionRequest))
                # What a kill would leave now: the lock is gone with its holder.
                self.store = FileStore(self.folder / "next")
                shutil.copytree(self.folder / "first", self.folder / "next")
                handle.kill()
        self.session_id = session.session_id
        assert len(self.ran) == len(answers)
        return request

    async def load(self, **options):
        return await AgentSession.load(
            self.session_id, store=self.store, **{"keep_open": True, **options}
        )

    def parts(self, *script):
        return ScriptedProvider(*script), self.tools, PermissionManager()


async def next_of(chunks):
    """The next question, or the next end of a call."""
    async for chunk in chunks:
        if isinstance(chunk, PermissionRequest | ToolEnd):
            return chunk
    raise AssertionError("nothing was asked")


async def next_request(chunks):
    async for chunk in chunks:
        if isinstance(chunk, PermissionRequest):
            return chunk
    raise AssertionError("nothing was asked")


async def turn_of(handle):
    """The chunks of the turn that comes first."""
    return [chunk async for chunk in handle.stream()]


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


ONE = ToolUseBlock("c1", "deploy", {"to": "here"})
TWO = ToolUseBlock("c2", "deploy", {"to": "there"})


async def test_it_is_asked_again_under_its_id_and_the_call_runs_once(place):
    asked = await place.die(ONE)
    session = await place.load()
    assert [each.id for each in session.unstarted] == ["c1"]
    (question,) = session.open_questions
    assert (question.request_id, question.digest) == (asked.request_id, asked.digest)
    approver = ScriptedApprover("allow")
    async with AgentRuntime(store=place.store, workspace=place.folder) as runtime:
        handle = runtime.spawn(session, coder, *place.parts("It is out."))
        async with trio.open_nursery() as nursery:
            await nursery.start(approver.attend, handle)
            chunks = await turn_of(handle)
            nursery.cancel_scope.cancel()
    (again,) = approver.requests
    assert (again.request_id, again.tool_use_id) == (asked.request_id, "c1")
    assert chunks[-1].status is TurnStatus.COMPLETED
    assert place.ran == ["here"]
    history = (await place.load()).history
    assert [each.text for each in history] == ["go", "", "", "It is out."]
    assert history[2].tool_results[0].text == "deployed to here"
    check_accepted(history)


@pytest.mark.parametrize("loop", [coder, simple_loop])
async def test_with_a_new_message_instead_the_call_does_not_run(place, loop):
    await place.die(ONE)
    session = await place.load()
    async with AgentRuntime(store=place.store, workspace=place.folder) as runtime:
        handle = runtime.spawn(session, loop, *place.parts("Well, then.", "Yes?"))
        handle.send_input_nowait("never mind")
        assert (await turn_of(handle))[-1].status is TurnStatus.COMPLETED
        assert (await handle.ask("hello?")).text == "Yes?"
    assert place.ran == []
    history = (await place.load()).history
    assert [each.text for each in history[3:]] == ["never mind", "Well, then.", "hello?", "Yes?"]
    assert history[2].tool_results[0].text.endswith("went on without it: the call was not started")
    check_accepted(history)


async def test_a_loop_that_does_not_know_of_it_stays_valid(place):
    await place.die(ONE, TWO)
    session = await place.load()
    llm, *parts = place.parts("I could not.", "Hello.")
    async with AgentRuntime(store=place.store, workspace=place.folder) as runtime:
        handle = runtime.spawn(session, simple_loop, llm, *parts)
        assert (await turn_of(handle))[-1].status is TurnStatus.COMPLETED
        assert (await handle.ask("hi")).text == "Hello."
    assert place.ran == []
    for request in llm.requests:
        check_accepted(request.messages)
    assert [each.is_error for each in session.history[2].tool_results] == [True, True]


async def test_without_keep_open_it_is_answered_as_ever(place):
    await place.die(ONE)
    session = await place.load(keep_open=False)
    assert session.unstarted == session.open_questions == ()
    assert "interrupted: the call was not started" in session.history[-1].tool_results[0].text


async def test_what_was_allowed_before_the_process_died_has_started_and_does_not_run_again(place):
    second = await place.die(ONE, TWO, answers=["allow"])
    session = await place.load()
    assert "c1" not in [each.id for each in session.unstarted]
    assert [each.tool_use_id for each in session.open_questions] == ["c2"]
    expected = [second.request_id]
    approver = ScriptedApprover("deny")
    async with AgentRuntime(store=place.store, workspace=place.folder) as runtime:
        handle = runtime.spawn(session, coder, *place.parts("So be it."))
        async with trio.open_nursery() as nursery:
            await nursery.start(approver.attend, handle)
            await turn_of(handle)
            nursery.cancel_scope.cancel()
    assert [each.request_id for each in approver.requests] == expected
    assert place.ran == ["here"]
    check_accepted(session.history)


async def test_after_a_restart_the_whole_question_is_pending_until_it_is_answered(place):
    asked = await place.die(ONE)
    session = await place.load()
    assert [each.request for each in session.open_questions] == [asked]
    async with AgentRuntime(store=place.store, workspace=place.folder) as runtime:
        handle = runtime.spawn(session, coder, *place.parts("Done."))
        assert await handle.pending() == (asked,)
        assert await handle.respond_permission(asked.request_id, "allow")
        assert await handle.pending() == ()
        assert not await handle.respond_permission(asked.request_id, "allow")
        chunks = await turn_of(handle)
    assert not [each for each in chunks if isinstance(each, PermissionRequest)]
    assert place.ran == ["here"]


async def test_a_question_of_any_length_is_stored_whole(place):
    asked = await place.die(ToolUseBlock("c1", "deploy", {"to": "x" * 300_000}))
    (question,) = (await place.load()).open_questions
    assert question.request == asked


@pytest.mark.parametrize("same", [True, False])
async def test_an_answer_given_ahead_counts_only_while_the_digest_is_the_same(place, same):
    asked = await place.die(ONE)
    session = await place.load()
    (elsewhere := place.folder / "elsewhere").mkdir()
    workspace = place.folder if same else elsewhere
    async with AgentRuntime(store=place.store, workspace=workspace) as runtime:
        handle = runtime.spawn(session, coder, *place.parts("Done."))
        assert await handle.respond_permission(asked.request_id, "allow")
        assert not await handle.respond_permission(asked.request_id, "deny"), "the first counts"
        assert not await handle.respond_permission("p-other", "allow")
        async with handle.subscribe("all", answers=True) as chunks:
            if not same:
                again = await next_request(chunks)
                assert again.request_id == asked.request_id
                assert again.digest != asked.digest
                assert place.ran == []
                (question,) = session.open_questions
                assert question.digest == again.digest
                await handle.respond_permission(again.request_id, "deny")
            rest = [chunk async for chunk in handle.stream()]
    responses = [each for each in rest if isinstance(each, PermissionResponse)]
    assert [each.decision for each in responses] == ["allow" if same else "deny"]
    streamed = [each for each in rest if isinstance(each, PermissionRequest)]
    assert len(streamed) == (0 if same else 1), "what was answered is not asked again"
    assert place.ran == (["here"] if same else [])
    check_accepted(session.history)


async def test_an_answer_ahead_is_void_once_the_conversation_went_on(place):
    asked = await place.die(ONE)
    async with AgentRuntime(store=place.store, workspace=place.folder) as runtime:
        script = ("Never mind.", ONE, "Denied.")
        handle = runtime.spawn(await place.load(), coder, *place.parts(*script), unattended="deny")
        handle.send_input_nowait("no")
        assert await handle.respond_permission(asked.request_id, "allow")
        await turn_of(handle)
        # The same call, with the same id and the same digest.
        chunks = [chunk async for chunk in handle.stream(await handle.send_input("again"))]
    (request,) = [each for each in chunks if isinstance(each, PermissionRequest)]
    assert request.request_id != asked.request_id
    assert place.ran == []


@pytest.mark.parametrize("loop", [coder, simple_loop])
async def test_it_is_void_in_the_turn_that_went_on_too_where_the_same_call_comes_again(place, loop):
    asked = await place.die(ONE)
    async with AgentRuntime(store=place.store, workspace=place.folder) as runtime:
        parts = place.parts(Reply([ONE]), "Denied.")
        handle = runtime.spawn(await place.load(), loop, *parts, unattended="deny")
        if loop is coder:
            handle.send_input_nowait("no")
        assert await handle.respond_permission(asked.request_id, "allow")
        chunks = await turn_of(handle)
    (request,) = [each for each in chunks if isinstance(each, PermissionRequest)]
    assert request.request_id != asked.request_id
    assert place.ran == []


async def test_two_calls_of_one_id_are_two_questions(place):
    asked = await place.die(ONE, ToolUseBlock("c1", "deploy", {"to": "there"}))
    session = await place.load()
    approver = ScriptedApprover("allow", "deny")
    async with AgentRuntime(store=place.store, workspace=place.folder) as runtime:
        handle = runtime.spawn(session, coder, *place.parts("Done."))
        async with trio.open_nursery() as nursery:
            await nursery.start(approver.attend, handle)
            await turn_of(handle)
            nursery.cancel_scope.cancel()
    first, second = approver.requests
    assert first.request_id == asked.request_id != second.request_id
    assert place.ran == ["here"]


async def test_wherever_the_process_dies_the_call_runs_once_or_is_known_to_have_started(place):
    """Each line of a history is one commit: the lines before it are what a kill leaves."""
    await place.die(ONE)
    session, approver = await place.load(), ScriptedApprover("allow")
    async with AgentRuntime(store=place.store, workspace=place.folder) as runtime:
        handle = runtime.spawn(session, coder, *place.parts("It is out."))
        async with trio.open_nursery() as nursery:
            await nursery.start(approver.attend, handle)
            await turn_of(handle)
            nursery.cancel_scope.cancel()
    path = Path(place.store.folder(session.session_id), "history.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    fates = []
    for count in range(2, len(lines) + 1):  # the first has no call yet
        path.write_bytes(b"".join(lines[:count]))
        place.ran.clear()
        loaded = await place.load()
        async with AgentRuntime(store=place.store, workspace=place.folder) as runtime:
            handle = runtime.spawn(loaded, coder, *place.parts("Out.", "Hello."))
            for question in loaded.open_questions:
                assert await handle.respond_permission(question.request_id, "allow")
            if loaded.unstarted:
                assert (await turn_of(handle))[-1].status is TurnStatus.COMPLETED
            assert (await handle.ask("hi")).status is TurnStatus.COMPLETED
        has_started = b"tools_started" in b"".join(lines[:count])
        fates.append((has_started, tuple(place.ran)))
        check_accepted(loaded.history)
    assert set(fates) == {(False, ("here",)), (True, ())}
    assert fates == sorted(fates)


def calls(*ids):
    return Message.assistant([ToolUseBlock(id_, "deploy", {"to": "here"}) for id_ in ids])


async def store_session(*ids, started=()):
    """A session whose process died when of these calls of its last reply some had started."""
    session = AgentSession.new("coder", store=InMemoryStore())
    session.add_message(Message.user("go"))
    session.add_message(calls(*ids))
    session.mark_tools_started(started)
    await session.save()
    return session


async def reload(session):
    return await AgentSession.load(session.session_id, store=session.store, keep_open=True)


async def test_a_call_that_had_started_is_answered_and_never_asked_again():
    session = await reload(await store_session("a", "b", "c", started=["b"]))
    assert [each.id for each in session.unstarted] == ["a", "c"]
    (result,) = session.history[-1].tool_results
    assert (result.tool_use_id, "outcome is unknown" in result.text) == ("b", True)
    seen = []

    async def agent(agent):
        async for message in agent.inputs():
            seen.append(message)
            async with agent.turn(message):
                pass
            return

    async with AgentRuntime(store=session.store) as runtime:
        await runtime.spawn(session, agent).wait(check=True)
    (resume,) = seen
    assert isinstance(resume, Resume)
    assert [each.id for each in resume.calls] == ["a", "c"]
    assert (resume.text, resume.content) == ("", ())
    check_accepted(session.history)


async def test_where_all_had_started_nothing_is_left_to_resume():
    session = await reload(await store_session("a", started=["a"]))
    assert session.unstarted == ()

    seen = []

    async def agent(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                seen.append(type(message))

    async with AgentRuntime(store=session.store) as runtime:
        handle = runtime.spawn(session, agent)
        await trio.testing.wait_all_tasks_blocked()
        await handle.ask("hi")
    assert seen == [UserInput]


async def test_an_agent_that_ends_without_going_on_leaves_them_open():
    session = await reload(await store_session("a"))

    async def agent(agent):
        await agent.receive()

    async def idle(agent):
        agent.session.set_metadata("seen", True)

    async def hang(agent):
        await agent.receive()
        await trio.sleep_forever()

    async with AgentRuntime(store=session.store) as runtime:
        for function in (idle, agent):
            await runtime.spawn(session, function).wait(check=True)
        handle = runtime.spawn(session, hang)
        await trio.testing.wait_all_tasks_blocked()
        handle.kill()
        assert (await handle.wait()).undelivered == ()
    assert [each.id for each in (await reload(session)).unstarted] == ["a"]


async def test_they_are_the_first_input_of_a_life_and_come_once():
    session = await reload(await store_session("a"))
    seen = []

    async def agent(agent):
        async for message in agent.inputs():
            seen.append((type(message), agent.session.unstarted))
            if len(seen) == 1:
                raise RuntimeError("before its turn")
            async with agent.turn(message):
                pass

    async with AgentRuntime(store=session.store) as runtime:
        supervisor = runtime.supervisor()
        handle = supervisor.spawn(session, agent, restart="transient")
        await turn_of(handle)
        assert (await handle.ask("hi")).status is TurnStatus.COMPLETED
    kinds = [kind.__name__ for kind, _ in seen]
    assert kinds == ["Resume", "Resume", "UserInput"]
    check_accepted(session.history)


@pytest.mark.parametrize("how", ["inputs", "receive"])
async def test_a_turn_of_calls_that_are_no_longer_open_is_refused(how):
    session = await reload(await store_session("a"))
    problems = []

    async def agent(agent):
        inputs = agent.inputs()
        resume = await (anext(inputs) if how == "inputs" else agent.receive())
        async with agent.turn(resume):
            pass
        before = agent.session.history
        with pytest.raises(TurnError, match="no longer open") as caught:
            async with agent.turn(resume):
                pass
        problems.append(caught.value.hint)
        assert agent.session.history == before

    async with AgentRuntime(store=session.store) as runtime:
        await runtime.spawn(session, agent).wait(check=True)
    assert problems


async def test_a_turn_that_is_interrupted_answers_them(place):
    await place.die(ONE)
    session = await place.load()
    async with AgentRuntime(store=place.store, workspace=place.folder) as runtime:
        handle = runtime.spawn(session, coder, *place.parts("Hello."))
        async with handle.subscribe("all", answers=True) as chunks:
            await next_request(chunks)
            report = await handle.interrupt()
            assert report.repaired == ("c1",)
            assert (await handle.ask("hi")).text == "Hello."
    assert [chunk.status async for chunk in chunks if isinstance(chunk, Done)] == [
        TurnStatus.INTERRUPTED,
        TurnStatus.COMPLETED,
    ]
    assert "interrupted: the call was not started" in session.history[2].tool_results[0].text
    check_accepted(session.history)
