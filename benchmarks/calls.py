"""What a step, a delta, an idle agent and an import cost, in figures that hold on any machine.

python -m benchmarks.calls

- tool step: function calls of Python for a reply with one call, and that call, of a turn of
  `coder` with a store in memory and permissions on; the model is behind a socket (`exchange.py`).
- delta: the same for a piece of text, of 200 that arrive at once, to a reader who takes each.
- end: the same for an agent that waits for input, when the runtime ends all of its agents.
- idle agent: objects that the garbage collector knows, and bytes, of an agent that waits for input;
  64 of them mostly, one or two more where the addresses of context variables collide in the tree of
  a context.
- modules: imported by `from greenroom import AgentRuntime, AgentSession`.

The figures depend on Python and on a few libraries, so `FIGURES` has them for each minor version of
Python, under the versions in `KNOWN`; under others they are only printed. Exits with 1 where one is
more than 2 % higher, and says where one is lower: a change that lowers one writes it there. Each is
taken in a process of its own.
"""

import gc
import platform
import subprocess
import sys
import tracemalloc
from functools import partial
from importlib.metadata import version
from types import FrameType
from typing import Self

import trio
import trio.testing

from benchmarks.counts import LIMITS, in_order, look, step_answer
from benchmarks.exchange import served, text_answer
from greenroom import (
    AgentInternals,
    AgentRuntime,
    AgentSession,
    InMemoryStore,
    PermissionManager,
    PermissionRule,
    Subscription,
    ToolRegistry,
    coder,
)

KNOWN = {"trio": "0.35.0", "msgspec": "0.23.0", "orjson": "3.13.0"}
"""The libraries under which the figures were taken."""

FIGURES: dict[str, dict[str, float]] = {
    "3.11": {
        "calls of a tool step, anthropic": 1735,
        "calls of a tool step, openai": 1863,
        "calls of a delta, anthropic": 14.9,
        "calls of a delta, openai": 15.5,
        "calls of an idle agent's end": 98,
        "objects of an idle agent": 65,
        "bytes of an idle agent": 10800,
        "modules": 329,
    },
    "3.12": {
        "calls of a tool step, anthropic": 1675,
        "calls of a tool step, openai": 1804,
        "calls of a delta, anthropic": 14.9,
        "calls of a delta, openai": 15.5,
        "calls of an idle agent's end": 98,
        "objects of an idle agent": 65,
        "bytes of an idle agent": 10650,
        "modules": 330,
    },
    "3.13": {
        "calls of a tool step, anthropic": 1662,
        "calls of a tool step, openai": 1788,
        "calls of a delta, anthropic": 14.9,
        "calls of a delta, openai": 15.5,
        "calls of an idle agent's end": 98,
        "objects of an idle agent": 65,
        "bytes of an idle agent": 10800,
        "modules": 333,
    },
}
"""By the minor version of Python."""

SLACK = 0.02
AGENTS = 300


class Calls:
    """Counts the function calls of this thread while it is entered."""

    count = 0

    def __enter__(self) -> Self:
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_exit: object) -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and not frame.f_code.co_filename.endswith("exchange.py"):  # the server
            self.count += 1


async def count_turn(dialect: str, answer: partial[bytes], *, reads: bool) -> int:
    """Count the calls of the third turn of an agent; by then all has been loaded and made."""
    async with served(dialect, answer) as model:
        permissions = PermissionManager([PermissionRule.allow_tool("look")])
        arguments = model, ToolRegistry([look]), permissions
        async with AgentRuntime(InMemoryStore(), limits=LIMITS) as runtime:
            handle = runtime.spawn(AgentSession.new("coder"), coder, *arguments)
            async with trio.open_nursery() as nursery:
                if reads:
                    nursery.start_soon(read, handle.subscribe("all"))
                for _ in range(2):
                    await handle.ask("go")
                await trio.testing.wait_all_tasks_blocked()
                with Calls() as calls:
                    await handle.ask("go")
                nursery.cancel_scope.cancel()
    return calls.count


