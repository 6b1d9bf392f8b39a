"""One agent per prompt, a few at once: wait for all, for the first, or until one fails.

python examples/fan_out.py
"""

import trio

from greenroom import AgentInternals, AgentRuntime, AgentSession, InMemoryStore, Message, ModelError
from greenroom.runtime import fan_out

SIZES = {"core": 3, "tools": 2, "runtime": 1}


async def reviewer(agent: AgentInternals) -> None:
    """Review one package; a larger one takes longer."""
    async for message in agent.inputs():
        async with agent.turn(message):
            if message.text not in SIZES:
                raise ModelError(f"there is no package {message.text}")
            await trio.sleep(0.05 * SIZES[message.text])
            agent.session.add_message(Message.assistant(f"{message.text} is fine"))


async def lead(agent: AgentInternals) -> None:
    """Give each package in the input to a subagent of its own."""
    async for message in agent.inputs():
        async with agent.turn(message):
            reviews = await fan_out(agent, reviewer, inputs=message.text.split(), concurrency=2)
            agent.session.add_message(Message.assistant("; ".join(r.text for r in reviews)))


async def main() -> None:
    """Ask a lead, who asks reviewers; then ask reviewers directly, in two other ways."""
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("lead"), lead)
        print("all:", (await handle.ask("core tools runtime")).text)

        quickest = await fan_out(runtime, reviewer, inputs=SIZES, until=1)
        print("the first:", [result.text for result in quickest if result is not None])

        prompts = ["core", "misspelt", "tools"]
        results = await fan_out(runtime, reviewer, inputs=prompts, until="first_failure")
        for prompt, result in zip(prompts, results, strict=True):
            print(f"{prompt}:", "not needed any more" if result is None else result.error)


if __name__ == "__main__":
    trio.run(main)
