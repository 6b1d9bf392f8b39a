"""How long `import greenroom` takes, against `import trio, msgspec, orjson` in the same run.

python benchmarks/cold_import.py
"""

import statistics
import subprocess
import sys
import time

ROUNDS = 15
FLOOR = "import trio, msgspec, orjson"
CASES = {
    FLOOR: FLOOR,
    "import greenroom": "import greenroom",
    "an agent's names": "from greenroom import AgentRuntime, AgentSession, AgentInternals",
    "greenroom --version": (
        "import sys; sys.argv[1:] = ['--version']; import greenroom.cli as c; c.main"
    ),
}


def once(code: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - begin


LIMIT = 1.5  # times the floor, for `import greenroom`


def main() -> int:
    # Interleaved, so that a machine whose speed drifts changes all of them alike.
    times: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(ROUNDS):
        for name, code in CASES.items():
            times[name].append(once(code))
    nothing = statistics.median(once("pass") for _ in range(ROUNDS))
    floor = statistics.median(times[FLOOR]) - nothing
    for name, values in times.items():
        taken = statistics.median(values) - nothing
        print(f"{name:32} {1000 * taken:7.1f} ms  {taken / floor:5.2f} × floor")
    ours = statistics.median(times["import greenroom"]) - nothing
    return 1 if ours > LIMIT * floor else 0


if __name__ == "__main__":
    sys.exit(main())
