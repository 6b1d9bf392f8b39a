"""An agent whose tool asks for a token, in a terminal. All that it says is written down.

SIGUSR2 interrupts it, and so does SIGUSR1, after which the line takes nothing for long.
"""

import hashlib
import logging
import signal
import sys

import trio

from greenroom import (
    AgentContext,
    AgentRuntime,
    AgentSession,
    ConsoleRenderer,
    FileStore,
    PermissionManager,
    PermissionRule,
    ToolRegistry,
    coder,
    tool,
)
from greenroom.cli import prompt_terminal
from greenroom.core import Credential
from greenroom.core._internal import serde
from greenroom.testing import ScriptedProvider, call

TOKEN = Credential("shop token", hint="Account > API tokens")


@tool(credentials=[TOKEN])
async def orders(context: AgentContext) -> str:
    """List the orders."""
    value = TOKEN.value(context)
    return f"found by {hashlib.sha256(value.encode()).hexdigest()[:12]}, not by {value}"


async def write_down(handle, path):
    with path.open("ab", buffering=0) as file:
        async with handle.subscribe("all") as chunks:
            async for chunk in chunks:
                file.write(serde.encode(chunk) + b"\n")


async def interrupt(handle):
    with trio.open_signal_receiver(signal.SIGUSR1, signal.SIGUSR2) as signals:
        async for number in signals:
            if number == signal.SIGUSR1:
                prompt_terminal.GUARD = 30.0  # as long as a test on a busy machine may need
            await handle.interrupt()


async def main(folder):
    logging.basicConfig(level=logging.DEBUG, filename=str(folder / "log"))
    model = ScriptedProvider(call("orders"), "First done.", call("orders"), "Second done.")
    rules = PermissionManager([PermissionRule.allow_tool("orders")])
    async with AgentRuntime(store=FileStore(folder / "sessions")) as runtime:
        session = AgentSession.new("coder")
        handle = runtime.spawn(session, coder, model, ToolRegistry([orders]), rules)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write_down, handle, folder / "chunks")
            nursery.start_soon(interrupt, handle)
            await ConsoleRenderer(handle).run()
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    from pathlib import Path

    trio.run(main, Path(sys.argv[1]))
