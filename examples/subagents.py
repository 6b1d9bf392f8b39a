"""A parent that runs subagents through their handles: it waits for one, and not for the other.

python examples/subagents.py
"""

import trio

from greenroom import (
    AgentInternals,
    AgentRuntime,
    AgentSession,
    InMemoryStore,
    Message,
    SubAgentResult,
    TextComplete,
)


async def counter(agent: AgentInternals) -> None:
    """Count the words of each input, and take a moment for each."""
    async for message in agent.inputs():
        async with agent.turn(message):
            words = message.text.split()
            await trio.sleep(0.01 * len(words))
            await say(agent, f"{len(words)} words")


async def boss(agent: AgentInternals) -> None:
    """Delegate in two ways."""
    async for message in agent.inputs():
        async with agent.turn(message):
            if isinstance(message, SubAgentResult):
                # The subagent in the background has ended: its result is an input like any other.
                await say(agent, f"in the background: {message.text}")
            else:
                await delegate(agent, message.text)


async def delegate(agent: AgentInternals, text: str) -> None:
    """Wait for one subagent, then start another and go on without it."""
    helper = agent.spawn(AgentSession.new("counter"), counter)
    result = await helper.ask(text)
    await helper.shutdown()

    background = agent.spawn(AgentSession.new("counter"), counter_once, f"{text} {text}")
    await say(agent, f"waited for: {result.text}; {background.name} is on its way")


async def counter_once(agent: AgentInternals, text: str) -> None:
    """Count one text and end: an agent need not take inputs at all."""
    await trio.sleep(0.05)
    await say(agent, f"{len(text.split())} words")


async def say(agent: AgentInternals, text: str) -> None:
    """Add a reply to the history and show it to the subscribers."""
    agent.session.add_message(Message.assistant(text))
    await agent.send(TextComplete(text))


async def main() -> list[str]:
    """Run the parent and print what it says."""
    said = []
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("boss"), boss)
        await handle.send_input("how many words are these")
        async with handle.subscribe(replay="all") as chunks:
            async for chunk in chunks:
                if isinstance(chunk, TextComplete):
                    print(chunk.text)
                    said.append(chunk.text)
                if len(said) == 2:
                    break
    return said


if __name__ == "__main__":
    trio.run(main)
