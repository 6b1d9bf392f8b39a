"""Commands in one tier, for tests that try something in each."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from greenroom.core import AgentContext, SandboxPart, SandboxReport, ToolResult
from greenroom.tools import Bash, Sandbox, examine_sandbox


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
