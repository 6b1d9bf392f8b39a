"""What a step costs, in counts that do not depend on the machine, in memory and in files.

python -m benchmarks.counts

- passes: of the event loop.
- steps: of tasks, so how often one was resumed.
- tasks: started.
- scopes: cancel scopes entered, those of nurseries and those that trio enters itself included.
- hops: calls of `trio.to_thread.run_sync`, of a store's threads, and of `trio.from_thread` back.
- syncs: calls of `os.fsync` and `os.fdatasync`, in all threads.

Each operation runs before it is counted, then several times, and the counts are per operation. The
watchdog is off, models are scripted, and a tool is an async function that returns at once. The
tasks of a pass are resumed in the order in which they were started, not in a random one, so that
all counts in memory are the same each time.

- answer: a turn of `coder` whose reply is text.
- tool step: what a turn of `coder` takes more for a reply with one call, and that call.
- five calls: the same for a reply with five calls that run side by side.
- anthropic, openai: the tool step with a model behind a socket (`exchange.py`).
- subagent: an agent spawns another one, asks it, and shuts it down.
- agent: `runtime.spawn`, and `shutdown` of an agent that waits for its input.
- 100 chunks: `agent.send` of each to three readers, and their reading.
- interrupt: of a turn that sleeps.

Exits with 1 where a count is higher than the one in `COUNTS`, and says where one is lower: a change
that lowers one writes it there. `calls.py` has the function calls, objects, bytes and modules, and
`spans.py` what watching costs.
"""

import os
import random
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps

import trio
import trio.testing

from benchmarks.exchange import call_answer, served, text_answer
from greenroom import (
    AgentHandle,
    AgentInternals,
    AgentRuntime,
    AgentSession,
    FileStore,
    InMemoryStore,
    PermissionManager,
    PermissionRule,
    RuntimeLimits,
    SessionStore,
    Subscription,
    TextComplete,
    TextDelta,
    ToolRegistry,
    coder,
    tool,
)
from greenroom.fs import loop_writes
from greenroom.llm import LLMProvider
from greenroom.testing import Reply, ScriptedProvider, call
from greenroom.threads._internal import SharedThreads

NAMES = ("passes", "steps", "tasks", "scopes", "hops", "syncs")
TIMES = 10
CALLS = 5  # side by side
ONCE = 0.15  # what a session does a single time, such as the warning of an unknown window
LIMITS = RuntimeLimits(watchdog=None)

Counts = tuple[float, ...]
COUNTS: dict[tuple[str, str], Counts] = {
    ("answer", "memory"): (17, 18, 0, 3, 0, 0),
    ("tool step", "memory"): (14.01, 14.01, 0, 1, 0, 0),
    ("five calls", "memory"): (40.09, 44.09, 5, 6, 0, 0),
    ("anthropic", "memory"): (2.01, 2.01, 0, 2, 0, 0),
    ("openai", "memory"): (2.01, 2.01, 0, 2, 0, 0),
    ("subagent", "memory"): (13, 16, 2, 5, 0, 0),
    ("agent", "memory"): (7, 8, 2, 1, 0, 0),
    ("100 chunks", "memory"): (4.6, 13.4, 0, 2, 0, 0),
    ("interrupt", "memory"): (6, 8, 0, 3, 0, 0),
    ("answer", "files"): (19, 20, 0, 3, 1, 1),
    ("tool step", "files"): (16.01, 16.01, 0, 1, 1, 1),
    ("five calls", "files"): (42.11, 46.11, 5, 6, 1.01, 1.01),
    ("anthropic", "files"): (4.01, 4.01, 0, 2, 1, 1),
    ("openai", "files"): (4.01, 4.01, 0, 2, 1, 1),
    ("subagent", "files"): (26, 29, 2, 6, 7, 8),
    ("agent", "files"): (14, 15, 2, 2, 3, 0),
    ("100 chunks", "files"): (7.3, 18.4, 0, 2, 1, 1),
    ("interrupt", "files"): (8, 10, 0, 3, 1, 1),
}
"""What each operation takes. In files, threads end when they do, and passes are bounds."""

EXACT = {"answer", "tool step", "five calls", "subagent", "agent", "100 chunks", "interrupt"}
"""In memory, they take that and not less. The others are bounds: a model's stream is in them."""


