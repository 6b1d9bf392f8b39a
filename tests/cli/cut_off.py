"""A workflow that was cut off in a node goes on in a terminal, where "Ada" is typed again."""

from typing import TypedDict

import trio

from greenroom import AgentRuntime, AgentSession, ConsoleRenderer, InMemoryStore
from greenroom.flow import END, START, Workflow


class Trip(TypedDict, total=False):
    boat: str
    booked: str


async def main():
    cut = trio.CancelScope()

    async def book(trip: Trip) -> dict[str, object]:
        if not cut.cancel_called:
            cut.cancel()
            await trio.lowlevel.checkpoint()
        return {"booked": "booked now"}

    workflow = Workflow(Trip, input="boat", name="trip").node("book", book)
    workflow.edge(START, "book").edge("book", END)
    store = InMemoryStore()
    with cut:
        await workflow.run("Ada", session="trip", store=store)
    async with AgentRuntime(store=store) as runtime:
        handle = runtime.spawn(await AgentSession.load("trip", store=store), workflow)
        await ConsoleRenderer(handle).run()


if __name__ == "__main__":
    trio.run(main)
