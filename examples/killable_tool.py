"""A blocking tool that can be stopped: a search whose pattern may run forever.

    python examples/killable_tool.py

Python's `re` holds the interpreter's lock while it searches, so in a thread it would stop the whole
program and could not be cancelled. In its own process, a limit, the time-out or an interrupt kills
it. The model is scripted, so this needs no API key.
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
        context: Passed by the runtime, hidden from the model.
    """
    context.progress(f"searching for {pattern}")
    matches = [line for line in LINES if re.search(pattern, line)]
    return "\n".join(matches) or "no line matches"


async def main() -> None:
    """Search once, then with a pattern that runs forever, and interrupt a third search."""
    llm = ScriptedProvider(
        call("search", pattern="gr.*room"),
        call("search", pattern="^(a+)+$"),
        "The second pattern never ends.",
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


# The process imports this script too, under another name: it must not run the program again.
if __name__ == "__main__":
    trio.run(main)