class Counter(trio.abc.Instrument):
    """Counts what this process does from here on; there is one in a process."""

    def __init__(self, patch: Callable[[object, str, object], None] = setattr) -> None:
        self.counts = dict.fromkeys(NAMES, 0)
        self._patch = patch
        # A write that the machine holds up would send the next ones to threads.
        patch(loop_writes, "SLOW", float("inf"))
        self._wrap(trio.CancelScope, "__enter__", "scopes")
        self._wrap(trio.to_thread, "run_sync", "hops")
        self._wrap(SharedThreads, "run", "hops")
        for function in ("run", "run_sync"):
            self._wrap(trio.from_thread, function, "hops")
        for function in ("fsync", "fdatasync"):
            self._wrap(os, function, "syncs")

    def _wrap(self, owner: object, name: str, kind: str) -> None:
        function: Callable[..., object] = getattr(owner, name)

        @wraps(function)
        def counted(*args: object, **kwargs: object) -> object:
            self.counts[kind] += 1
            return function(*args, **kwargs)

        self._patch(owner, name, counted)

    def now(self) -> Counts:
        return tuple(self.counts.values())

    def after_io_wait(self, timeout: float) -> None:
        self.counts["passes"] += 1

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.counts["steps"] += 1

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        self.counts["tasks"] += 1


Operation = Callable[[], Awaitable[object]]


async def measure(counter: Counter, operation: Operation, times: int = TIMES) -> Counts:
    """Return the counts of one operation, the mean of several."""
    await operation()
    await trio.testing.wait_all_tasks_blocked()
    before = counter.now()
    for _ in range(times):
        await operation()
    return tuple((b - a) / times for a, b in zip(before, counter.now(), strict=True))


@tool(category="read", concurrent=True)
async def look(label: str) -> str:
    """Look at something."""
    return label


async def turn_of(counter: Counter, store: SessionStore, model: LLMProvider) -> Counts:
    """Count turns of the coder with this model."""
    permissions = PermissionManager([PermissionRule.allow_tool("look")])
    arguments = model, ToolRegistry([look]), permissions
    async with AgentRuntime(store, limits=LIMITS) as runtime:
        handle = runtime.spawn(AgentSession.new("coder"), coder, *arguments)
        return await measure(counter, partial(handle.ask, "go"))


async def scripted_turn(counter: Counter, store: SessionStore, *replies: object) -> Counts:
    return await turn_of(counter, store, ScriptedProvider(*replies * (TIMES + 1)))


async def answer(counter: Counter, store: SessionStore) -> Counts:
    return await scripted_turn(counter, store, "done")


async def tool_step(counter: Counter, store: SessionStore, calls: int = 1) -> Counts:
    reply = Reply([call("look", label=str(number)) for number in range(calls)])
    short = await scripted_turn(counter, store, reply, "done")
    long = await scripted_turn(counter, store, *[reply] * 11, "done")
    return tuple((b - a) / 10 for a, b in zip(short, long, strict=True))


async def exchanged_step(dialect: str, counter: Counter, store: SessionStore) -> Counts:
    counts: list[Counts] = []
    for steps in (1, 11):
        async with served(dialect, partial(step_answer, dialect, steps)) as model:
            counts.append(await turn_of(counter, store, model))
    return tuple((b - a) / 10 for a, b in zip(*counts, strict=True))


def step_answer(dialect: str, steps: int, replies: int) -> bytes:
    """Answer with a call, and after so many of them in a turn with a text."""
    if replies % (steps + 1) == steps:
        return text_answer(dialect, 3)
    return call_answer(dialect, replies)


async def echo(agent: AgentInternals) -> None:
    async for message in agent.inputs():
        async with agent.turn(message):
            await agent.send(TextComplete(message.text))


async def subagent(counter: Counter, store: SessionStore) -> Counts:
    async def parent(agent: AgentInternals) -> None:
        async for message in agent.inputs():
            async with agent.turn(message):
                handle = agent.spawn(AgentSession.new("echo"), echo)
                await handle.ask("hello")
                await handle.shutdown()

    async with AgentRuntime(store, limits=LIMITS) as runtime:
        handle = runtime.spawn(AgentSession.new("parent"), parent)
        return await measure(counter, partial(handle.ask, "go"))


