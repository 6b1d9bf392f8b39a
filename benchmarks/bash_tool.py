"""What `true` costs through the Bash tool, against `bash -c true` started by trio in the same run.

python benchmarks/bash_tool.py
"""

import statistics
import tempfile
import time

import trio

from greenroom.core import AgentContext, Workspace
from greenroom.tools import Bash

ROUNDS = 50


async def bare() -> None:
    await trio.run_process(["bash", "--noprofile", "--norc", "-c", "true"])


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        context = AgentContext(session_id="s", agent_type="t", workspace=Workspace(folder))
        tool = Bash()

        async def through_the_tool() -> None:
            await tool.execute({"command": "true"}, context)

        # Interleaved, so that a machine whose speed drifts changes both alike.
        times: dict[str, list[float]] = {"bash -c true": [], "Bash tool": []}
        for _ in range(ROUNDS):
            for name, run in (("bash -c true", bare), ("Bash tool", through_the_tool)):
                begin = time.perf_counter()
                await run()
                times[name].append(time.perf_counter() - begin)
    floor = statistics.median(times["bash -c true"])
    for name, values in times.items():
        taken = statistics.median(values)
        print(f"{name:14} {1000 * taken:7.1f} ms  {taken / floor:5.1f} × floor")


if __name__ == "__main__":
    trio.run(main)
