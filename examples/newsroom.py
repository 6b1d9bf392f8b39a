"""Researcher, writer, editor: two research in parallel, one writes until the editor agrees."""

import trio

from greenroom import Agent, SubAgentSpawned, TextComplete
from greenroom.flow import loop, parallel, pipeline
from greenroom.testing import ScriptedProvider, call


def search(topic: str) -> str:
    """Look something up."""
    return {"cats": "Cats sleep 13 hours a day.", "lions": "Lions sleep 20 hours a day."}[topic]


def researcher(topic: str) -> Agent:
    llm = ScriptedProvider(call("search", topic=topic), search(topic))
    return Agent(llm, instructions=f"Find out about {topic}.", tools=[search], name=topic)


writer = Agent(
    ScriptedProvider("Cats sleep a lot, lions more.", "Cats sleep 13 hours a day, lions 20."),
    instructions="Write one sentence of these facts.",
    name="writer",
)
editor = Agent(ScriptedProvider("Give the hours.", "OK"), instructions="OK, or what is missing?")


async def is_good(draft: object) -> bool | str:
    verdict = (await editor.run(str(draft))).output
    print("editor:", verdict)
    return verdict == "OK" or verdict


newsroom = pipeline(
    parallel(researcher("cats"), researcher("lions")), loop(writer, is_good, max_rounds=3)
)


async def main() -> None:
    async with newsroom.stream("How long do they sleep?") as run:
        async for chunk in run:
            match chunk:
                case SubAgentSpawned(name=name):
                    print(f"({name} begins)")
                case TextComplete(text):
                    print("newsroom:", text)
                case _:
                    pass
    print("tokens of all:", run.result.usage.total)


trio.run(main)
