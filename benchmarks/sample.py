"""One workload, once, in a process of its own.

python -m benchmarks.sample WORKLOAD URL

It prints what was taken as one line of JSON. A workload warms up, and then calls `Meter.begin` and
`Meter.end` around what counts.
"""

import asyncio
import cProfile
import gc
import importlib
import json
import pstats
import resource
import sys
import time
from collections.abc import Awaitable, Callable


class Meter:
    """Measures the part of a workload that counts."""

    def __init__(self, profile: cProfile.Profile | None = None) -> None:
        self.cpu = self.wall = 0.0
        self.units = 0
        self.steps: list[float] = []
        """Seconds of each step, where a workload has steps."""
        self._profile = profile

    def begin(self) -> None:
        gc.collect()
        if self._profile is not None:
            self._profile.enable()
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def end(self, units: int) -> None:
        """Say how many units of work were done since `begin`."""
        self.cpu += time.process_time() - self._cpu
        self.wall += time.perf_counter() - self._wall
        if self._profile is not None:
            self._profile.disable()
        self.units += units

    def taken(self) -> dict[str, object]:
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {
            "cpu": self.cpu / self.units,
            "wall": self.wall / self.units,
            "memory": memory,
            "steps": self.steps,
        }


Workload = Callable[[Meter, str], Awaitable[None]]


def find(name: str) -> Workload:
    """Return a workload by its module and name, such as `floors.chat_steps`."""
    module, _, function = name.rpartition(".")
    found: Workload = getattr(importlib.import_module(f"benchmarks.{module}"), function)
    return found


def run(name: str, meter: Meter, url: str) -> None:
    if name.startswith("peers."):  # all of them run on asyncio
        asyncio.run(find(name)(meter, url))  # type: ignore[arg-type]
        return
    import trio

    trio.run(find(name), meter, url)


def profile(name: str, url: str, most: int = 40) -> None:
    """Run a workload under a profiler, and print where its time goes."""
    profiler = cProfile.Profile()
    meter = Meter(profiler)
    run(name, meter, url)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(most)


def main() -> None:
    meter = Meter()
    run(sys.argv[1], meter, sys.argv[2])
    print(json.dumps(meter.taken()))


if __name__ == "__main__":
    main()
