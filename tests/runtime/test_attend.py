"""`handle.attend()`: an answerer that reads nothing, in whose seat a question waits."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.core import TurnStatus
from greenroom.core._internal import EventLoopError
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore


async def asks(agent, answers):
    async for message in agent.inputs():
        async with agent.turn(message):
            answers.append(await agent.request_permission("Bash", message.text))


async def spawn(runtime, answers, **options):
    handle = runtime.spawn(AgentSession.new("worker"), asks, answers, **options)
    await handle.send_input("ls")
    await wait_all_tasks_blocked()
    return handle


async def test_a_reader_that_loses_its_connection_for_5_s_answers_afterwards(runtime):
    answers = []
    handle = await spawn(runtime, answers)
    async with handle.attend():
        async with handle.subscribe(answers=True) as chunks:
            position = chunks.position
        await trio.sleep(5)
        assert answers == []
        async with handle.subscribe(position, answers=True) as chunks:
            [request] = await handle.pending()
            assert await handle.respond_permission(request.request_id, "allow")
            await wait_all_tasks_blocked()
    assert [answer.allowed for answer in answers] == [True]


async def test_the_last_attender_that_leaves_ends_the_question(runtime):
    answers = []
    handle = await spawn(runtime, answers)
    async with handle.attend():
        async with handle.attend():
            pass
        await wait_all_tasks_blocked()
        assert answers == []
    await wait_all_tasks_blocked()
    assert [answer.by for answer in answers] == ["unattended"]


async def test_a_question_waits_for_an_attender_of_an_agent_that_would_deny_or_suspend(runtime):
    for unattended in ("deny", "suspend"):
        answers = []
        handle = runtime.spawn(AgentSession.new("worker"), asks, answers, unattended=unattended)
        async with trio.open_nursery() as nursery:
            results = []

            async def ask(handle=handle, results=results):
                results.append(await handle.ask("ls"))

            async with handle.attend():
                nursery.start_soon(ask)
                await wait_all_tasks_blocked()
                assert len(await handle.pending()) == 1
        status = {"deny": TurnStatus.COMPLETED, "suspend": TurnStatus.WAITING}[unattended]
        assert results[0].status is status


async def test_who_attends_the_root_attends_what_is_below(runtime):
    answers = []

    async def parent(agent):
        child = agent.spawn(
            AgentSession.new_subagent("child", agent.session.session_id), asks, answers
        )
        await child.send_input("ls")
        await trio.sleep_forever()

    root = runtime.spawn(AgentSession.new("parent"), parent, unattended="deny")
    async with root.attend():
        await wait_all_tasks_blocked()
        [request] = await root.pending()
        assert await root.respond_permission(request.request_id, "deny")
        await wait_all_tasks_blocked()
    assert [answer.by for answer in answers] == ["user"]


async def test_an_error_or_a_cancel_in_the_block_frees_the_seat(runtime):
    answers = []
    handle = await spawn(runtime, answers)
    with trio.move_on_after(1):
        async with handle.attend():
            await trio.sleep_forever()
    await wait_all_tasks_blocked()
    assert [answer.by for answer in answers] == ["unattended"]


def test_it_belongs_to_the_event_loop_of_its_runtime():
    async def main():
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            handle = runtime.spawn(AgentSession.new("worker"), asks, [])
            await trio.to_thread.run_sync(trio.run, elsewhere, handle)

    async def elsewhere(handle):
        with pytest.raises(EventLoopError, match=r"attend\(\)"):
            async with handle.attend():
                pass

    trio.run(main)
