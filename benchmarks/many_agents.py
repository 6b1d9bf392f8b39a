"""Many agents in one process: what one costs, and how they end together.

10,000 idle agents are spawned and shut down at once, against bare trio tasks with two memory
channels each, in the same run; then 200 of 2,000 crash at once. Exits with 1 where a bound is
broken.

python benchmarks/many_agents.py
"""

import gc
import statistics
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio
from trio.testing import wait_all_tasks_blocked

from greenroom import AgentHandle, AgentInternals, AgentRuntime, AgentSession, InMemoryStore

AGENTS = 10_000
CROWD, CRASHES = 2_000, 200
ROUNDS = 5
MAX_RATIO = 15.0
"""How long an agent may take from its spawn to its end, in proportion to the floor."""
MAX_KILOBYTES = 18.0
"""What an idle agent may take."""


@dataclass
class Costs:
    """Seconds of one run, and what the process held while all were idle."""

    spawn: float = 0.0
    end: float = 0.0
    kilobytes: float = 0.0


async def idle(agent: AgentInternals) -> None:
    async for _ in agent.inputs():
        pass


async def agents(costs: Costs) -> None:
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        begin = time.perf_counter()
        handles = [runtime.spawn(AgentSession.new("idle"), idle) for _ in range(AGENTS)]
        await wait_all_tasks_blocked()
        costs.spawn = time.perf_counter() - begin
        costs.kilobytes = held()
        begin = time.perf_counter()
        await runtime.shutdown_all()
        costs.end = time.perf_counter() - begin
    outcomes = Counter([str((await handle.wait()).status) for handle in handles])
    if outcomes != {"completed": AGENTS}:
        sys.exit(f"of {AGENTS} idle agents: {outcomes}")


async def tasks(costs: Costs) -> None:
    """The floor: a task with two memory channels, as an agent by hand would have."""

    async def task(channel: trio.MemoryReceiveChannel[int]) -> None:
        async for _ in channel:
            pass

    async with trio.open_nursery() as nursery:
        begin = time.perf_counter()
        ends = []
        for _ in range(AGENTS):
            send, receive = trio.open_memory_channel[int](64)
            ends.append((send, trio.open_memory_channel[int](64)))
            nursery.start_soon(task, receive)
        await wait_all_tasks_blocked()
        costs.spawn = time.perf_counter() - begin
        costs.kilobytes = held()
        begin = time.perf_counter()
        for send, _ in ends:
            send.close()
    costs.end = time.perf_counter() - begin


def held() -> float:
    """Return kilobytes per agent, where they are traced."""
    return tracemalloc.get_traced_memory()[0] / 1024 / AGENTS if tracemalloc.is_tracing() else 0.0


async def crash_together(took: list[float]) -> None:
    async def agent_fn(agent: AgentInternals, crashes: bool) -> None:
        async for message in agent.inputs():
            if crashes:
                raise ValueError("on order")
            async with agent.turn(message):
                pass

    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handles = [
            runtime.spawn(AgentSession.new("one"), agent_fn, number < CRASHES)
            for number in range(CROWD)
        ]
        await wait_all_tasks_blocked()
        begin = time.perf_counter()
        for handle in handles[:CRASHES]:
            handle.send_input_nowait("crash")
        for handle in handles[:CRASHES]:
            await handle.wait()
        took.append(time.perf_counter() - begin)
        await check_crowd(runtime, handles)


async def check_crowd(runtime: AgentRuntime, handles: list[AgentHandle]) -> None:
    living = handles[CRASHES:]
    answers = Counter([str((await handle.ask("go on")).status) for handle in living])
    await runtime.shutdown_all()
    ends = Counter([str((await handle.wait()).status) for handle in handles])
    if answers != {"completed": CROWD - CRASHES} or ends["crashed"] != CRASHES:
        sys.exit(f"of {CROWD}, {CRASHES} of which crashed: {answers}, {ends}")


def measure(work: Callable[[Costs], Awaitable[None]]) -> Costs:
    gc.collect()
    costs = Costs()
    trio.run(work, costs)
    return costs


def main() -> None:
    pairs = [(measure(agents), measure(tasks)) for _ in range(ROUNDS)]
    for label, pick in (("spawn", lambda c: c.spawn), ("end", lambda c: c.end)):
        each = statistics.median(pick(ours) for ours, _ in pairs) / AGENTS
        ratio = statistics.median(pick(ours) / pick(floor) for ours, floor in pairs)
        print(f"{label} {AGENTS} idle agents: {1e6 * each:6.1f} µs each, {ratio:5.2f} × floor")
    whole = statistics.median((a.spawn + a.end) / (b.spawn + b.end) for a, b in pairs)
    print(f"from spawn to end:        {whole:16.2f} × floor  (bound {MAX_RATIO})")
    tracemalloc.start()
    ours, floor = measure(agents).kilobytes, measure(tasks).kilobytes
    tracemalloc.stop()
    print(f"memory of an idle agent:  {ours:6.1f} KB, {ours / floor:12.2f} × floor")
    took: list[float] = []
    for _ in range(ROUNDS):
        trio.run(crash_together, took)
    each = statistics.median(took) / CRASHES
    print(f"{CRASHES} of {CROWD} crash at once: {1e6 * each:6.1f} µs each; the others go on")
    if whole > MAX_RATIO or ours > MAX_KILOBYTES:
        sys.exit("a bound is broken")


if __name__ == "__main__":
    main()
