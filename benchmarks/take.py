"""What it costs to read chunks in batches, in proportion to reading them one by one.

A burst of 256 chunks waits for a reader, which reads it with `async for` or with one `take`. Only
the reading is timed. Exits with 1 where a batch costs more than a tenth.

python benchmarks/take.py
"""

import statistics
import sys
import time
from collections.abc import Awaitable, Callable

import trio
import trio.testing

from greenroom import (
    AgentInternals,
    AgentRuntime,
    AgentSession,
    InMemoryStore,
    RuntimeLimits,
    Subscription,
    TextDelta,
)

BURST = 256
ROUNDS = 400
MOST = 0.1
"""The most that a batch may cost, in proportion to single reads."""


async def talk(agent: AgentInternals) -> None:
    chunk = TextDelta("a word ")
    async for _ in agent.inputs():
        for _ in range(BURST):
            agent.send_nowait(chunk)


async def one_by_one(chunks: Subscription) -> None:
    for _ in range(BURST):
        await anext(chunks)


async def at_once(chunks: Subscription) -> None:
    if len(await chunks.take(BURST)) != BURST:
        sys.exit("a batch is not whole")


async def measure(read: Callable[[Subscription], Awaitable[None]]) -> float:
    """Return the seconds that the reading of one burst takes, the median."""
    times = []
    limits = RuntimeLimits(watchdog=None)
    async with AgentRuntime(InMemoryStore(), limits=limits) as runtime:
        handle = runtime.spawn(AgentSession.new("talker"), talk)
        for _ in range(ROUNDS):
            await trio.testing.wait_all_tasks_blocked()
            async with handle.subscribe("none") as chunks:
                await handle.send_input("go")
                await trio.testing.wait_all_tasks_blocked()
                begin = time.perf_counter()
                await read(chunks)
                times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main() -> None:
    single, batch = trio.run(measure, one_by_one), trio.run(measure, at_once)
    share = batch / single
    print(f"{BURST} chunks one by one  {1e6 * single:8.1f} µs")
    print(f"{BURST} chunks with take   {1e6 * batch:8.1f} µs")
    print(f"share                  {share:8.3f}     (bound {MOST})")
    if share > MOST:
        sys.exit("a bound is broken")


if __name__ == "__main__":
    main()
