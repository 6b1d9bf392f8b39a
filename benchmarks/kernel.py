"""The kernel's own costs, each against a floor in bare trio measured in the same run.

python benchmarks/kernel.py
"""

import statistics
import time
from collections.abc import Awaitable, Callable

import trio

from greenroom import AgentInternals, AgentRuntime, AgentSession, InMemoryStore, TextDelta

ROUNDS = 5
AGENTS = 2_000
CHUNKS = 20_000
READERS = 10


async def idle(agent: AgentInternals) -> None:
    async for _ in agent.inputs():
        pass


async def spawn_agents() -> None:
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        for _ in range(AGENTS):
            runtime.spawn(AgentSession.new("idle"), idle)
        await trio.lowlevel.checkpoint()


async def spawn_tasks() -> None:
    """The floor: a task with two memory channels, as an agent by hand would have."""

    async def task(channel: trio.MemoryReceiveChannel[int]) -> None:
        async for _ in channel:
            pass

    async with trio.open_nursery() as nursery:
        ends = []
        for _ in range(AGENTS):
            send, receive = trio.open_memory_channel[int](64)
            ends.append((send, trio.open_memory_channel[int](64)))
            nursery.start_soon(task, receive)
        await trio.lowlevel.checkpoint()
        for send, _ in ends:
            send.close()


async def fan_out() -> None:
    async def talk(agent: AgentInternals) -> None:
        await agent.receive()
        for _ in range(CHUNKS):
            await agent.send(TextDelta("x"))

    async def read(chunks: object) -> None:
        async for _ in chunks:  # type: ignore[attr-defined]
            pass

    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("talker"), talk)
        async with trio.open_nursery() as nursery:
            for _ in range(READERS):
                nursery.start_soon(read, handle.subscribe("all"))
            await handle.send_input("go")


async def fan_out_channels() -> None:
    """The floor: one memory channel for each reader."""

    async def read(channel: trio.MemoryReceiveChannel[TextDelta]) -> None:
        async for _ in channel:
            pass

    async with trio.open_nursery() as nursery:
        ends = []
        for _ in range(READERS):
            send, receive = trio.open_memory_channel[TextDelta](64)
            ends.append(send)
            nursery.start_soon(read, receive)
        for _ in range(CHUNKS):
            for send in ends:
                await send.send(TextDelta("x"))
        for send in ends:
            send.close()


def measure(work: Callable[[], Awaitable[None]]) -> float:
    begin = time.perf_counter()
    trio.run(work)
    return time.perf_counter() - begin


def main() -> None:
    for label, count, ours, floor in (
        (f"spawn and end {AGENTS} agents", AGENTS, spawn_agents, spawn_tasks),
        (f"{CHUNKS} chunks to {READERS} readers", CHUNKS * READERS, fan_out, fan_out_channels),
    ):
        pairs = [(measure(ours), measure(floor)) for _ in range(ROUNDS)]
        each = statistics.median(mine for mine, _ in pairs) / count
        ratio = statistics.median(mine / bare for mine, bare in pairs)
        print(f"{label:36} {1e6 * each:8.2f} µs each  {ratio:5.2f} × floor")


if __name__ == "__main__":
    main()
