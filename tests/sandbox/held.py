"""Commands in one tier, for tests that try something in each."""

import os
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import trio

from greenroom.core import AgentContext, ToolResult
from greenroom.core._internal import SandboxPart, SandboxReport
from greenroom.sandbox import enforce
from greenroom.tools import Bash, Sandbox, examine_sandbox
from tests.absent_programs import explain_absence


@dataclass
class Held:
    """Commands in one tier: `run` one, and ask what `is_missing` there."""

    tier: str
    context: AgentContext
    outside: Path

    @property
    def root(self) -> Path:
        return self.context.workspace.root

    async def run(self, command: str, sandbox: Sandbox | None = None) -> ToolResult:
        with trio.fail_after(60):
            tool = Bash(sandbox=sandbox or Sandbox())
            return await tool.execute({"command": command}, self.context)

    async def report(self, sandbox: Sandbox | None = None) -> SandboxReport:
        return await examine_sandbox(sandbox or Sandbox())

    async def is_missing(self, part: SandboxPart, sandbox: Sandbox | None = None) -> bool:
        return part in (await self.report(sandbox)).missing


def in_turns(fixture: str, *tiers: str) -> list[object]:
    """Return the tiers as parameters of a fixture; a quick run tries each attack in one of them."""
    return [pytest.param(tier, marks=pytest.mark.in_turns(fixture)) for tier in tiers]


def skip_where_refused(tier: str) -> None:
    """Skip where this machine can't offer a tier; where it can, the tier has to work."""
    reason = {"bubblewrap": explain_refused_namespaces, "landlock": explain_refused_landlock}
    if tier in reason and (why := reason[tier]()):
        pytest.skip(why)


REFUSED = "this machine refuses"
"""With what `.ci/skips.py` allows a skip, as it does not for a program that is not installed."""


@cache
def explain_refused_namespaces() -> str:
    """Say why bubblewrap can't work, as bubblewrap tells it: our own use of it may have a fault."""
    if absence := explain_absence("bwrap"):
        return absence
    mounts = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run")
    done = subprocess.run(
        ["bwrap", "--unshare-all", *mounts, "true"], capture_output=True, text=True, check=False
    )
    return f"{REFUSED} namespaces: {done.stderr.strip()}" if done.returncode else ""


def explain_refused_landlock() -> str:
    """Say that there is no Landlock."""
    return "" if enforce.landlock_version() else f"{REFUSED} Landlock"


def marked(text: str) -> list[int]:
    """List the living processes that have this text among their arguments."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if text.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(int(name))
        except OSError:
            continue
    return found
