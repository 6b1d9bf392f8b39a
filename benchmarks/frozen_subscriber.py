"""One subscriber that stops reading: it costs no memory, slows nobody, and learns what it missed.

A million chunks go to two readers that read on, once with a third one that reads a single chunk and
freezes, once without it. Processor time is compared, since nothing here waits for anything, and so
what else the machine does counts less. Exits with 1 where a bound is broken.

python benchmarks/frozen_subscriber.py
"""

import resource
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import trio

from greenroom import (
    AgentHandle,
    AgentInternals,
    AgentRuntime,
    AgentSession,
    Exited,
    InMemoryStore,
    Lagged,
    RuntimeLimits,
    Subscription,
    TextDelta,
)

CHUNKS = 1_000_000
WARM_UP = 50_000
ROUNDS = 5
MAX_GROWTH = 5.0
"""Megabytes that the process may grow while the chunks flow."""
MAX_SLOWING = 1.10
"""How long it may take with the frozen subscriber, in proportion to without it."""


@dataclass
class Run:
    """What one run has shown; the seconds are of processor time."""

    seconds: float = 0.0
    growth: float = 0.0
    read: list[int] = field(default_factory=list)
    lagged: int = 0
    expected: int = 0


async def talk(agent: AgentInternals, run: Run) -> None:
    """Send the chunks; `send` is a checkpoint every 64."""
    await agent.receive()
    chunk = TextDelta("a word ")
    for _ in range(WARM_UP):
        await agent.send(chunk)
    before, begin = megabytes(), time.process_time()
    for _ in range(CHUNKS):
        await agent.send(chunk)
    run.seconds = time.process_time() - begin
    run.growth = megabytes() - before


async def read(chunks: Subscription, run: Run) -> None:
    count = 0
    async for chunk in chunks:
        if isinstance(chunk, Lagged):
            sys.exit(f"a reader that reads on has missed {chunk.missed} chunks")
        count += isinstance(chunk, TextDelta)
    run.read.append(count)


async def measure(frozen: bool) -> Run:
    run = Run()
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("talker"), talk, run)
        async with handle.subscribe("all") as sleeper:
            async with trio.open_nursery() as nursery:
                for _ in range(2):
                    nursery.start_soon(read, handle.subscribe("all"), run)
                await handle.send_input("go")
                if frozen:
                    await anext(sleeper)
            if frozen:
                await wake(handle, sleeper, run)
    return run


async def wake(handle: AgentHandle, sleeper: Subscription, run: Run) -> None:
    """Read on where it stopped: first the gap, then what the ring still holds, to the end."""
    statistics = await handle.statistics()
    run.expected = statistics.published - statistics.kept - 1
    chunk = await anext(sleeper)
    run.lagged = chunk.missed if isinstance(chunk, Lagged) else 0
    rest = [chunk async for chunk in sleeper]
    if len(rest) != statistics.kept or not isinstance(rest[-1], Exited):
        run.lagged = -1


def megabytes() -> float:
    """Return the memory that this process has now; away from Linux the most that it ever had."""
    pages = Path("/proc/self/statm")
    if pages.exists():
        return int(pages.read_text().split()[1]) * resource.getpagesize() / (1 << 20)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20) if sys.platform == "darwin" else peak / 1024


def main() -> None:
    first = trio.run(measure, False)
    pairs = [(trio.run(measure, True), trio.run(measure, False)) for _ in range(ROUNDS)]
    runs = [run for pair in pairs for run in pair]
    each = statistics.median(run.seconds for run in runs) / CHUNKS
    slowing = statistics.median(with_it.seconds / without.seconds for with_it, without in pairs)
    # The first run of all counts as well: what grows once, grows in it.
    growth = max(run.growth for run in [first, *runs])
    exact = all(with_it.lagged == with_it.expected > CHUNKS / 2 for with_it, _ in pairs)
    complete = all(run.read == [WARM_UP + CHUNKS] * 2 for run in runs)
    bound = RuntimeLimits().ring_chunks
    print(f"{CHUNKS} chunks to 2 readers, {1e6 * each:.2f} µs each; the ring holds {bound}")
    print(f"with a frozen subscriber    {slowing:5.2f} × without  (bound {MAX_SLOWING})")
    print(f"memory growth               {growth:5.2f} MB         (bound {MAX_GROWTH})")
    print(f"the others missed nothing   {complete}")
    print(f"it learned what it missed   {exact}, {pairs[0][0].lagged} chunks")
    if slowing > MAX_SLOWING or growth > MAX_GROWTH or not (complete and exact):
        sys.exit("a bound is broken")


if __name__ == "__main__":
    main()
