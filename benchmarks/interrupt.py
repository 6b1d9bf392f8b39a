"""How long an interrupt takes while an async tool cleans up and a blocking one runs in a process.

python benchmarks/interrupt.py

One reply asks for both: one sleeps 5 s and cleans up for 0.2 s, the other writes a file after 2 s.
The interrupt comes 0.3 s after both have begun. At the end the program waits until the file of
every round should have been written.
"""

import os
import statistics
import tempfile
import time
from pathlib import Path

import trio
import trio.testing

from greenroom import (
    AgentContext,
    AgentHandle,
    AgentRuntime,
    AgentSession,
    FileStore,
    PermissionManager,
    PermissionRule,
    ToolProgress,
    ToolRegistry,
    coder,
    tool,
)
from greenroom.sandbox import process_tree as launcher
from greenroom.testing import Reply, ScriptedProvider, call

ROUNDS = 10
LIMIT_SECONDS = 0.5

cleaned: list[str] = []


@tool(concurrent=True)
async def listen(context: AgentContext) -> str:
    """Sleep, and clean up after a cancel."""
    context.progress("begun")
    try:
        await trio.sleep(5)
    finally:
        with context.cleanup(2.0):
            await trio.sleep(0.2)
            cleaned.append("listen")
    return "heard"


@tool(concurrent=True, isolation="process")
def write_later(path: str, context: AgentContext) -> str:
    """Write a file after two seconds."""
    context.progress("begun")
    time.sleep(2)
    Path(path).write_text("written")
    return "written"


def tasks_alive() -> int:
    waiting, found = [trio.lowlevel.current_root_task()], 0
    while waiting:
        task = waiting.pop()
        found += 1
        assert task is not None
        waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found


async def interrupted(handle: AgentHandle) -> float:
    """Ask for both tools, interrupt them, and return the seconds that took."""
    async with handle.subscribe() as chunks:
        await handle.send_input("go")
        begun: set[str] = set()
        async for chunk in chunks:
            if isinstance(chunk, ToolProgress):
                begun.add(chunk.id)
            if len(begun) == 2:
                break
    await trio.sleep(0.3)
    start = time.perf_counter()
    report = await handle.interrupt()
    taken = time.perf_counter() - start
    assert report.abandoned == ()
    return taken


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = [
            Reply([call("listen"), call("write_later", path=f"{folder}/effect-{number}")])
            for number in range(ROUNDS)
        ]
        rules = PermissionManager([PermissionRule.allow_all()])
        tools = ToolRegistry([listen, write_later])
        times, tasks, processes = [], [], []
        async with AgentRuntime(store=FileStore(folder)) as runtime:
            model = ScriptedProvider(*script, "still here")
            handle = runtime.spawn(AgentSession.new("coder"), coder, model, tools, rules)
            await trio.testing.wait_all_tasks_blocked()
            idle = tasks_alive()
            for _ in range(ROUNDS):
                times.append(await interrupted(handle))
                tasks.append(tasks_alive() - idle)
                processes.append(len(launcher.family(os.getpid(), -1)))
            print("next turn:", (await handle.ask("still there?")).text)
        await trio.sleep(2.5)
        effects = sum(name.startswith("effect-") for name in os.listdir(folder))
    median, most = statistics.median(times), max(times)
    print(f"interrupt() took {1000 * median:.0f} ms (median), {1000 * most:.0f} ms (maximum)")
    print(f"alive afterwards: {max(tasks)} tasks of the turn, {max(processes)} processes")
    print(f"clean-ups finished: {len(cleaned)} of {ROUNDS}; side effects: {effects}")
    assert most < LIMIT_SECONDS
    assert (max(tasks), max(processes), len(cleaned), effects) == (0, 0, ROUNDS, 0)


if __name__ == "__main__":
    trio.run(main)
