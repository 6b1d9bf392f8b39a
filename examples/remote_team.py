"""A team with an agent of somebody else, which speaks A2A: it drafts, and ours has the last word.

It needs `pip install 'greenroom[serve]'`. The other agent is one of ours here, behind a server that
speaks nothing but A2A; with the address of another maker's agent the rest stays as it is.
"""

import trio

from greenroom import Agent, AgentRuntime, InMemoryStore, TextComplete
from greenroom.flow import pipeline
from greenroom.interop import A2AServer, remote
from greenroom.testing import ScriptedProvider

drafter = Agent(ScriptedProvider("The harbour was full of boats."), name="drafter")


def shorten(request: object) -> str:
    return "Boats filled the harbour."


async def main() -> None:
    async with AgentRuntime(InMemoryStore()) as elsewhere, trio.open_nursery() as nursery:
        server = A2AServer(elsewhere, drafter)  # on another machine, in earnest
        address, _, token = (await nursery.start(server.serve)).partition("/#token=")

        editor = Agent(ScriptedProvider(shorten), instructions="Make it shorter.", name="editor")
        team = pipeline(remote(address, token=token), editor)
        async with team.stream("Write a line about a harbour.") as run:
            async for chunk in run:
                if isinstance(chunk, TextComplete):
                    print("team:", chunk.text)
        nursery.cancel_scope.cancel()


trio.run(main)
