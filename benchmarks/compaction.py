"""What a conversation that never ends costs: memory, and the event loop.

python benchmarks/compaction.py [turns]

An agent with a window of 8,000 tokens is asked again and again; its session is in files. The memory of
the process is looked at after the first fifth of the turns and at the end. Then a counter counts what a
step counts of a conversation of 10,000 messages, against a first look at all of it.

Exits with 1 where a bound is broken.
"""

import gc
import os
import sys
import tempfile
import time
from pathlib import Path

import trio

from greenroom import AgentInternals, AgentRuntime, AgentSession, FileStore, Message, stream_reply
from greenroom.core import ModelRequest, Usage
from greenroom.llm import EstimatedCounter
from greenroom.memory import Compactor, ContextBudget
from greenroom.testing import Reply, ScriptedProvider

TURNS = 10_000
MESSAGES = 10_000
MAX_GROWTH = 8.0  # MB, from the first fifth of the turns to the last
MAX_STEP = 0.1  # of a first look
WORDS = "The quick brown fox jumps over the lazy dog near the old river bank. " * 8


def megabytes() -> float:
    """What the process holds."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Model(ScriptedProvider):
    """Says the same for ever, and keeps nothing of what it was asked."""

    def __init__(self) -> None:
        super().__init__(self.answer)
        self.compactions = 0

    def answer(self, request: ModelRequest) -> Reply:
        self.requests.clear()
        self._script.append(self.answer)
        is_summary = "You keep the notes" in str(request.system)
        self.compactions += is_summary
        size = sum(len(message.text) for message in request.messages) // 4
        return Reply("notes" if is_summary else WORDS, Usage(size, 100))


async def converse(turns: int, folder: str) -> tuple[float, float, int]:
    """Hold a conversation; return the megabytes after a fifth and at the end, and the compactions."""
    llm, store = Model(), FileStore(Path(folder))

    async def agent(internals: AgentInternals) -> None:
        compactor = Compactor(llm, ContextBudget(8_000, reply=1_024))
        async for message in internals.inputs():
            async with internals.turn(message):
                await stream_reply(internals, llm, compactor=compactor)

    async with AgentRuntime(store) as runtime:
        handle = runtime.spawn(AgentSession.new("agent", store=store), agent)
        early = 0.0
        for turn in range(turns):
            await handle.ask(f"Tell me about town {turn}.")
            if turn == turns // 5:
                early = megabytes()
    return early, megabytes(), llm.compactions


def count() -> tuple[float, float]:
    """Return the seconds of a first look at a long conversation, and of what a step counts of it."""
    said = [Message.user(f"{number} {WORDS}") for number in range(MESSAGES)]
    counter = EstimatedCounter()
    begin = time.perf_counter()
    counter.count(ModelRequest(messages=said))
    first = time.perf_counter() - begin
    steps = []
    for number in range(30):
        begin = time.perf_counter()
        counter.observe(ModelRequest(messages=said), Usage(input_tokens=1_200_000 + number))
        counter.count([])
        said.append(Message.user("And is that so?"))
        counter.count(ModelRequest(messages=said))
        steps.append(time.perf_counter() - begin)
    return first, sorted(steps)[15]


def main() -> int:
    """Measure, and say whether the bounds hold."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else TURNS
    with tempfile.TemporaryDirectory() as folder:
        early, late, compactions = trio.run(converse, turns, folder)
    print(f"{turns:,} turns, {compactions} compactions: {early:.1f} MB, then {late:.1f} MB")
    first, step = count()
    print(
        f"{MESSAGES:,} messages are counted in {first * 1000:.1f} ms, and in {step * 1000:.2f} a step"
    )
    return int(late - early > MAX_GROWTH or step > MAX_STEP * first)


if __name__ == "__main__":
    sys.exit(main())
