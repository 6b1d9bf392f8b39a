"""Budgets: a purse for a tree of agents, and a tighter one for a block that may fail and be caught.

The model is scripted and has a price of its own, so this runs without a key.

    python examples/budgets.py
"""

import trio

import greenroom as gr
from greenroom.core import Price
from greenroom.resilience import Budget
from greenroom.testing import Reply, ScriptedProvider, call

ALLOW = gr.PermissionManager([gr.PermissionRule.allow_all()])


@gr.tool(category="read")
async def look_up(word: str) -> str:
    """Look a word up in the dictionary."""
    return f"{word}: see elsewhere"


async def researcher(agent: gr.AgentInternals, llm: gr.LLMProvider) -> None:
    """Look things up, twice at the most, and then answer with what there is."""
    tools = gr.ToolRegistry([look_up])
    async for message in agent.inputs():
        async with agent.turn(message):
            try:
                with agent.budget(tool_calls=2, seconds=60):
                    while (reply := await gr.stream_reply(agent, llm, tools)).tool_uses:
                        await gr.run_tools(agent, reply.tool_uses, tools, ALLOW)
            except gr.BudgetExceededError as spent:
                print("block:", spent)
                # The last results tell the model the reason; now it may only answer.
                await gr.stream_reply(agent, llm, tools, tool_choice="none")


async def main() -> None:
    """Ask two agents that pay from one purse, until it is empty."""
    words = [call("look_up", word=word) for word in ("actor", "agent", "stage")]
    million = gr.Usage(1_000_000, 0)
    llm = ScriptedProvider(
        Reply(words, usage=million),
        Reply("An actor is an agent.", usage=million),
        price=Price(input=1.5, output=7.5),
    )
    purse = Budget(cost=3.0)
    async with gr.AgentRuntime(store=gr.InMemoryStore()) as runtime:
        for name in ("first", "second"):
            session = gr.AgentSession.new("researcher")
            handle = runtime.spawn(session, researcher, llm, name=name, budget=purse)
            result = await handle.ask("What is an actor?")
            print(f"{name}:", result.text or result.error)
    print("spent:", purse.used["cost"])


if __name__ == "__main__":
    trio.run(main)
