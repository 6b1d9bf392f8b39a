"""What a sandbox adds to a call of Bash, tier by tier, against the same call without one.

python benchmarks/sandbox.py

Each tier that works on this machine runs `true` in turn with the floor. Detection, which each
process makes once, is not in it; it is measured by itself at the end.
"""

import statistics
import sys
import tempfile
import time

import trio

from greenroom.core import AgentContext, Workspace
from greenroom.sandbox import detection
from greenroom.sandbox.detection import list_candidates
from greenroom.sandbox.report import Mechanisms
from greenroom.tools import Bash, ProcessLimits, Sandbox, examine_sandbox

ROUNDS = 40
LIMIT, LIMIT_ONCE = 4, 30
LIMITS = ProcessLimits(cpu_seconds=60, memory_megabytes=1_000, file_megabytes=100, processes=500)


async def working() -> list[Mechanisms]:
    """Try each tier, and return those that work."""
    found = []
    for way in list_candidates():
        detection._mechanisms.clear()
        detection.list_candidates = lambda way=way: iter([way])
        if (await examine_sandbox(Sandbox())).enforced:
            found += detection._mechanisms
    return found


async def timed(bash: Bash, context: AgentContext) -> float:
    begin = time.perf_counter()
    result = await bash.execute({"command": "true"}, context)
    assert not result.is_error, result.text
    return time.perf_counter() - begin


async def main() -> None:
    ways = await working()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        context = AgentContext(session_id="s", agent_type="t", workspace=Workspace(folder))
        # Interleaved, so that a machine whose speed drifts changes all alike.
        cases = [("no sandbox", None, Bash())]
        for way in ways:
            cases.append((way.tier, way, Bash(sandbox=Sandbox())))
            cases.append((f"{way.tier}, limits", way, Bash(sandbox=Sandbox(limits=LIMITS))))
        times: dict[str, list[float]] = {name: [] for name, _, _ in cases}
        for _ in range(ROUNDS):
            for name, way, bash in cases:
                detection._mechanisms[:] = [way] if way else []
                times[name].append(await timed(bash, context))
    floor = statistics.median(times["no sandbox"])
    ratios = {name: statistics.median(values) / floor for name, values in times.items()}
    for name, ratio in ratios.items():
        print(f"{name:20} {1000 * ratio * floor:7.1f} ms  {ratio:5.2f} × floor")
    detection._mechanisms.clear()
    detection.list_candidates = lambda: iter(ways[:1])
    begin = time.perf_counter()
    await examine_sandbox(Sandbox())
    once = time.perf_counter() - begin
    print(f"{'detection, once':20} {1000 * once:7.1f} ms  {once / floor:5.2f} × floor")
    if max(ratios.values()) > LIMIT or once / floor > LIMIT_ONCE:
        sys.exit(f"more than {LIMIT} or, once, {LIMIT_ONCE} × floor")


if __name__ == "__main__":
    trio.run(main)
