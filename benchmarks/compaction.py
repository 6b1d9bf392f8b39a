"""What a conversation that never ends costs: memory, and the event loop.

python benchmarks/compaction.py [turns]

An agent with a window of 8,000 tokens is asked again and again; its session is in files. A memory,
in a file too, takes what each compaction leaves out, and is searched in every turn. What the
process holds is looked at now and then; it may grow a little after a tenth of the turns. Then a
counter counts what a step counts of a conversation of 10,000 messages, against a first look at all
of it.

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
from greenroom.memory import Compactor, ContextBudget, SQLiteMemory
from greenroom.memory._internal import remind
from greenroom.testing import Reply, ScriptedProvider

TURNS = 10_000
MESSAGES = 10_000
LOOKS = (0.0, 0.1, 0.25, 0.5, 1.0)  # shares of the turns
MAX_GROWTH = 8.0  # MB, from the first tenth of the turns to the last
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


async def converse(turns: int, folder: Path) -> tuple[dict[int, float], int]:
    """Hold a conversation; return the megabytes after some of the turns, and the compactions."""
    llm, store = Model(), FileStore(folder)
    memory = SQLiteMemory(folder / "memory.db")

    async def agent(internals: AgentInternals) -> None:
        compactor = Compactor(llm, ContextBudget(8_000, reply=1_024), memory=memory)
        async for message in internals.inputs():
            async with internals.turn(message):
                await remind(internals, memory, message.text)
                await stream_reply(internals, llm, compactor=compactor)

    sizes: dict[int, float] = {}
    looks = {round(share * turns) for share in LOOKS}
    async with AgentRuntime(store) as runtime:
        handle = runtime.spawn(AgentSession.new("agent", store=store), agent)
        for turn in range(turns + 1):
            if turn in looks:
                sizes[turn] = megabytes()
            await handle.ask(f"Tell me about town {turn}.")
    return sizes, llm.compactions


def count() -> tuple[float, float]:
    """Return the seconds to count a long conversation the first time, and again in a step."""
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
        sizes, compactions = trio.run(converse, turns, Path(folder))
    for turn, size in sizes.items():
        print(f"after {turn:6,} turns: {size:.1f} MB")
    print(f"{compactions} compactions")
    _, early, *_, late = sizes.values()
    first, step = count()
    print(
        f"{MESSAGES:,} messages are counted in {first * 1000:.1f} ms,"
        f" and in {step * 1000:.2f} a step"
    )
    return int(late - early > MAX_GROWTH or step > MAX_STEP * first)


if __name__ == "__main__":
    sys.exit(main())
