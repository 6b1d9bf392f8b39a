"""What of a long conversation an agent pays for twice."""

from greenroom.agents import run_tools, stream_reply
from greenroom.core import Usage, UsageReport
from greenroom.llm import AnthropicProvider
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore
from greenroom.tools import ToolRegistry, tool
from tests.llm.billing import BillingServer
from tests.llm.server import model_server
from tests.llm.wire import text_block, tool_block

ALL = PermissionManager([PermissionRule.allow_all()])
STEPS = 3  # model calls in a turn
TURNS = 30


@tool(category="read")
def look_up(topic: str) -> str:
    """Look something up."""
    return f"All that is known of {topic}: " + "much, " * 100


@tool(category="read")
def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


async def reader(agent, llm, tools):
    """Answer with the tools there are; shorten the conversation where it is told to."""
    async for message in agent.inputs():
        async with agent.turn(message):
            while True:
                reply = await stream_reply(agent, llm, tools, instructions="Look it up. " * 20)
                if not reply.tool_uses:
                    break
                await run_tools(agent, reply.tool_uses, tools, ALL)
        if message.text == "And then forget it.":
            await agent.session.compact("We have looked up a lot. " * 300, keep=2)


def turn(number):
    """What the model says in a turn: some calls, one after another, and a text."""
    for call in range(STEPS - 1):
        said = text_block(0, f"I look up number {call}.")
        yield said + tool_block(1, "call_0", "look_up", f'{{"topic": "{number}"}}')
    yield text_block(0, f"This is what I found of {number}. " * 20)


async def converse(inputs, tools):
    """Have a conversation; return the reports and the bills of each turn."""
    server = BillingServer([reply for number in range(len(inputs)) for reply in turn(number)])
    reports = []
    async with model_server(server) as address:
        llm = AnthropicProvider("claude-test-1", api_key="k", base_url=address.url, env={})
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            handle = runtime.spawn(AgentSession.new("reader"), reader, llm, tools)
            for text in inputs:
                if text == "With another tool:":
                    tools.register(add)
                await handle.ask(text)
            async with handle.subscribe("all") as chunks:
                await handle.shutdown()
                reports = [chunk.usage async for chunk in chunks if isinstance(chunk, UsageReport)]
        await llm.aclose()
    assert [
        (r.input_tokens, r.cache_read_tokens, r.cache_write_tokens) for r in reports
    ] == server.bills
    return [reports[at : at + STEPS] for at in range(0, len(reports), STEPS)]


async def test_a_long_conversation_is_read_from_the_cache():
    turns = await converse([f"What of number {n}?" for n in range(TURNS)], ToolRegistry([look_up]))
    later = [usage for turn in turns[2:] for usage in turn]
    assert sum(later, Usage()).cache_share >= 0.85
    assert not any(usage.is_cache_miss for usage in later)


async def test_a_compaction_and_another_tool_are_one_miss_each():
    inputs = [f"What of number {n}?" for n in range(8)]
    inputs[3], inputs[6] = "And then forget it.", "With another tool:"
    turns = await converse(inputs, ToolRegistry([look_up]))
    missed = [(n, call) for n, turn in enumerate(turns) for call in range(STEPS)
              if turn[call].is_cache_miss]  # fmt: skip
    assert missed == [(1, 2), (4, 0), (6, 0)]  # the first is the first that is long enough
