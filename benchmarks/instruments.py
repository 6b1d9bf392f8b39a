"""What instruments cost: turns with a model call and a tool call, unwatched and watched.

The floor is the same run with the calls of hooks taken out altogether.

python benchmarks/instruments.py
"""

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import get_args

import trio

from greenroom import (
    AgentRuntime,
    AgentSession,
    InMemoryStore,
    PermissionManager,
    PermissionRule,
    ToolRegistry,
    coder,
    tool,
)
from greenroom.core._internal import Hook, Instruments
from greenroom.testing import ScriptedProvider, call

ROUNDS = 21
TURNS = 50


@tool(category="read")
async def look(label: str) -> str:
    """Look at something."""
    return label


def nothing(self: object, agent: object, *details: object) -> None:
    pass


Idle = type("Idle", (), dict.fromkeys(get_args(Hook), nothing))


async def turns(*instruments: object) -> None:
    steps = [step for _ in range(TURNS) for step in (call("look", label="a"), "done")]
    permissions = PermissionManager([PermissionRule.allow_tool("look")])
    arguments = (ScriptedProvider(*steps), ToolRegistry([look]), permissions)
    async with AgentRuntime(store=InMemoryStore(), instruments=instruments) as runtime:
        handle = runtime.spawn(AgentSession.new("coder"), coder, *arguments)
        for _ in range(TURNS):
            await handle.ask("go")


@contextmanager
def without_hooks() -> Iterator[None]:
    notify, before = Instruments.notify, Instruments.before_tool_call
    Instruments.notify = lambda *_: None  # type: ignore[method-assign]
    Instruments.before_tool_call = lambda _, __, call: call  # type: ignore[method-assign]
    try:
        yield
    finally:
        Instruments.notify, Instruments.before_tool_call = notify, before  # type: ignore[method-assign]


def measure(*instruments: object) -> float:
    begin = time.perf_counter()
    trio.run(turns, *instruments)
    return time.perf_counter() - begin


def main() -> None:
    measured: dict[str, list[float]] = {"no instrument": [], "one with every hook": []}
    for _ in range(ROUNDS):
        with without_hooks():
            floor = measure()
        measured["no instrument"].append(measure() / floor)
        measured["one with every hook"].append(measure(Idle()) / floor)
    for label, ratios in measured.items():
        print(f"{label:24} {statistics.median(ratios):5.3f} × floor")

    instruments = Instruments()
    begin = time.perf_counter()
    for _ in range(100_000):
        instruments.notify("before_turn", None, None)  # type: ignore[arg-type]
    print(f"{'an unused hook':24} {(time.perf_counter() - begin) * 1e4:5.0f} ns")


if __name__ == "__main__":
    main()
