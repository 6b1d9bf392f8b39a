"""Loops of agents, for tests."""

from greenroom.agents import run_tools, stream_reply


async def simple_loop(agent, llm, tools, permissions):
    """The usual loop, which knows nothing of calls that were left open."""
    async for message in agent.inputs():
        async with agent.turn(message):
            while True:
                reply = await stream_reply(agent, llm, tools)
                if not reply.tool_uses:
                    break
                await run_tools(agent, reply.tool_uses, tools, permissions)
