"""What a step costs, in counts that do not depend on the machine, in memory and in files.

python benchmarks/counts.py

- passes: of the event loop.
- steps: of tasks, so how often one was resumed.
- tasks: started.
- scopes: cancel scopes entered, those of nurseries and those that trio enters itself included.
- hops: calls of `trio.to_thread.run_sync`, and of `trio.from_thread` back.
- syncs: calls of `os.fsync` and `os.fdatasync`, in all threads.

Each operation runs before it is counted, then several times, and the counts are per operation. The
watchdog is off, models are scripted, and a tool is an async function that returns at once.

- answer: a turn of `coder` whose reply is text.
- tool step: what a turn of `coder` takes more for a reply with one call, and that call.
- five calls: the same for a reply with five calls that run side by side.
- subagent: an agent spawns another one, asks it, and shuts it down.
- agent: `runtime.spawn`, and `shutdown` of an agent that waits for its input.
- 100 chunks: `agent.send` of each to three readers, and their reading.
- interrupt: of a turn that sleeps.

Then the function calls of Python that a span takes in the thread of the event loop, which are those
of turns with a tracer less those of the same turns without one. A turn has ten spans: its own, five
of the model, four of a tool.

Exits with 1 where a count is higher than the one in `MOST`; a change that lowers one writes it
there.
"""

import cProfile
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial, wraps

import trio
import trio.testing
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

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
from greenroom.observability import Metrics, OpenTelemetry, TraceFile, Tracer
from greenroom.testing import Reply, ScriptedProvider, call

NAMES = ("passes", "steps", "tasks", "scopes", "hops", "syncs")
TIMES = 50
CALLS = 5  # side by side
LIMITS = RuntimeLimits(watchdog=None)

Counts = tuple[float, ...]
SLACK = 0.5  # of passes and steps: trio resumes the tasks of a pass in a random order
ONCE = 0.01  # what a session does a single time, such as the warning of an unknown window
MOST: dict[tuple[str, str], Counts] = {
    ("answer", "memory"): (22, 23, 0, 5, 0, 0),
    ("tool step", "memory"): (22, 22, 1, 2, 0, 0),
    ("five calls", "memory"): (46.1, 50.1, 5, 6, 0, 0),
    ("subagent", "memory"): (21.5, 24.5, 2, 15, 0, 0),
    ("agent", "memory"): (11.5, 12.5, 2, 7, 0, 0),
    ("100 chunks", "memory"): (6.5, 19, 0, 4, 0, 0),
    ("interrupt", "memory"): (8, 10, 0, 4, 0, 0),
    ("answer", "files"): (28, 29, 0, 5, 3, 2),
    ("tool step", "files"): (28, 28, 1, 2, 3, 2),
    ("five calls", "files"): (52.1, 56.1, 5, 6, 3, 2),
    ("subagent", "files"): (35.5, 38.5, 2, 15, 7, 9),
    ("agent", "files"): (17.5, 18.5, 2, 7, 3, 0),
    ("100 chunks", "files"): (8.5, 21.5, 0, 4, 1, 1),
    ("interrupt", "files"): (10, 12, 0, 4, 1, 1),
}

SPANS = 10  # of a turn
TURNS = 6
CALLS_OF_A_SPAN = {
    ("files and metrics", "none"): 110,
    ("files and metrics", "redacted"): 230,
    ("OpenTelemetry", "none"): 270,
    ("OpenTelemetry", "redacted"): 400,
}
"""The most function calls of a span; those without content may never exceed 170 and 600."""


