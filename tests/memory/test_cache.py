"""The cost of a long conversation with compactions, if a server bills by exact prefixes."""

import trio

from greenroom import AgentRuntime, AgentSession, Custom, InMemoryStore, UsageReport, stream_reply
from greenroom.core import Usage
from greenroom.llm import AnthropicProvider
from greenroom.memory import Compactor, ContextBudget
from tests.llm.billing import BillingServer
from tests.llm.server import model_server
from tests.llm.wire import text_block

WORDS = "The river runs past the old mill, and nobody has seen the miller. "
NOTES = (
    "The miller of the old mill is looked for. " * 40
)  # 420 tokens, about all that they may take
TURNS = 200  # of 100 to 200 tokens


class Server(BillingServer):
    """Answers with notes where it is asked for them."""

    def __init__(self):
        super().__init__(iter(self.reply, None))

    def __call__(self, request):
        self.is_notes = "You keep the notes" in str(request.body.get("system"))
        return super().__call__(request)

    def reply(self):
        return text_block(0, NOTES if self.is_notes else WORDS * (5 + len(self.bills) % 5))


async def test_at_least_85_percent_are_cache_reads_the_notes_counted():
    server, told = Server(), []

    async def agent(internals, llm):
        compactor = Compactor(llm, ContextBudget(8_000, reply=1_024))
        async for message in internals.inputs():
            async with internals.turn(message):
                await stream_reply(internals, llm, instructions="Be kind.", compactor=compactor)

    async def read(chunks):
        told.extend([chunk async for chunk in chunks])

    async with model_server(server) as address:
        llm = AnthropicProvider("claude-test-1", api_key="k", base_url=address.url, env={})
        async with AgentRuntime(store=InMemoryStore()) as runtime, trio.open_nursery() as nursery:
            handle = runtime.spawn(AgentSession.new("agent"), agent, llm)
            nursery.start_soon(read, handle.subscribe())
            for number in range(TURNS):
                await handle.ask(f"What of mill {number}? " + "Tell me all of it. " * 4)
            await handle.shutdown()
        await llm.aclose()
    kinds = [chunk.kind for chunk in told if isinstance(chunk, Custom)]
    compactions = kinds.count("memory.compacted")
    assert 5 <= compactions <= 25
    assert len(server.bills) == TURNS + compactions  # the notes
    pairs = zip(server.texts, server.texts[1:], strict=False)
    assert sum(not after.startswith(before) for before, after in pairs) == 2 * compactions
    paid, read_, written = map(sum, zip(*server.bills, strict=True))
    assert read_ >= 0.85 * (paid + read_ + written)
    reports = [chunk.usage for chunk in told if isinstance(chunk, UsageReport)]
    assert sum(reports, Usage()).cache_share == read_ / (paid + read_ + written)
