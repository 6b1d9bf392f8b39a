"""A desk that passes the conversation to who knows more, and gets it back; the session knows who has it."""

import trio

from greenroom import Agent, AgentSession, Custom, MemoryStore, RunContext, TextComplete
from greenroom.testing import ScriptedProvider, call

ORDERS = {"ann": "a lamp"}


def find_order(context: RunContext[str]) -> str:
    """Find what the person who asks has ordered."""
    return ORDERS[context.deps]


refunds = Agent(
    ScriptedProvider(
        call("find_order"),
        "The money for a lamp is on its way.",
        call("transfer_to_desk"),
    ),
    instructions="Give money back. Pass everything else to the desk.",
    tools=[find_order],
    deps_type=str,
    handoffs=["desk"],
    name="refunds",
    description="Gives money back.",
)
desk = Agent(
    ScriptedProvider(call("transfer_to_refunds"), "We open at nine."),
    instructions="Say who we are and when we are open. Pass the rest on.",
    deps_type=str,
    handoffs=[refunds],
    name="desk",
    description="Knows the shop.",
)


async def main() -> None:
    session = AgentSession.new("shop", store=MemoryStore())
    for question in ("My lamp came in pieces.", "When do you open?"):
        print("ann:", question)
        async with desk.stream(question, deps="ann", session=session) as run:
            async for chunk in run:
                match chunk:
                    case Custom("handoff", text=text):
                        print(f"({text})")
                    case TextComplete(text):
                        print("shop:", text)
                    case _:
                        pass


trio.run(main)
