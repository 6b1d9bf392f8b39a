"""An interactive session in the terminal: prompts for permission, subagents, interrupts.

`ConsoleRenderer` shows any handle; the agent behind it is the ready-made coder.

    python examples/terminal.py

It runs on the offline model unless a key is set. Try `run ls -la`, Esc to interrupt, Ctrl-C twice
to leave.
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
    """Talk to a coding agent until one of the two has enough."""
    llm = open_model(None)
    tools = ToolRegistry(builtin_tools())
    permissions = PermissionManager([PermissionRule.allow_category("read")])
    async with AgentRuntime(store=FileStore("sessions")) as runtime:
        handle = runtime.spawn(AgentSession.new("coder"), coder, llm, tools, permissions)
        await ConsoleRenderer(handle).run()
    await llm.aclose()


if __name__ == "__main__":
    trio.run(main)
