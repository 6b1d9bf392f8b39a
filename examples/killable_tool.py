"""A blocking tool that can be stopped: a search whose pattern may never come to an end.

    python examples/killable_tool.py

Python's `re` holds the interpreter's lock while it searches: in a thread it would stop the whole
program, and nobody could stop it. In a process of its own it is killed, by a limit, by the time-out
or by an interrupt. The model here follows a script, so that the program needs no key.
"""

import re

import trio

from greenroom import (
    AgentContext,
    AgentRuntime,
    AgentSession,
    InMemoryStore,
    PermissionManager,
    PermissionRule,
    ToolEnd,
    ToolProgress,
    ToolRegistry,
    coder,
    tool,
)
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import ProcessLimits

LINES = ["a green room", "a red room", "a" * 40 + "!"]


@tool(
    category="read",
    isolation="process",
    limits=ProcessLimits(cpu_seconds=1, memory_megabytes=512),
)
def search(pattern: str, context: AgentContext) -> str:
    """Find the lines that a regular expression matches.

    Args:
        pattern: A regular expression.
        context: Given by the runtime, hidden from the model.
    """
    context.progress(f"searching for {pattern}")
    found = [line for line in LINES if re.search(pattern, line)]
    return "\n".join(found) or "no line matches"


async def main() -> None:
    """Search for something, for something that takes for ever, and interrupt a third search."""
    llm = ScriptedProvider(
        call("search", pattern="gr.*room"),
        call("search", pattern="^(a+)+$"),
        "The second pattern does not come to an end.",
        call("search", pattern="^(a|a)+$"),
        "I am still here.",
    )
    rules = PermissionManager([PermissionRule.allow_tool("search")])
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("coder"), coder, llm, ToolRegistry([search]), rules)
        receipt = await handle.send_input("Search.")
        async for chunk in handle.stream(receipt):
            if isinstance(chunk, ToolEnd):
                print("tool:", chunk.result.text)

        receipt = await handle.send_input("Search once more.")
        async for chunk in handle.stream(receipt):
            if isinstance(chunk, ToolProgress):
                break
        report = await handle.interrupt()
        print("interrupted, and left behind:", len(report.abandoned))
        print("model:", (await handle.ask("Are you there?")).text)


# The process loads this script as well, under another name: it must not start all over again.
if __name__ == "__main__":
    trio.run(main)
