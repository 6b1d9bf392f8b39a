"""A host in a process of its own, whose agents have one effect for each input.

Its arguments are FILE SCHEMA PATIENCE SECONDS [HOST:PORT]. The input "poison" ends it, and the turn
of "wait" never ends by itself.
"""

import os
import signal
import sys

import trio

from greenroom.core import Message, ToolResultBlock, ToolUseBlock, UserInput
from greenroom.distributed import AgentType, Cluster, Host, host, hosted_agent


async def work(agent, path):
    """Do something for each input that must not be done twice, as a tool of a model would."""
    async for message in agent.inputs():
        async with agent.turn(message):
            if agent.session.history[-1].text == "poison":
                await agent.session.save()
                os.kill(os.getpid(), signal.SIGKILL)
            if isinstance(message, UserInput) and message.text == "wait":
                await agent.session.save()
                await trio.sleep_forever()
            if isinstance(message, UserInput):
                await have_effect(agent, message, path)
            agent.session.add_message(Message.assistant("done"))


async def have_effect(agent, message, path):
    call = ToolUseBlock(f"t-{message.id}", "Append", {})
    agent.session.add_message(Message.assistant([call]))
    agent.session.mark_tools_started([call.id])
    await agent.session.save()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, f"{message.id}\n".encode())
    os.close(descriptor)
    result = ToolResultBlock(call.id, "appended")
    agent.session.add_message(Message("user", (result,)))


async def main(path, schema, patience, seconds, bind="127.0.0.1:0"):
    host.LOOK = seconds
    hosted_agent.MOST_ENDS = int(os.environ.get("MOST_ENDS", hosted_agent.MOST_ENDS))
    async with Cluster(schema=schema, patience=patience) as cluster, trio.open_nursery() as nursery:
        kind = AgentType("worker", lambda spec: (work, (path,)))
        print(await nursery.start(Host(cluster, [kind], bind=bind, insecure=True).run), flush=True)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:3], *map(float, sys.argv[3:5]), *sys.argv[5:])
