"""The demo server, and what tests of several files do with it."""

import os
import sys
from functools import partial
from pathlib import Path

import trio

from greenroom.core import AgentContext, ToolResult
from greenroom.interop import MCPServer, MCPServers
from greenroom.tools import ToolRegistry

PROGRAM = Path(__file__).with_name("server.py")


def demo(*words: str, name: str = "demo", **options) -> MCPServer:
    return MCPServer.stdio(name, sys.executable, [str(PROGRAM), *words], **options)


def registry(servers: MCPServers) -> ToolRegistry:
    made = ToolRegistry()
    made.add(servers)
    return made


async def cancel_wait(servers: MCPServers) -> None:
    """Call the tool that waits, and cancel the call once the server has it."""
    begun = trio.Event()
    context = AgentContext(session_id="s", agent_type="demo", on_progress=lambda *_: begun.set())
    run = partial(registry(servers).execute, "mcp__demo__wait", {})
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, context.with_tool_use_id("t"))
            await begun.wait()
            nursery.cancel_scope.cancel()


async def call(servers: MCPServers, name: str, /, *, server: str = "demo", **input) -> ToolResult:
    context = AgentContext(session_id="s", agent_type="demo")
    with trio.fail_after(60):
        return await registry(servers).execute(f"mcp__{server}__{name}", input, context)


SHARED = (b"tests.warm_python", b"/postgres", b"postgres:", b"chromium")
"""What other tests of the same worker have started for all of them."""

BEFORE: set[int] = set()
"""What runs already when a test begins."""


def children(pid: int = os.getpid()) -> set[int]:
    """Return the processes below this one that this test has started."""
    found = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                state, parent = (each / "stat").read_text().rpartition(")")[2].split()[:2]
                command = (each / "cmdline").read_bytes()
            except OSError:
                continue  # it ended while we looked
            if state != "Z" and not any(name in command for name in SHARED):
                found[int(each.name)] = int(parent)
    below = {pid}
    while more := {child for child, parent in found.items() if parent in below} - below:
        below |= more
    return below - {pid} - BEFORE