async def read(chunks: Subscription) -> None:
    async for _ in chunks:
        pass


def count_step(dialect: str) -> float:
    short, long = (
        trio.run(partial(count_turn, dialect, partial(step_answer, dialect, steps), reads=False))
        for steps in (10, 20)
    )
    return (long - short) / 10


def count_delta(dialect: str) -> float:
    short, long = (
        trio.run(partial(count_turn, dialect, partial(deltas, dialect, count), reads=True))
        for count in (200, 400)
    )
    return (long - short) / 200


def deltas(dialect: str, count: int, _replies: int) -> bytes:
    return text_answer(dialect, count)


async def idle(agent: AgentInternals) -> None:
    async for _ in agent.inputs():
        pass


async def end_crowd(agents: int) -> int:
    """Count the calls that end so many idle agents at once."""
    async with AgentRuntime(InMemoryStore(), limits=LIMITS) as runtime:
        for _ in range(agents):
            runtime.spawn(AgentSession.new("idle"), idle)
        await trio.testing.wait_all_tasks_blocked()
        with Calls() as calls:
            await runtime.shutdown_all()
    return calls.count


def count_end() -> float:
    short, long = (trio.run(end_crowd, agents) for agents in (AGENTS, 2 * AGENTS))
    return (long - short) / AGENTS


async def crowd(*, traced: bool) -> float:
    """Return what an idle agent takes, in bytes or in objects."""

    def held() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0] if traced else len(gc.get_objects())

    async with AgentRuntime(InMemoryStore(), limits=LIMITS) as runtime:
        warm = [runtime.spawn(AgentSession.new("idle"), idle) for _ in range(10)]
        await trio.testing.wait_all_tasks_blocked()
        before = held()
        handles = [runtime.spawn(AgentSession.new("idle"), idle) for _ in range(AGENTS)]
        await trio.testing.wait_all_tasks_blocked()
        each = (held() - before) / AGENTS
        assert len(warm) + len(handles) == AGENTS + 10
    return each


def weigh_agent(*, traced: bool) -> float:
    if traced:
        tracemalloc.start()
    return trio.run(partial(crowd, traced=traced))


def count_modules() -> float:
    """Count them in a process of its own: this one has imported more."""
    code = (
        "import sys; before = len(sys.modules); from greenroom import AgentRuntime, AgentSession; "
        "print(len(sys.modules) - before)"
    )
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(run.stdout)


ROWS = {
    "calls of a tool step, anthropic": partial(count_step, "anthropic"),
    "calls of a tool step, openai": partial(count_step, "openai"),
    "calls of a delta, anthropic": partial(count_delta, "anthropic"),
    "calls of a delta, openai": partial(count_delta, "openai"),
    "calls of an idle agent's end": count_end,
    "objects of an idle agent": partial(weigh_agent, traced=False),
    "bytes of an idle agent": partial(weigh_agent, traced=True),
    "modules": count_modules,
}


def measure(name: str) -> float:
    """Take one figure in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.calls", name]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(run.stdout)


def find_figures() -> dict[str, float]:
    """Return the figures of this Python, or none where a library is another one."""
    if any(version(library) != known for library, known in KNOWN.items()):
        return {}
    return FIGURES.get(".".join(platform.python_version_tuple()[:2]), {})


def main() -> int:
    if len(sys.argv) > 1:
        with in_order():
            print(ROWS[sys.argv[1]]())
        return 0
    figures, has_more = find_figures(), False
    for name in ROWS:
        found = measure(name)
        known = figures.get(name, found)
        is_more = found > known * (1 + SLACK)
        has_more |= is_more
        word = "MORE than" if is_more else "fewer than" if found < known * (1 - SLACK) else ""
        print(f"{name:34}{found:10.1f}", f"{word} {known:g}" if word else "")
    return int(has_more)


if __name__ == "__main__":
    sys.exit(main())
