"""Agents that ask for permission while another one never stops talking; a program of its own.

    python -m tests.cli.crowd COMMAND...

Each command is asked about by a subagent of its own, in this order, and runs if it is allowed. With
`CROWD_GUARD` a question takes its answer after so many seconds, so that a test is surely faster;
with `CROWD_WAITS` nothing is asked before SIGUSR1.
"""

import os
import signal
import sys
from pathlib import Path

import trio

from greenroom import AgentRuntime, AgentSession, InMemoryStore, ToolRegistry, coder
from greenroom.cli import ConsoleRenderer, prompt_terminal, terminal as plain_terminal
from greenroom.cli.run_rules import load_rules
from greenroom.core import PermissionRequest, TextComplete
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import builtin_tools

PAUSE = 0.05  # seconds between two things that the talker says


async def talk(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            number = 0
            while True:
                number += 1
                await agent.send(TextComplete(f"said {number}"))
                await trio.sleep(PAUSE)


async def lead(agent, commands):
    async for message in agent.inputs():
        if message.text != "go":
            async with agent.turn(message):
                await agent.send(TextComplete(f"heard {message.text!r}"))
            continue
        async with agent.turn(message), trio.open_nursery() as nursery:
            talker = agent.spawn(AgentSession.new("talker"), talk, name="talker")
            with trio.open_signal_receiver(signal.SIGUSR1) as signals:
                await talker.send_input("talk")
                if "CROWD_WAITS" in os.environ:
                    await anext(aiter(signals))
            for number, command in enumerate(commands):
                llm = ScriptedProvider(call("Bash", command=command), "Done.")
                parts = (llm, ToolRegistry(builtin_tools()), load_rules(Path.cwd()).manager)
                name = f"worker {number}"
                worker = agent.spawn(AgentSession.new("coder"), coder, *parts, name=name)
                async with worker.subscribe() as chunks:
                    nursery.start_soon(worker.ask, "work")
                    async for chunk in chunks:
                        if isinstance(chunk, PermissionRequest):
                            break


async def main():
    async with AgentRuntime(store=InMemoryStore(), workspace=Path.cwd()) as runtime:
        handle = runtime.spawn(AgentSession.new("lead"), lead, sys.argv[1:], name="lead")
        await handle.send_input("go")
        await ConsoleRenderer(handle).run()


if __name__ == "__main__":
    if "CROWD_GUARD" in os.environ:
        plain_terminal.GUARD = prompt_terminal.GUARD = float(os.environ["CROWD_GUARD"])
    trio.run(main)
