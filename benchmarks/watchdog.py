"""What the watchdog costs: a pass of the event loop, and a runtime's beginning and end.

python benchmarks/watchdog.py
"""

import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial

import trio

from greenroom import AgentRuntime, InMemoryStore, RuntimeLimits

ROUNDS = 7
PASSES = 50_000
RUNTIMES = 500


async def passes(watchdog: float | None) -> None:
    async with AgentRuntime(InMemoryStore(), RuntimeLimits(watchdog=watchdog)):
        for _ in range(PASSES):
            await trio.lowlevel.checkpoint()


async def runtimes(watchdog: float | None) -> None:
    for _ in range(RUNTIMES):
        async with AgentRuntime(InMemoryStore(), RuntimeLimits(watchdog=watchdog)):
            pass


def measure(work: Callable[[], Awaitable[None]]) -> float:
    begin = time.perf_counter()
    trio.run(work)
    return time.perf_counter() - begin


def main() -> None:
    """The floor is the same without a watchdog; a pass here does nothing else: the worst case."""
    for label, count, work in (
        ("a pass of the loop, one task", PASSES, passes),
        ("begin and end a runtime", RUNTIMES, runtimes),
    ):
        pairs = [(measure(partial(work, 1.0)), measure(partial(work, None))) for _ in range(ROUNDS)]
        more = statistics.median(mine - floor for mine, floor in pairs) / count
        ratio = statistics.median(mine / floor for mine, floor in pairs)
        print(f"{label:30} {1e6 * more:+8.2f} µs  {ratio:5.2f} × without")


if __name__ == "__main__":
    main()
