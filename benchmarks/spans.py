"""What watching costs, in function calls of Python, which do not depend on the machine.

python -m benchmarks.spans

What a span takes in the thread of the event loop: the calls of turns with a tracer, less those of
the same turns without one. A turn has ten spans: its own, five of the model, four of a tool. Exits
with 1 where a span takes more than `CALLS_OF_A_SPAN` says.
"""

import cProfile
import sys
import tempfile
from contextlib import AsyncExitStack

import trio
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from benchmarks.counts import LIMITS, look
from greenroom import (
    AgentRuntime,
    AgentSession,
    InMemoryStore,
    PermissionManager,
    PermissionRule,
    ToolRegistry,
    coder,
)
from greenroom.observability import Metrics, OpenTelemetry, TraceFile, Tracer
from greenroom.testing import Reply, ScriptedProvider, call

SPANS = 10  # of a turn
TURNS = 6
CALLS_OF_A_SPAN = {
    ("files and metrics", "none"): 120,
    ("files and metrics", "redacted"): 250,
    ("OpenTelemetry", "none"): 280,
    ("OpenTelemetry", "redacted"): 430,
}
"""The most function calls of a span, with some for a loaded machine.

Those without content may never exceed 170 and 600.
"""


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


def main() -> int:
    passed = 0
    for (kind, content), count in measure_spans().items():
        is_over = count > CALLS_OF_A_SPAN[kind, content]
        passed += is_over
        name = f"calls of a span, {kind}, content {content}"
        print(f"{name:56}{count:9.1f}", "  TOO MANY" if is_over else "")
    return int(passed > 0)


if __name__ == "__main__":
    sys.exit(main())
