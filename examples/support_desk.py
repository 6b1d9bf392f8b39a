"""A support desk of three agents that share a conversation; the session knows which one has it."""

import trio

from greenroom import Agent, AgentSession, Custom, InMemoryStore, RunContext, TextComplete
from greenroom.flow import handoff_team
from greenroom.testing import ScriptedProvider, call

ORDERS = {"ann": "a lamp"}


def find_order(context: RunContext[str]) -> str:
    """Return the customer's order."""
    return ORDERS[context.deps]


desk = Agent(
    ScriptedProvider(call("transfer_to_technician"), "We open at nine."),
    instructions="Say who we are and when we are open. Pass the rest on.",
    deps_type=str,
    handoffs=["technician", "refunds"],
    name="desk",
    description="Knows the shop.",
)
technician = Agent(
    ScriptedProvider(call("find_order"), call("transfer_to_refunds")),
    instructions="Help to repair things. Who can't be helped gets the money back.",
    tools=[find_order],
    deps_type=str,
    handoffs=["desk", "refunds"],
    name="technician",
    description="Repairs things.",
)
refunds = Agent(
    ScriptedProvider("The money for a lamp is on its way.", call("transfer_to_desk")),
    instructions="Give money back. Pass everything else to the desk.",
    deps_type=str,
    handoffs=["desk"],
    name="refunds",
    description="Gives money back.",
)
shop = handoff_team(desk, technician, refunds)


async def main() -> None:
    session = AgentSession.new("shop", store=InMemoryStore())
    for question in ("My lamp came in pieces.", "When do you open?"):
        print("ann:", question)
        async with shop.stream(question, deps="ann", session=session) as run:
            async for chunk in run:
                match chunk:
                    case Custom("handoff", text=text):
                        print(f"({text})")
                    case TextComplete(text):
                        print("shop:", text)
                    case _:
                        pass


trio.run(main)
