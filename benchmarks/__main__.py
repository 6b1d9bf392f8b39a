"""One table of what Greenroom costs: each row is a ratio to a floor of the same run.

python -m benchmarks [--rows NAME,…] [--rounds N] [--check] [--json FILE] [--svg FILE] [--markdown]
python -m benchmarks --peers FOLDER     with pydantic-ai, openai-agents, langgraph, agent-framework
python -m benchmarks --profile ROW      where the time of ours goes

Absolute figures drift from hour to hour, so only ratios count: in each round, the floor and
Greenroom (and the peers) take turns, each in a process of its own, and the ratio of a row is the
median over the rounds, with its quartiles. Bytecode is compiled before. The model is a server in a
process of its own, without any delay. With `--check` it exits with 1 where a bound is broken, and
the counts of `benchmarks.counts` and `benchmarks.calls` are checked as well.
"""

import argparse
import compileall
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from benchmarks import peers, report
from benchmarks.model_server import model_server
from benchmarks.rows import ROWS, Row
from benchmarks.sample import profile

ROOT = Path(__file__).parents[1]
LIBRARIES = ("trio", "httpx", "msgspec", "orjson")


def measure(workload: str, url: str, python: str = sys.executable) -> dict[str, object]:
    """Take one sample in a fresh process."""
    if workload.startswith(("from ", "import ")):
        return measure_import(workload, python)
    command = [python, "-m", "benchmarks.sample", workload, url]
    run = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    if run.returncode:
        sys.exit(f"{workload} failed:\n{run.stderr}")
    found: dict[str, object] = json.loads(run.stdout)
    return found


def measure_import(code: str, python: str) -> dict[str, object]:
    """Take the processor's time of some imports, beyond that of an empty program."""
    times = []
    for each in ("pass", code):
        before = os.times()
        subprocess.run([python, "-c", each], cwd=ROOT, env=environment(), check=True)
        after = os.times()
        used = after.children_user + after.children_system
        times.append(used - before.children_user - before.children_system)
    return {"cpu": times[1] - times[0], "wall": times[1] - times[0], "memory": 0.0, "steps": []}


def environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


Samples = dict[str, dict[str, list[dict[str, object]]]]
"""What was taken, by the row and by who took it."""


def run_rounds(rows: list[Row], rounds: int, url: str, others: dict[str, str]) -> Iterator[Samples]:
    """Yield all samples after each round; those who are compared take turns."""
    samples: Samples = {row.name: {} for row in rows}
    for number in range(rounds):
        for row in rows:
            workloads = {"floor": (row.floor, sys.executable), "ours": (row.ours, sys.executable)}
            if row.peers:
                for name, python in others.items():
                    workloads[name] = (f"peers.{name}.{row.peers}", python)
            for who, (workload, python) in workloads.items():
                print(f"\r{number + 1}/{rounds} {row.name:16} {who:16}", end="", file=sys.stderr)
                samples[row.name].setdefault(who, []).append(measure(workload, url, python))
        print("\r" + " " * 50 + "\r", end="", file=sys.stderr)
        yield samples


def summarize(row: Row, samples: dict[str, list[dict[str, object]]]) -> dict[str, object]:
    """Return the ratios of a row to its floor, and what else its samples say."""
    floors = [float(str(each[row.figure])) for each in samples["floor"]]
    found: dict[str, object] = {
        "name": row.name,
        "title": row.title,
        "unit": row.unit,
        "figure": row.figure,
        "most": row.most,
        "on": row.on,
        "floor": statistics.median(floors),
        "ratios": {},
        "memory": statistics.median(float(str(each["memory"])) for each in samples["ours"]),
    }
    for who, taken in samples.items():
        if who != "floor":
            mine = [float(str(each[row.figure])) for each in taken]
            ratios = [a / b for a, b in zip(mine, floors, strict=True)]
            found["ratios"][who] = quartiles(ratios)  # type: ignore[index]
    steps = sorted(s for each in samples["ours"] for s in each["steps"])  # type: ignore[attr-defined]
    if steps:
        found["p50"], found["p99"] = (steps[int(len(steps) * part)] for part in (0.5, 0.99))
    return found


def quartiles(values: list[float]) -> list[float]:
    """Return the lower quartile, the median and the upper one."""
    if len(values) < 2:
        return values * 3
    return list(statistics.quantiles(values, n=4, method="inclusive"))


def describe_machine() -> dict[str, object]:
    cpus, model = os.cpu_count(), platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(x.partition(": ")[2] for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        pass
    libraries = {name: version(name) for name in LIBRARIES}
    return {
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "cpu": f"{cpus} × {model}",
        "load": round(os.getloadavg()[0], 1),
        "versions": {"greenroom": version("greenroom"), **libraries},
    }


def check_counts() -> bool:
    """Check the counts, which do not depend on the machine."""
    codes = [
        subprocess.run([sys.executable, "-m", module], cwd=ROOT, check=False).returncode
        for module in ("benchmarks.counts", "benchmarks.calls")
    ]
    return not any(codes)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--rows", help="only these, by their names, separated by commas")
    parser.add_argument("--rounds", type=int, default=5, help="5 by default")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a bound is broken")
    parser.add_argument("--json", type=Path, help="write all figures there")
    parser.add_argument("--svg", type=Path, help="draw the ratios there")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--profile", metavar="ROW", help="profile one row, and measure nothing")
    parser.add_argument("--peers", type=Path, metavar="FOLDER", help="install the peers there")
    return parser.parse_args()


def choose(names: str | None) -> list[Row]:
    known = {row.name: row for row in ROWS}
    chosen = list(known) if names is None else names.split(",")
    if unknown := [name for name in chosen if name not in known]:
        sys.exit(f"no row is named {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in chosen]


def main() -> int:
    arguments = read_arguments()
    for folder in ("greenroom", "benchmarks"):
        compileall.compile_dir(str(ROOT / folder), quiet=1)
    if arguments.profile:
        with model_server() as url:
            profile(choose(arguments.profile)[0].ours, url)
        return 0
    rows = choose(arguments.rows)
    others = peers.install(arguments.peers) if arguments.peers else {}
    found: list[dict[str, object]] = []
    machine = describe_machine()
    machine["versions"] |= peers.VERSIONS if others else {}  # type: ignore[operator]
    with model_server() as url:
        for samples in run_rounds(rows, arguments.rounds, url, others):
            found = [summarize(row, samples[row.name]) for row in rows]
            machine["rounds"] = len(samples[rows[0].name]["floor"])
            if arguments.json:
                arguments.json.write_text(json.dumps({"machine": machine, "rows": found}, indent=1))
    print(report.as_markdown(found) if arguments.markdown else report.as_text(found, machine))
    if arguments.svg:
        arguments.svg.write_text(report.as_svg(found, machine))
    broken = [each["name"] for each in found if report.is_broken(each)]
    if not arguments.check:
        return 0
    print(f"broken: {', '.join(map(str, broken))}" if broken else "no bound is broken")
    return int(not check_counts() or bool(broken))


if __name__ == "__main__":
    sys.exit(main())