class Counter(trio.abc.Instrument):
    """Counts what this process does from here on; there is one in a process."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(NAMES, 0)
        self._wrap(trio.CancelScope, "__enter__", "scopes")
        self._wrap(trio.to_thread, "run_sync", "hops")
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

        setattr(owner, name, counted)

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


async def turn_of(counter: Counter, store: SessionStore, *replies: object) -> Counts:
    """Count turns of the coder with these replies."""
    model = ScriptedProvider(*replies * (TIMES + 1))
    permissions = PermissionManager([PermissionRule.allow_tool("look")])
    arguments = model, ToolRegistry([look]), permissions
    async with AgentRuntime(store, limits=LIMITS) as runtime:
        handle = runtime.spawn(AgentSession.new("coder"), coder, *arguments)
        return await measure(counter, partial(handle.ask, "go"))


async def answer(counter: Counter, store: SessionStore) -> Counts:
    return await turn_of(counter, store, "done")


async def tool_step(counter: Counter, store: SessionStore, calls: int = 1) -> Counts:
    reply = Reply([call("look", label=str(number)) for number in range(calls)])
    short = await turn_of(counter, store, reply, "done")
    long = await turn_of(counter, store, *[reply] * 11, "done")
    return tuple((b - a) / 10 for a, b in zip(short, long, strict=True))


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
    "subagent": subagent,
    "agent": agent,
    "100 chunks": chunks,
    "interrupt": interrupt,
}


async def watched(kind: str, content: str, folder: str) -> dict[str, int]:
    """Count the function calls of turns, each of an agent of its own; no kind: unwatched.

    Returns the calls in the event loop's thread, by file.
    """
    reply = Reply([call("look", label="x")])
    model = ScriptedProvider(*[reply, reply, reply, reply, "done"] * (TURNS + 1))
    permissions = PermissionManager([PermissionRule.allow_tool("look")])
    profile = cProfile.Profile(builtins=False)
    async with AsyncExitStack() as stack:
        sinks: tuple[object, ...] = ()
        if kind == "OpenTelemetry":
            sinks = (await stack.enter_async_context(OpenTelemetry(*providers())),)
        elif kind:
            sinks = await stack.enter_async_context(TraceFile(folder)), Metrics()
        watching = [Tracer(*sinks, content=content)] if kind else []  # type: ignore[arg-type]
        runtime = AgentRuntime(InMemoryStore(), limits=LIMITS, instruments=watching)
        await stack.enter_async_context(runtime)

        async def turn() -> None:
            session = AgentSession.new("coder")
            handle = runtime.spawn(session, coder, model, ToolRegistry([look]), permissions)
            await handle.ask("go")
            await handle.shutdown()

        await turn()
        profile.enable()
        for _ in range(TURNS):
            await turn()
        profile.disable()
    counts: dict[str, int] = {}
    for entry in profile.getstats():
        path = "" if isinstance(entry.code, str) else entry.code.co_filename
        counts[path] = counts.get(path, 0) + entry.callcount
    return counts


def providers() -> tuple[TracerProvider, MeterProvider]:
    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    return tracers, MeterProvider()


def measure_spans() -> dict[tuple[str, str], float]:
    """Return the function calls that a span takes, by what is attached and the content."""
    with tempfile.TemporaryDirectory() as folder:
        base = sum(trio.run(watched, "", "", folder).values())
        return {
            key: (sum(trio.run(watched, *key, folder).values()) - base) / (TURNS * SPANS)
            for key in CALLS_OF_A_SPAN
        }


async def measure_all(counter: Counter, store: SessionStore, where: str) -> int:
    passed = 0
    trio.lowlevel.add_instrument(counter)
    for name, operation in OPERATIONS.items():
        counts = await operation(counter, store)
        most = zip(NAMES, counts, MOST[name, where], strict=True)
        slack = {"passes": SLACK, "steps": SLACK, "hops": ONCE}
        over = [kind for kind, count, limit in most if count > limit + slack.get(kind, 0)]
        passed += len(over)
        figures = "".join(f"{count:9.2f}" for count in counts)
        print(f"{name:12}{where:8}{figures}", f"  TOO MANY: {', '.join(over)}" if over else "")
    return passed


def main() -> int:
    counter = Counter()
    print(" " * 20 + "".join(f"{name:>9}" for name in NAMES))
    passed = trio.run(measure_all, counter, InMemoryStore(), "memory")
    with tempfile.TemporaryDirectory() as folder:
        passed += trio.run(measure_all, counter, FileStore(folder), "files")
    for (kind, content), count in measure_spans().items():
        is_over = count > CALLS_OF_A_SPAN[kind, content]
        passed += is_over
        name = f"calls of a span, {kind}, content {content}"
        print(f"{name:56}{count:9.1f}", "  TOO MANY" if is_over else "")
    return int(passed > 0)


if __name__ == "__main__":
    sys.exit(main())
