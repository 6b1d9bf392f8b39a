"""A writer that asks a researcher: one agent as the tool of another, under one budget."""

import trio

from greenroom import Agent, Budget, SubAgentOutput, TextComplete
from greenroom.testing import ScriptedProvider, call


def search(topic: str) -> str:
    """Look something up."""
    return f"{topic} sleep 13 hours a day"


researcher = Agent(
    ScriptedProvider(call("search", topic="cats"), "Cats sleep 13 hours a day."),
    tools=[search],
    name="researcher",
    description="Finds facts. Ask one question at a time.",
)
writer = Agent(
    ScriptedProvider(
        call("researcher", prompt="How long do cats sleep?"),
        "More than half the day, a cat is away.",
    ),
    instructions="Write one sentence. Ask the researcher for facts.",
    tools=[researcher.as_tool()],
    budget=Budget(model_calls=10),
    name="writer",
)


async def main() -> None:
    async with writer.stream("Write about cats.") as run:
        async for chunk in run:
            match chunk:
                case SubAgentOutput(chunk=TextComplete(text)):
                    print("researcher:", text)
                case TextComplete(text):
                    print("writer:", text)
                case _:
                    pass
    print("tokens of both:", run.result.usage.total)


trio.run(main)
