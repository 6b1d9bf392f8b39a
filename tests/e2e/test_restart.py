"""Restarts of agents whose sessions lie on a disk."""

import trio

from greenroom.core import Message
from greenroom.resilience import Backoff
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, FileStore

QUICK = Backoff(first=0.001, jitter=0)


async def answers(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            if message.text == "crash":
                raise ValueError("broken")
            agent.session.add_message(Message.assistant(f"you said {message.text}"))


async def test_the_session_comes_back_note_included(tmp_path):
    store = FileStore(tmp_path)
    with trio.fail_after(60):
        async with AgentRuntime(store=store) as runtime:
            supervisor = runtime.supervisor(backoff=QUICK)
            session = AgentSession.new("worker")
            handle = supervisor.spawn(session, answers, restart="transient")
            await handle.ask("hello")
            await handle.ask("crash")
            assert (await handle.ask("still there")).text == "you said still there"
            stored = await AgentSession.load(handle.session_id, store=store)
    loaded = await AgentSession.load(handle.session_id, store=store)
    assert [message.text for message in loaded.history] == [
        "hello",
        "you said hello",
        "crash",
        "[The agent crashed: ValueError: broken; it was started again]",
        "still there",
        "you said still there",
    ]
    assert stored.history == loaded.history
    assert loaded.repair is None
