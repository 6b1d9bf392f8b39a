"""Commands run in a container, each under strace; see `driver` for what happens inside."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
SPACES = ["--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc", "--uts", "--mount-proc"]
DRIVER = [sys.executable, "-S", "-m", "tests.permissions.traced.driver"]
DRIVERS = 2 * (os.cpu_count() or 1)  # some commands wait until they are stopped
LONGEST = 5  # seconds for a command, and for a driver to start


@dataclass(frozen=True)
class Trace:
    """What one command did.

    Attributes:
        ran: the programs that were started, as their paths were given, and their words.
        read: the files that were opened, by their real paths; those of folders end in a slash.
        changed: calls that changed something on a disk, or would have.
        guarded: the guarded files that are no longer what they were.
        odd: other calls with an effect: on the network, the clock, other processes.
        told: the canaries that turned up in the output.
        left: whether a process outlived the shell.
    """

    ran: Sequence[str]
    read: Sequence[str]
    changed: Sequence[str]
    guarded: Sequence[str]
    odd: Sequence[str]
    told: Sequence[str]
    left: bool


def run(
    runs: Sequence[tuple[list[str], dict[str, str], str]],
    base: Path,
    *,
    canaries: Sequence[str] = (),
    guarded: Sequence[str] = (),
) -> list[Trace]:
    """Run commands (words, environment, folder), each in the home as it was; say what they did.

    Args:
        runs: the commands; their folders are below `base/home`.
        base: a folder with `home` in it, not below `/tmp`, which is empty for commands.
        canaries: texts to look for in the output.
        guarded: files and folders below the home, whose changes are told.
    """
    size = -(-len(runs) // DRIVERS) or 1
    chunks = [runs[start : start + size] for start in range(0, len(runs), size)]
    for name in ("pristine", "log"):
        (base / name).mkdir(exist_ok=True)

    def drive(chunk):
        order = {"base": str(base), "runs": chunk, "canaries": canaries, "guarded": guarded}
        done = subprocess.run(
            [*_container(), *DRIVER],
            cwd=REPOSITORY,
            input=json.dumps(order).encode(),
            stdout=subprocess.PIPE,
            check=True,
            timeout=LONGEST * (len(chunk) + 10),
        )
        return [Trace(**found) for found in json.loads(done.stdout)]

    with ThreadPoolExecutor(DRIVERS) as threads:
        return [trace for traces in threads.map(drive, chunks) for trace in traces]


def is_usable() -> bool:
    """Return whether this machine lets us make containers and trace in them."""
    return bool(_container())


@cache
def _container() -> list[str]:
    """Find the words that start a program in a container."""
    for user in (["--user", "--map-root-user"], []):
        words = ["unshare", *user, *SPACES]
        test = subprocess.run(
            [*words, *DRIVER, "test"], cwd=REPOSITORY, capture_output=True, check=False
        )
        if test.returncode == 0:
            return words
    return []
