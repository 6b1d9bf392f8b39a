"""What a call costs in a process of its own, against a thread and a bare process in the same run.

python benchmarks/isolation.py
"""

import statistics
import sys
import time
from collections.abc import Awaitable, Callable

import trio

from greenroom import AgentContext, ResourceMap, ToolRegistry, tool
from greenroom.tools import WorkerPool

COLD_ROUNDS = 10
WARM_ROUNDS = 500


@tool
def add(a: int, b: int) -> int:
    """Add in a thread."""
    return a + b


@tool(isolation="process")
def add_apart(a: int, b: int) -> int:
    """Add in a process."""
    return a + b


@tool(isolation="process")
def echo(text: str) -> str:
    """Return a text as it came."""
    return text


async def timed(run: Callable[[], Awaitable[object]]) -> float:
    begin = time.perf_counter()
    await run()
    return 1000 * (time.perf_counter() - begin)


async def main() -> None:
    tools = ToolRegistry([add, add_apart, echo])
    resources = ResourceMap()
    context = AgentContext(session_id="s", agent_type="t", resources=resources)

    async def call(name: str, **arguments: object) -> None:
        result = await tools.execute(name, arguments, context)
        assert not result.is_error

    async def bare() -> None:
        await trio.run_process([sys.executable, "-c", "pass"])

    async def importing() -> None:
        await trio.run_process([sys.executable, "-c", "import greenroom.tools, pydantic"])

    cold: dict[str, list[float]] = {}
    for _ in range(COLD_ROUNDS):
        pool = WorkerPool(size=1)
        resources.insert(pool)
        for name, run in (
            ("python -c pass", bare),
            ("python -c 'import greenroom.tools'", importing),
            ("first call in a process", lambda: call("add_apart", a=1, b=2)),
            ("end of the pool", pool.aclose),
        ):
            cold.setdefault(name, []).append(await timed(run))
    show(cold, "python -c pass")

    resources.insert(WorkerPool(size=1))
    await call("echo", text="warm")
    warm: dict[str, list[float]] = {}
    large = "x" * 1_000_000
    for _ in range(WARM_ROUNDS):
        for name, run in (
            ("bare thread of trio", lambda: trio.to_thread.run_sync(int)),
            ("call in a thread", lambda: call("add", a=1, b=2)),
            ("warm call in a process", lambda: call("add_apart", a=1, b=2)),
        ):
            warm.setdefault(name, []).append(await timed(run))
    for _ in range(20):
        warm.setdefault("the same, a megabyte both ways", []).append(
            await timed(lambda: call("echo", text=large))
        )
    show(warm, "call in a thread")
    pool = resources.get(WorkerPool)
    assert pool is not None
    await pool.aclose()


def show(times: dict[str, list[float]], floor: str) -> None:
    base = statistics.median(times[floor])
    for name, values in times.items():
        taken = statistics.median(values)
        print(f"{name:36} {taken:8.2f} ms  {taken / base:6.1f} × {floor}")
    print()


if __name__ == "__main__":
    trio.run(main)
