"""Budgets: one purse for several agents, and a tighter budget for a block of code.

    python examples/budgets.py

The model is scripted, so this needs no API key. It has a price of its own.
"""

import trio

import greenroom as gr
from greenroom import Budget
from greenroom.core import Price
from greenroom.testing import Reply, ScriptedProvider, call

ALLOW = gr.PermissionManager([gr.PermissionRule.allow_all()])


@gr.tool(category="read")
async def look_up(word: str) -> str:
    """Look up a word in the dictionary."""
    return f"{word}: see elsewhere"


async def researcher(agent: gr.AgentInternals, llm: gr.LLMProvider) -> None:
    """Look up at most two words, then answer with the results."""
    tools = gr.ToolRegistry([look_up])
    async for message in agent.inputs():
        async with agent.turn(message):
            try:
                with agent.budget(tool_calls=2, seconds=60):
                    while (reply := await gr.stream_reply(agent, llm, tools)).tool_uses:
                        await gr.run_tools(agent, reply.tool_uses, tools, ALLOW)
            except gr.BudgetExceededError as error:
                print("block:", error)
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
