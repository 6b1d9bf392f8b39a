"""A feed and a desk that reads it: when the feed crashes, both are restarted.

python examples/supervision.py
"""

import trio

from greenroom import (
    AgentExit,
    AgentInternals,
    AgentRuntime,
    AgentSession,
    InMemoryStore,
    Message,
    Restarted,
    TextComplete,
)
from greenroom.resilience import Backoff


async def feed(agent: AgentInternals) -> None:
    """Fetch from a source; a broken one crashes the agent."""
    async for message in agent.inputs():
        async with agent.turn(message):
            if message.text == "the broken source":
                raise ConnectionResetError("the source hung up")
            agent.session.add_message(Message.assistant(f"news from {message.text}"))


async def desk(agent: AgentInternals) -> None:
    """Print each item, and the length of the conversation so far."""
    async for message in agent.inputs():
        async with agent.turn(message):
            lines = len(agent.session.history)
            await agent.send(TextComplete(f"{message.text}, line {lines}"))


async def main() -> None:
    """Run both, crash the first, and show how they come back."""
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        team = runtime.supervisor("rest_for_one", backoff=Backoff(first=0.01), name="newsroom")
        source = team.spawn(AgentSession.new("feed"), feed, restart="transient")
        reader = team.spawn(AgentSession.new("desk"), desk, restart="permanent")
        await reader.ask((await source.ask("the harbour")).text)
        failed = await source.ask("the broken source")
        print(f"asked the broken source: {failed.status}, {failed.error}")

        # The same handles reach the agents of the next life, and the conversations go on.
        await reader.ask((await source.ask("the market")).text)
        await print_what_the_desk_saw(runtime, reader.session_id)
        for child in team.children:
            print(f"{child.name}: {child.restarts} restart")
        await watch_an_end(runtime)


async def print_what_the_desk_saw(runtime: AgentRuntime, session_id: str) -> None:
    """Read the whole stream, through the restart."""
    handle = runtime.get(session_id)
    assert handle is not None  # it runs
    stream = handle.subscribe(replay="all")
    for _ in range(stream.lag):
        match await anext(stream):
            case TextComplete(text=text):
                print(f"desk: {text}")
            case Restarted(restarts=restarts, error=error):
                print(f"desk: restart {restarts}, because {error}")
            case _:
                pass


async def watch_an_end(runtime: AgentRuntime) -> None:
    """Monitor an agent without a supervisor."""

    async def guard(agent: AgentInternals) -> None:
        agent.monitor(lonely)
        async for message in agent.inputs():
            if isinstance(message, AgentExit):
                print(f"guard: the {message.agent_type} has ended: {message.error}")
                return

    lonely = runtime.spawn(AgentSession.new("feed"), feed)
    watching = runtime.spawn(AgentSession.new("guard"), guard)
    await lonely.ask("the broken source")
    await watching.wait()


if __name__ == "__main__":
    trio.run(main)
