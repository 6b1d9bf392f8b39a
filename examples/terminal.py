"""A terminal session with a coding agent: permission prompts, subagents, interrupts.

    python examples/terminal.py

`ConsoleRenderer` works with any handle; this one runs the ready-made coder, on the offline model
unless a key is set. Try `run ls -la`, press Esc to interrupt, and Ctrl-C twice to leave.
"""

import trio

from greenroom import (
    AgentRuntime,
    AgentSession,
    ConsoleRenderer,
    FileStore,
    PermissionManager,
    PermissionRule,
    ToolRegistry,
    builtin_tools,
    coder,
    open_model,
)


async def main() -> None:
    """Talk to a coding agent until you leave."""
    llm = open_model(None)
    tools = ToolRegistry(builtin_tools())
    permissions = PermissionManager([PermissionRule.allow_category("read")])
    async with AgentRuntime(store=FileStore("sessions")) as runtime:
        handle = runtime.spawn(AgentSession.new("coder"), coder, llm, tools, permissions)
        await ConsoleRenderer(handle).run()
    await llm.aclose()


if __name__ == "__main__":
    trio.run(main)