async def agent(counter: Counter, store: SessionStore) -> Counts:
    begun = trio.Event()

    async def wait(agent: AgentInternals) -> None:
        begun.set()
        await agent.receive()

    async with AgentRuntime(store, limits=LIMITS) as runtime:

        async def live() -> None:
            nonlocal begun
            begun = trio.Event()
            handle = runtime.spawn(AgentSession.new("agent"), wait)
            await begun.wait()
            await handle.shutdown()

        return await measure(counter, live)


async def chunks(counter: Counter, store: SessionStore) -> Counts:
    async def talk(agent: AgentInternals) -> None:
        async for message in agent.inputs():
            async with agent.turn(message):
                for _ in range(100):
                    await agent.send(TextDelta("x"))

    async def read(chunks: Subscription) -> None:
        async for _ in chunks:
            pass

    async with AgentRuntime(store, limits=LIMITS) as runtime, trio.open_nursery() as nursery:
        handle = runtime.spawn(AgentSession.new("talker"), talk)
        for _ in range(3):
            nursery.start_soon(read, handle.subscribe("all"))
        counts = await measure(counter, partial(handle.ask, "go"))
        await handle.shutdown()
    return counts


async def interrupt(counter: Counter, store: SessionStore) -> Counts:
    begun = trio.Event()

    async def sleep(agent: AgentInternals) -> None:
        async for message in agent.inputs():
            async with agent.turn(message):
                begun.set()
                await trio.sleep_forever()

    async def operation(handle: AgentHandle) -> None:
        nonlocal begun
        begun = trio.Event()
        await handle.send_input("go")
        await begun.wait()
        await handle.interrupt()

    async with AgentRuntime(store, limits=LIMITS) as runtime:
        handle = runtime.spawn(AgentSession.new("sleeper"), sleep)
        return await measure(counter, partial(operation, handle))


OPERATIONS: dict[str, Callable[[Counter, SessionStore], Awaitable[Counts]]] = {
    "answer": answer,
    "tool step": tool_step,
    "five calls": partial(tool_step, calls=CALLS),
    "anthropic": partial(exchanged_step, "anthropic"),
    "openai": partial(exchanged_step, "openai"),
    "subagent": subagent,
    "agent": agent,
    "100 chunks": chunks,
    "interrupt": interrupt,
}


class _Steady(random.Random):
    """Stands for trio's source of chance: it leaves each order as it is."""

    def random(self) -> float:
        return 0.75

    def shuffle(self, x: object) -> None:
        pass


@contextmanager
def in_order() -> Iterator[None]:
    """Let each pass resume its tasks in the order in which they were started."""
    scheduler = sys.modules["trio._core._run"]
    before = scheduler._r, scheduler._ALLOW_DETERMINISTIC_SCHEDULING
    scheduler._r, scheduler._ALLOW_DETERMINISTIC_SCHEDULING = _Steady(), True
    try:
        yield
    finally:
        scheduler._r, scheduler._ALLOW_DETERMINISTIC_SCHEDULING = before


async def count(counter: Counter, operation: str, store: SessionStore) -> Counts:
    """Return the counts of one operation."""
    trio.lowlevel.add_instrument(counter)
    return await OPERATIONS[operation](counter, store)


def compare(counts: Counts, expected: Counts, slack: float) -> str:
    """Say which counts are higher or lower than they were; passes may be, by the slack."""
    words = []
    for name, found, known in zip(NAMES, counts, expected, strict=True):
        allowed = slack if name in {"passes", "steps"} else ONCE
        if abs(found - known) > allowed:
            words.append(f"{name} {'MORE' if found > known else 'fewer'} than {known:g}")
    return ", ".join(words)


def main() -> int:
    counter = Counter()
    problems = ""
    print(" " * 20 + "".join(f"{name:>9}" for name in NAMES))
    with tempfile.TemporaryDirectory() as folder, in_order():
        for where, store in (("memory", InMemoryStore()), ("files", FileStore(folder))):
            for name in OPERATIONS:
                counts = trio.run(count, counter, name, store)
                found = compare(counts, COUNTS[name, where], 2 if where == "files" else ONCE)
                problems += found
                print(f"{name:12}{where:8}" + "".join(f"{each:9.2f}" for each in counts), found)
    return int("MORE" in problems)


if __name__ == "__main__":
    sys.exit(main())
