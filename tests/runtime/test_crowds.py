"""Crowds: very many chunks, very many agents, and every one of them accounted for."""

import gc
from collections import Counter

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.core import Exited, Lagged, TextDelta, TurnStatus
from greenroom.core._internal import EndStatus
from greenroom.resilience import Backoff
from greenroom.runtime import AgentRuntime, RuntimeLimits
from greenroom.session import AgentSession, InMemoryStore
from tests.conftest import few

COUNT = 10 * few(200)
CRASHED = COUNT // 10


@pytest.fixture(autouse=True)
def _no_collection():
    """Turn the collector off: looking through a crowd of objects would take most of the time."""
    gc.disable()
    yield
    gc.enable()


async def idle(agent):
    async for _ in agent.inputs():
        pass


@pytest.mark.parametrize("first", [1, 100])
async def test_a_frozen_reader_learns_exactly_what_it_missed_and_the_others_miss_nothing(first):
    chunks, kept = 20_000, 1024
    read = {}

    async def talk(agent):
        await agent.receive()
        for number in range(chunks):
            await agent.send(TextDelta(str(number)))

    async def read_on(name, subscription):
        texts = [chunk async for chunk in subscription if not isinstance(chunk, Exited)]
        read[name] = [chunk.text for chunk in texts if isinstance(chunk, TextDelta)]

    async with AgentRuntime(InMemoryStore(), RuntimeLimits(ring_chunks=kept)) as runtime:
        handle = runtime.spawn(AgentSession.new("talker"), talk)
        async with handle.subscribe("all") as frozen, trio.open_nursery() as nursery:
            for name in ("a", "b"):
                nursery.start_soon(read_on, name, handle.subscribe("all"))
            await handle.send_input("go")
            seen = [await anext(frozen) for _ in range(first)]
        published = (await handle.statistics()).published
        assert (await handle.statistics()).kept == kept
        lagged, *rest = [chunk async for chunk in frozen]
    assert read == {name: [str(n) for n in range(chunks)] for name in ("a", "b")}
    assert lagged == Lagged(published - kept - first)
    assert first + lagged.missed + len(rest) == published
    texts = [chunk.text for chunk in (*seen, *rest) if isinstance(chunk, TextDelta)]
    late = chunks - (len(texts) - sum(isinstance(chunk, TextDelta) for chunk in seen))
    assert texts[-1] == str(chunks - 1)
    assert [text for text in texts if int(text) >= late] == [str(n) for n in range(late, chunks)]


async def test_of_two_thousand_agents_two_hundred_crash_at_once_and_the_others_go_on(runtime):
    async def agent_fn(agent, number):
        async for message in agent.inputs():
            if number % 10 == 0:
                raise ValueError(f"number {number}")
            async with agent.turn(message):
                pass

    handles = [runtime.spawn(AgentSession.new("one"), agent_fn, n) for n in range(COUNT)]
    await wait_all_tasks_blocked()
    for handle in handles[::10]:
        handle.send_input_nowait("crash")
    await wait_all_tasks_blocked()
    assert len(runtime.list_active()) == COUNT - CRASHED
    for number in range(0, COUNT, 10):
        outcome = await handles[number].wait()
        assert (outcome.status, str(outcome.error)) == (EndStatus.CRASHED, f"number {number}")
    living = [handle for number, handle in enumerate(handles) if number % 10]
    statuses = Counter([(await handle.ask("go on")).status for handle in living])
    assert statuses == {TurnStatus.COMPLETED: COUNT - CRASHED}
    await runtime.shutdown_all()
    ends = Counter([(await handle.wait()).status for handle in handles])
    assert ends == {EndStatus.COMPLETED: COUNT - CRASHED, EndStatus.CRASHED: CRASHED}


async def test_of_two_thousand_supervised_agents_two_hundred_crash_at_once_and_come_back(runtime):
    lives, backoff = Counter(), Backoff(first=1.0, factor=1.0, jitter=0)

    async def agent_fn(agent, number):
        lives[number] += 1
        async for message in agent.inputs():
            async with agent.turn(message):
                if message.text == "crash":
                    raise ValueError(f"number {number}")
                await trio.sleep(0.5)

    supervisor = runtime.supervisor(intensity=CRASHED, period=60, backoff=backoff)
    handles = [
        supervisor.spawn(AgentSession.new("one"), agent_fn, number, restart="transient")
        for number in range(COUNT)
    ]
    await wait_all_tasks_blocked()
    for number, handle in enumerate(handles):
        handle.send_input_nowait("go on" if number % 10 else "crash")
    await trio.sleep(1.1)
    # The back-offs ran side by side, and no other agent was disturbed.
    assert lives == {number: 1 if number % 10 else 2 for number in range(COUNT)}
    turns = Counter([(await handle.statistics()).turns for handle in handles])
    assert turns == {1: COUNT}
    assert Counter([(await handle.ask("go on")).status for handle in handles[::10]]) == {
        TurnStatus.COMPLETED: CRASHED
    }
    await supervisor.shutdown()
    ends = Counter([(await handle.wait()).restarts for handle in handles])
    assert ends == {0: COUNT - CRASHED, 1: CRASHED}


async def test_of_two_thousand_subagents_two_hundred_crash_and_the_parent_hears_of_each():
    crashed, done = set(), trio.Event()

    async def child(agent, number):
        async for _ in agent.inputs():
            if number % 10 == 0:
                raise ValueError(number)

    async def parent(agent):
        handles = [agent.spawn(AgentSession.new("one"), child, n) for n in range(COUNT)]
        await wait_all_tasks_blocked()
        for handle in handles:
            handle.send_input_nowait("crash")
        async for result in agent.inputs():
            crashed.add((result.session_id, result.error))
            if len(crashed) == CRASHED:
                break
        expected = {(handles[n].session_id, f"ValueError: {n}") for n in range(0, COUNT, 10)}
        assert crashed == expected
        done.set()

    async with AgentRuntime(InMemoryStore(), RuntimeLimits(subagents=COUNT)) as runtime:
        handle = runtime.spawn(AgentSession.new("parent"), parent)
        await done.wait()
        assert (await handle.wait(check=True)).status is EndStatus.COMPLETED


async def test_two_thousand_idle_agents_shut_down_together_in_no_time(runtime):
    handles = [runtime.spawn(AgentSession.new("idle"), idle) for _ in range(COUNT)]
    await wait_all_tasks_blocked()
    assert len(runtime.list_active()) == COUNT
    before = trio.current_time()
    await runtime.shutdown_all()
    assert trio.current_time() == before
    assert runtime.list_active() == ()
    assert {(await handle.wait()).status for handle in handles} == {EndStatus.COMPLETED}
