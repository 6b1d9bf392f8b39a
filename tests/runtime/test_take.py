"""`take`: what is there, at once; the same chunks as one by one."""

import random

import pytest
import trio
from hypothesis import given, strategies as st
from trio.testing import wait_all_tasks_blocked

from greenroom.core import Exited, Lagged, TextDelta
from greenroom.core._internal import EndStatus
from greenroom.runtime import AgentRuntime, RuntimeLimits
from greenroom.session import AgentSession, InMemoryStore


async def counting(agent, bursts):
    """Send bursts of numbered chunks."""
    number = 0
    async for _ in agent.inputs():
        for burst in bursts:
            for _ in range(burst):
                agent.send_nowait(TextDelta(str(number)))
                number += 1
            await trio.lowlevel.checkpoint()
        return


async def one_by_one(chunks, pause, _):
    async for chunk in chunks:
        yield [chunk]
        await pause()


async def taken(chunks, pause, chance):
    """Mix `take` of many sizes with single reads."""
    while True:
        if chance.random() < 0.3:
            try:
                found = [await anext(chunks)]
            except StopAsyncIteration:
                return
        else:
            most = chance.randint(1, 20)
            if not (found := await chunks.take(most)):
                return
            assert len(found) <= most
        yield found
        await pause()


def numbers(chunks):
    """Lay out what was read: each number, None for each that was missed, and the end."""
    laid = []
    for chunk in chunks:
        if isinstance(chunk, Lagged):
            laid += [None] * chunk.missed
        elif isinstance(chunk, TextDelta):
            laid.append(int(chunk.text))
        elif isinstance(chunk, Exited):
            laid.append(chunk.status)
        else:
            laid.append(None)
    return laid


@given(st.lists(st.integers(0, 30), max_size=8), st.integers(3, 40), st.integers(0, 99))
def test_any_mix_of_take_and_single_reads_gives_each_chunk_once_and_in_order(bursts, kept, seed):
    async def main():
        async def follow(reading, pauses):
            chance, found = random.Random(seed), []

            async def pause():
                for _ in range(chance.randint(0, pauses)):
                    await trio.lowlevel.checkpoint()

            async with handle.subscribe("all") as chunks:
                async for some in reading(chunks, pause, chance):
                    found += some
            results.append(numbers(found))

        results = []
        limits = RuntimeLimits(ring_chunks=kept)
        async with AgentRuntime(InMemoryStore(), limits=limits) as runtime:
            handle = runtime.spawn(AgentSession.new("counter"), counting, bursts)
            async with trio.open_nursery() as nursery:
                for pauses in (0, 3):
                    nursery.start_soon(follow, taken, pauses)
                    nursery.start_soon(follow, one_by_one, pauses)
                await handle.send_input("go")
        for place in zip(*results, strict=True):
            assert len({*place} - {None}) <= 1  # each reader has lost others
        assert {each[-1] for each in results} == {EndStatus.COMPLETED}

    trio.run(main)


async def test_a_cancelled_take_loses_nothing(runtime):
    async def silent(agent):
        await agent.receive()
        for number in range(100):
            agent.send_nowait(TextDelta(str(number)))
        await agent.receive()

    handle = runtime.spawn(AgentSession.new("silent"), silent)
    async with handle.subscribe("none") as chunks:
        for _ in range(70):  # a read that yields is among them
            with trio.CancelScope() as scope:
                scope.cancel()
                await chunks.take()
            assert scope.cancelled_caught
        with trio.move_on_after(0):
            await chunks.take()
        await handle.send_input("go")
        await wait_all_tasks_blocked()
        with trio.CancelScope() as scope:
            scope.cancel()
            await chunks.take()
        found = await chunks.take(most=1000)
        assert [c.text for c in found if isinstance(c, TextDelta)] == [str(n) for n in range(100)]
        await handle.shutdown()
        while found := await chunks.take():
            last = found[-1]
        assert isinstance(last, Exited)
        assert await chunks.take() == []


async def test_a_take_of_nothing_is_refused(runtime):
    async def silent(agent):
        await agent.receive()

    handle = runtime.spawn(AgentSession.new("silent"), silent)
    with pytest.raises(ValueError, match="1 or more"):
        await handle.subscribe().take(0)
