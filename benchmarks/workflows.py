"""Workflows of 1,000 nodes: one after the other, side by side, over a list, and as agents.

A function takes at most 2 ms of CPU per node, with each step on disk. An agent takes at most 1.4
times the event-loop passes and the CPU of one that is spawned by hand, although its beginning,
which it saves itself once it has started, and its result are saved. Exits with 1 if either takes
more.

python benchmarks/workflows.py
"""

import gc
import operator
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, TypedDict

import trio

from greenroom import AgentInternals, AgentRuntime, AgentSession, FileStore, InMemoryStore
from greenroom.flow import END, START, Workflow
from greenroom.session import SessionStore

COUNT = 1_000
AGENTS = 200
ROUNDS = 5
PAIRS = 15
MAX_MS = 2.0
MAX_RATIO = 1.6  # of passes: half a pass for an agent, whose life takes one


class Passes(trio.abc.Instrument):
    """Counts passes of the event loop."""

    def __init__(self) -> None:
        self.count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


class State(TypedDict, total=False):
    items: list[int]
    text: str
    done: Annotated[int, operator.add]


async def work(state: State) -> dict[str, object]:
    return {"done": 1}


async def work_on(state: State, item: int) -> dict[str, object]:
    return {"done": 1}


async def agent(internals: AgentInternals) -> None:
    async for message in internals.inputs():
        async with internals.turn(message) as turn:
            turn.set_result(1)


def chain() -> Workflow[State]:
    workflow = Workflow(State)
    names = [f"n{number}" for number in range(COUNT)]
    for name in names:
        workflow.node(name, work)
    for source, target in zip([START, *names], [*names, END], strict=True):
        workflow.edge(source, target)
    return workflow


def fan() -> Workflow[State]:
    workflow = Workflow(State)
    for number in range(COUNT):
        name = f"n{number}"
        workflow.node(name, work).edge(START, name).edge(name, END)
    return workflow


def mapped() -> Workflow[State]:
    workflow = Workflow(State).node("map", work_on).each("map", over="items", concurrency=10)
    return workflow.edge(START, "map").edge("map", END)


def agents() -> Workflow[State]:
    workflow = (
        Workflow(State).node("map", agent, output="done").each("map", "items", concurrency=10)
    )
    return workflow.edge(START, "map").edge("map", END)


async def run(workflow: Workflow[State], count: int, store: SessionStore | None) -> None:
    first: State = {"items": list(range(count)), "done": 0}
    done = await workflow.run(first, store=store, max_steps=count)
    assert done.state["done"] == count


async def by_hand(store: SessionStore | None) -> None:
    """Spawn as many agents, ten at a time, below one that waits for them."""

    async def lead(internals: AgentInternals) -> None:
        async def lane(count: int) -> None:
            for _ in range(count):
                handle = internals.spawn(AgentSession.new("node"), agent, report=False)
                await handle.ask("1")
                await handle.shutdown()

        async for message in internals.inputs():
            async with internals.turn(message), trio.open_nursery() as nursery:
                for _ in range(10):
                    nursery.start_soon(lane, AGENTS // 10)

    async with AgentRuntime(store or InMemoryStore()) as runtime:
        result = await runtime.spawn(AgentSession.new("lead"), lead).ask("Go.")
        assert result.error == ""


def cpu_ms(function: Callable[[], Awaitable[None]], count: int) -> float:
    """Return the least CPU time in ms per node: other programs can only add to it."""
    times = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        trio.run(function)
        times.append((time.process_time() - begun) / count * 1000)
    return min(times)


def compare() -> float:
    """Compare agents as a node with agents by hand, in turns; return the worse ratio."""
    ways = (partial(by_hand, None), partial(run, agents(), AGENTS, None))
    rounds = [[measure(way) for way in ways] for _ in range(PAIRS)]
    passes = [statistics.median(each[way][0] for each in rounds) for way in (0, 1)]
    ms = [min(each[way][1] for each in rounds) for way in (0, 1)]
    by_passes, by_ms = passes[1] / passes[0], ms[1] / ms[0]
    print(
        f"{AGENTS} agents as a node: {passes[1]:.0f} passes, {by_passes:.2f} times those by hand;"
        f" {ms[1]:.3f} ms of CPU each, {by_ms:.2f} times"
    )
    return max(by_passes, by_ms)


def measure(function: Callable[[], Awaitable[None]]) -> tuple[int, float]:
    """Return the passes of the event loop, and the CPU time in ms per agent."""
    passes = Passes()
    gc.collect()
    begun = time.process_time()
    trio.run(function, instruments=[passes])
    return passes.count, (time.process_time() - begun) / AGENTS * 1000


def main() -> int:
    is_slow = False
    with TemporaryDirectory() as folder:
        for name, make in (("in a row", chain), ("side by side", fan), ("over a list", mapped)):
            for where, store in (("memory", None), ("disk", FileStore(Path(folder) / name))):
                ms = cpu_ms(partial(run, make(), COUNT, store), COUNT)
                is_slow |= ms > MAX_MS
                print(f"{COUNT} nodes {name:13} in {where:6} {ms:6.3f} ms of CPU per node")
    return int(is_slow or compare() > MAX_RATIO)


if __name__ == "__main__":
    sys.exit(main())
