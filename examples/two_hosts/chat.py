"""A chat service on two hosts: when one of them is gone, the other takes its conversations over.

    pip install 'greenroom[postgres]'
    export GREENROOM_DSN=postgresql://…
    python examples/two_hosts/chat.py host one &        # on each machine
    python examples/two_hosts/chat.py host two &
    python examples/two_hosts/chat.py say ann "I am Ann."
    kill -9 …                                           # the host that has the conversation
    python examples/two_hosts/chat.py say ann "Who am I?"

The database is what they share; no host leads. The model is scripted; `--model NAME` of a host
takes a real one.
"""

import argparse

import trio

from greenroom import Agent, ModelRequest, SessionLockedError
from greenroom.distributed import AgentSpec, AgentType, Cluster, Host, NoHostError, RemoteAgent
from greenroom.testing import ScriptedProvider

SCHEMA = "chat"


def play(request: ModelRequest) -> str:
    """Stand in for a model: quote what was said at first."""
    said = [each.text for each in request.messages if each.role == "user"]
    return f"You have said {len(said)} things, and at first: {said[0]}"


def chatter(name: str) -> AgentType:
    """Return the type of agents that a host runs."""

    def make(spec: AgentSpec) -> tuple[Agent, tuple[object, ...]]:
        return Agent(name or ScriptedProvider(*[play] * 10_000), name="chatter"), ()

    return AgentType("chatter", make)


async def run_host(name: str, model: str) -> None:
    """Run agents until this process ends."""
    async with Cluster(schema=SCHEMA) as cluster, trio.open_nursery() as nursery:
        number = await nursery.start(Host(cluster, [chatter(model)], name=name).run)
        print(f"host {name} is there, as number {number}", flush=True)


async def find(cluster: Cluster, person: str) -> RemoteAgent:
    """Return the agent that talks with a person; it is placed on a host if there is none yet."""
    try:
        return await cluster.spawn(AgentSpec("chatter"), session_id=person)
    except SessionLockedError:  # it runs
        agent = await cluster.get(person)
        assert agent is not None
        return agent


async def say(person: str, text: str) -> None:
    """Say something, and print the answer and which host has given it."""
    async with Cluster(schema=SCHEMA) as cluster:
        try:
            agent = await find(cluster, person)
        except NoHostError as error:
            raise SystemExit(f"nobody is there: {error}") from None
        # The input is stored before anything else: whichever host has the agent by then answers.
        result = await agent.ask(text)
        print(f"{(await agent.status()).host}: {result.text}")


async def main() -> None:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    host = commands.add_parser("host")
    host.add_argument("name")
    host.add_argument("--model", default="")
    speak = commands.add_parser("say")
    speak.add_argument("person")
    speak.add_argument("text")
    options = parser.parse_args()
    if options.command == "host":
        await run_host(options.name, options.model)
    else:
        await say(options.person, options.text)


if __name__ == "__main__":
    trio.run(main)
