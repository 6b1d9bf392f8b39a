"""The workloads, for a framework that says how it makes an agent, runs it, and streams a text."""

import asyncio
from collections.abc import Awaitable, Callable

from benchmarks.sample import Meter
from benchmarks.sizes import BURSTS, CROWD, CROWD_STEPS, DELTAS, RUNS, STEPS

Run = Callable[[], Awaitable[object]]
"""Runs an agent once, with a tool `look`; or reads a text, and returns how many deltas it had."""

seen: list[str] = []
"""The calls of `look`."""


def look(label: str) -> str:
    """Look at something."""
    seen.append(label)
    return label


async def run_steps(meter: Meter, run: Run) -> None:
    for number in range(RUNS + 1):
        if number == 1:
            seen.clear()
            meter.begin()
        await run()
    meter.end(RUNS * STEPS)
    assert len(seen) == RUNS * STEPS, len(seen)


async def read_bursts(meter: Meter, read: Run) -> None:
    for number in range(BURSTS + 1):
        if number == 1:
            meter.begin()
        assert await read() == DELTAS
    meter.end(BURSTS * DELTAS)


async def run_crowd(meter: Meter, run: Run) -> None:
    await run()
    seen.clear()
    meter.begin()
    async with asyncio.TaskGroup() as group:
        for _ in range(CROWD):
            group.create_task(run())  # type: ignore[arg-type]
    meter.end(CROWD)
    assert len(seen) == CROWD * CROWD_STEPS, len(seen)


def steps_url(url: str) -> str:
    return f"{url}/steps-{STEPS}/v1"


def crowd_url(url: str) -> str:
    return f"{url}/steps-{CROWD_STEPS}/v1"


def burst_url(url: str) -> str:
    return f"{url}/burst-{DELTAS}/v1"
