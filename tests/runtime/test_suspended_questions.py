"""A question that a turn's own code asks outlives the process, like one about a call."""

import pytest

from greenroom.core import Message, PermissionRequest, Resume, TurnStatus
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore

SEEN = []


@pytest.fixture(autouse=True)
def seen():
    SEEN.clear()
    return SEEN


async def asker(agent):
    """Ask twice in each turn; the second question depends on the first answer."""
    async for message in agent.inputs():
        async with agent.turn(message):
            SEEN.append((type(message).__name__, getattr(message, "cut_off", "")))
            for what in ("build", "deploy"):
                answer = await agent.request_permission("Ship", what, input={"what": [what]})
                SEEN.append((what, str(answer.decision), answer.by))
            agent.session.add_message(Message.assistant("done"))


async def load(session, **options):
    return await AgentSession.load(session.session_id, store=session.store, **options)


async def suspend(agent=asker, said="go"):
    """Run a turn that waits for an answer which nobody can give."""
    session = AgentSession.new("asker", store=InMemoryStore())
    async with AgentRuntime(session.store) as runtime:
        handle = runtime.spawn(session, agent, unattended="suspend")
        receipt = await handle.send_input(said)
        result = await handle.answer(receipt)
        assert result.status is TurnStatus.WAITING
        assert [each.action for each in await handle.pending()] in ([], ["build"])
    return session, receipt


async def resume(session, answers, agent=asker, **spawning):
    """Go on with a session, allowing ahead what is named; return how its turn ends."""
    loaded = await load(session, keep_open=True)
    async with AgentRuntime(session.store) as runtime:
        handle = runtime.spawn(loaded, agent, unattended="suspend", **spawning)
        for question in loaded.open_questions:
            if question.request.action in answers:
                assert await handle.respond_permission(question.request_id, "allow")
                assert not await handle.respond_permission(question.request_id, "deny")
        chunks = [chunk async for chunk in handle.stream()]
    return chunks[-1]


async def test_it_is_asked_again_and_an_answer_ahead_resumes_the_turn():
    session, receipt = await suspend()
    loaded = await load(session, keep_open=True)
    [question] = loaded.open_questions
    assert (question.tool_use_id, question.request.action) == ("", "build")
    assert loaded.cut_off == receipt.input_id
    SEEN.clear()
    done = await resume(session, {"build"})
    assert done.status is TurnStatus.WAITING  # at the second question, which nobody has answered
    assert [("Resume", receipt.input_id), ("build", "allow", "user")] == SEEN
    # The first is answered for good, as far as it is asked: the loop asks both again.
    [question] = (await load(session, keep_open=True)).open_questions
    assert question.request.action == "deploy"


async def test_a_turn_that_keeps_what_it_was_told_ends():
    async def shipper(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                for what in ("build", "deploy"):
                    if agent.session.last_record(what) is None:
                        answer = await agent.request_permission("Ship", what)
                        agent.session.add_record(what, str(answer.decision))
                agent.session.add_message(Message.assistant("done"))

    session, receipt = await suspend(shipper)
    assert (await resume(session, {"build"}, shipper)).status is TurnStatus.WAITING
    done = await resume(session, {"deploy"}, shipper)
    assert (done.status, receipt.input_id in done.inputs) == (TurnStatus.COMPLETED, True)
    loaded = await load(session, keep_open=True)
    assert (loaded.open_questions, loaded.cut_off) == ((), None)


async def test_another_input_leaves_it_behind():
    session, _ = await suspend()
    loaded = await load(session, keep_open=True)
    async with AgentRuntime(session.store) as runtime:
        handle = runtime.spawn(loaded, asker, unattended="deny")
        [question] = loaded.open_questions
        receipt = handle.send_input_nowait("something else")
        await handle.answer(receipt)
        assert not await handle.respond_permission(question.request_id, "allow")
    denied = [(what, "deny", "unattended") for what in ("build", "deploy")]
    assert [("UserInput", ""), *denied] == SEEN[-3:]
    assert (await load(session, keep_open=True)).open_questions == ()


async def test_one_that_has_changed_is_asked_anew():
    async def asks(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                details = "again" if isinstance(message, Resume) else "first"
                answer = await agent.request_permission("Ship", "build", details=details)
                SEEN.append(answer.by)

    session, _ = await suspend(asks)
    assert (await resume(session, {"build"}, asks)).status is TurnStatus.WAITING
    assert SEEN == []


async def test_only_keep_open_leaves_it_open():
    session, _ = await suspend()
    assert (await load(session)).open_questions == ()


async def test_an_interrupt_closes_it():
    session = AgentSession.new("asker", store=InMemoryStore())
    async with AgentRuntime(session.store) as runtime:
        handle = runtime.spawn(session, asker)
        async with handle.subscribe(answers=True) as chunks:
            handle.send_input_nowait("go")
            async for chunk in chunks:
                if isinstance(chunk, PermissionRequest):
                    break
            stored = await load(session, keep_open=True)
            assert len(stored.open_questions) == 1  # what a kill would leave
            await handle.interrupt()
    assert (await load(session, keep_open=True)).open_questions == ()
