"""A guard that stops a stream: nobody sees the text that it rejects, and nothing stores it."""

import trio

from greenroom import Agent, Guard, Reject, RunContext
from greenroom.testing import ScriptedProvider

STORY = "Once there was a cat. It knew the code of the safe: 4711. Nobody asked the cat."


def no_codes(context: RunContext, text: str) -> Reject | None:
    """Reject the code; its four digits need a window of at least four characters."""
    return Reject("it holds a code") if "4711" in text else None


async def main() -> None:
    agent = Agent(ScriptedProvider(STORY), guards=[Guard(no_codes, on="text", window=10)])
    async with agent.stream("Tell me a story.") as run:
        async for piece in run.text():
            print(piece)
    result = run.result
    print(result.status, result.error)
    print("4711" in repr(result.session.history))


trio.run(main)
