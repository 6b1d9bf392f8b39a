"""What a question costs in a memory of 100,000 entries, and whether memory stays flat.

python benchmarks/memory.py

The floor is a question of one rare word. Each is asked in turn with one of eight common words,
which are in a fiftieth to all of the entries; the medians are compared. Then the process's memory
is looked at over some thousand questions. Exits with 1 where a bound is broken.
"""

import random
import resource
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import trio

from greenroom.core import utc_now
from greenroom.memory import SQLiteMemory, rows

ENTRIES = 100_000
SHARES = (0.02, 0.2, 0.5, 1.0)  # of the entries that a common word is in
ROUNDS = 25
COSTLIEST = 12.0  # times the floor
QUESTIONS = 2_000
GROWTH = 8.0  # megabytes


def fill(connection, share):
    chance = random.Random(1)
    for number in range(ENTRIES):
        said = [f"common{each}" for each in range(20) if chance.random() < share]
        said += [f"word{chance.randrange(50_000)}" for _ in range(6)] + [f"rare{number}"]
        chance.shuffle(said)
        rows.add(connection, " ".join(said), rows.About(), utc_now())


async def seconds(memory, question):
    start = time.process_time()
    await memory.recall(question)
    return time.process_time() - start


async def ratio(memory):
    rare, common = [], []
    for number in range(ROUNDS):
        rare.append(await seconds(memory, f"what is rare{number * 997 % ENTRIES}?"))
        eight = " ".join(f"common{(number + each) % 20}" for each in range(8))
        common.append(await seconds(memory, eight))
    return statistics.median(common) / statistics.median(rare)


async def growth(memory):
    """Return by how many megabytes the process grows over many questions, after some to warm up."""
    sizes = []
    for number in range(QUESTIONS):
        await memory.recall(f"rare{number} common{number % 20} common{number % 7}")
        if number in (QUESTIONS // 4, QUESTIONS - 1):
            sizes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return sizes[1] - sizes[0]


async def main():
    broken = False
    with tempfile.TemporaryDirectory() as folder:
        for share in SHARES:
            memory = SQLiteMemory(Path(folder, f"{share}.db"), max_entries=2 * ENTRIES)
            await memory._database.run(partial(fill, share=share), writes=True)
            found = await ratio(memory)
            broken |= found > COSTLIEST
            print(f"words in {share:4.0%} of the entries: {found:5.1f} x one rare word")
        grown = await growth(memory)
        broken |= grown > GROWTH
        print(f"{QUESTIONS:,} questions: {grown:.1f} MB more")
    return int(broken)


if __name__ == "__main__":
    sys.exit(trio.run(main))
