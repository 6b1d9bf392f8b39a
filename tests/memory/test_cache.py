"""What a long conversation with compactions costs where a server bills by exact beginnings."""

import trio

from greenroom import AgentRuntime, AgentSession, Custom, MemoryStore, UsageReport, stream_reply
from greenroom.core import Usage
from greenroom.llm import AnthropicProvider
from greenroom.memory import Compactor, ContextBudget
from tests.llm.billing import BillingServer
from tests.llm.server import model_server
from tests.llm.wire import text_block

ANSWER = "The river runs past the old mill, and nobody has seen the miller. " * 24  # 400 tokens
TURNS = 220


async def test_at_least_85_percent_are_cache_reads_the_notes_counted():
    def replies():
        while True:
            yield text_block(0, ANSWER)

    server, told = BillingServer(replies()), []

    async def agent(internals, llm):
        compactor = Compactor(llm, ContextBudget(60_000))
        async for message in internals.inputs():
            async with internals.turn(message):
                await stream_reply(internals, llm, system="Be kind. " * 50, compactor=compactor)

    async def read(chunks):
        told.extend([chunk async for chunk in chunks])

    async with model_server(server) as address:
        llm = AnthropicProvider("claude-test-1", api_key="k", base_url=address.url, env={})
        async with AgentRuntime(store=MemoryStore()) as runtime, trio.open_nursery() as nursery:
            handle = runtime.spawn(AgentSession.new("agent"), agent, llm)
            nursery.start_soon(read, handle.subscribe())
            for number in range(TURNS):
                await handle.ask(f"What of mill {number}? " + "Tell me all of it. " * 8)
            await handle.shutdown()
        await llm.aclose()
    kinds = [chunk.kind for chunk in told if isinstance(chunk, Custom)]
    assert kinds.count("memory.compacted") >= 2
    assert len(server.bills) == TURNS + kinds.count("memory.compacted")  # the notes
    paid, read_, written = map(sum, zip(*server.bills, strict=True))
    assert read_ >= 0.85 * (paid + read_ + written)
    reports = [chunk.usage for chunk in told if isinstance(chunk, UsageReport)]
    assert sum(reports, Usage()).cached == read_ / (paid + read_ + written)
