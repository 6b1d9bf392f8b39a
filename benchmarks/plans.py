"""Plans of 10,000 subtasks: made, ordered, and gone through.

A plan is checked and ordered in under a second, and in at most 4 times what `graphlib` alone takes
for the same graph. Exits with 1 where it takes longer.

python benchmarks/plans.py
"""

import gc
import random
import statistics
import sys
import time
from graphlib import TopologicalSorter

from greenroom.flow import Plan, Subtask

COUNT = 10_000
ROUNDS = 7
MAX_SECONDS = 1.0
MAX_RATIO = 4.0


def layered() -> list[Subtask]:
    """Make subtasks in layers of ten, each behind three of the layer before, in a random order."""
    subtasks = [
        Subtask(f"s{n}", "", after=[f"s{n // 10 * 10 - e}" for e in (1, 4, 9)] if n > 9 else [])
        for n in range(COUNT)
    ]
    random.Random(0).shuffle(subtasks)
    return subtasks


def seconds(function) -> float:
    gc.collect()
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


def main() -> int:
    subtasks = layered()
    graph = {subtask.id: subtask.after for subtask in subtasks}
    floor, made, ready = [], [], []
    for _ in range(ROUNDS):
        floor.append(seconds(lambda: tuple(TopologicalSorter(graph).static_order())))
        made.append(seconds(lambda: Plan("", subtasks).order()))
        plan = Plan("", subtasks)
        ready.append(seconds(lambda plan=plan: plan.ready(plan.order()[: COUNT // 2])))
    base, plan_made = statistics.median(floor), statistics.median(made)
    print(f"graphlib alone           {base * 1000:7.1f} ms")
    print(f"a plan, made and ordered {plan_made * 1000:7.1f} ms, {plan_made / base:.1f} times that")
    print(f"what is ready in it      {statistics.median(ready) * 1000:7.1f} ms")
    return int(plan_made > MAX_SECONDS or plan_made > MAX_RATIO * base)


if __name__ == "__main__":
    sys.exit(main())
