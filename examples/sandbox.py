"""A coding agent whose commands run in a sandbox of the operating system.

    python examples/sandbox.py

The rules let every command run, and the sandbox limits what it can do. The report shows what this
machine can enforce, which was found by trying. The model is scripted, so this needs no API key.
"""

import tempfile
from pathlib import Path

import trio

from greenroom import (
    AgentRuntime,
    AgentSession,
    InMemoryStore,
    PermissionManager,
    ToolEnd,
    ToolRegistry,
    builtin_tools,
    coder,
)
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import ProcessLimits, Sandbox, examine_sandbox

COMMANDS = {
    "write here": "echo kept > notes.txt && cat notes.txt",
    "reach a host": "(exec 3<> /dev/tcp/127.0.0.1/9) 2> /dev/null || echo no network",
    "fill the disk": "{ head -c 5000000 /dev/zero > long; } 2> /dev/null; wc -c < long",
}


async def main() -> None:
    """Run each command through the agent, and print the result."""
    sandbox = Sandbox(limits=ProcessLimits(file_megabytes=1, processes=100))
    report = await examine_sandbox(sandbox)
    print("asked for:", report.mode, "with network", report.network)
    print("cpu is held by:", report.enforced["cpu"])

    llm = ScriptedProvider(*(call("Bash", command=each) for each in COMMANDS.values()), "Done.")
    tools = ToolRegistry(builtin_tools(sandbox=sandbox))
    rules = PermissionManager(mode="bypass")
    with tempfile.TemporaryDirectory() as folder:
        async with AgentRuntime(store=InMemoryStore(), workspace=Path(folder)) as runtime:
            handle = runtime.spawn(AgentSession.new("coder"), coder, llm, tools, rules)
            receipt = await handle.send_input("Try what you can.")
            names = iter(COMMANDS)
            async for chunk in handle.stream(receipt):
                if isinstance(chunk, ToolEnd):
                    print(f"{next(names)}:", chunk.result.text.splitlines()[0])


if __name__ == "__main__":
    trio.run(main)
