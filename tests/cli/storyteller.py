"""Streams random replies through the terminal, whose window it resizes while nothing streams.

python -m tests.cli.storyteller SEED COUNT TMUX-SOCKET

It stands in a pane of tmux. Before each reply it says its number, and at the end that it is over.
"""

import os
import random
import sys
from functools import partial

import trio

from greenroom.cli import ConsoleRenderer
from greenroom.core import TextComplete, TextDelta
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore
from tests.cli import replies

WIDEST = 110
PAUSE = float(
    os.environ.get("GREENROOM_PAUSE", "0.5")
)  # seconds in which tmux and the program can settle


def mark(number):
    return f"--- {number} ---"


async def tell(agent, seed, count, resize):
    async for message in agent.inputs():
        async with agent.turn(message):
            # In a window with rows left below, tmux itself loses the place of the cursor: narrower
            # rows are more rows, for which it moves those above out of sight, the cursor's too.
            await agent.send(TextComplete(".\n\n" * 60))
            sizes = random.Random(seed)
            for number in range(seed, seed + count):
                await agent.send(TextComplete(f"`{mark(number)}`"))
                rng = random.Random(number)
                await tell_one(agent, rng, partial(resize, sizes))
            await agent.send(TextComplete(f"`{mark('end')}`"))


async def tell_one(agent, rng, resize):
    text = replies.reply(rng)
    cut = replies.pieces(rng, text)
    paused = rng.randrange(len(cut)) if rng.random() < 0.2 else -1
    for at, piece in enumerate(cut):
        await agent.send(TextDelta(piece))
        if rng.random() < 0.01:
            await trio.sleep(0.03)
        if at == paused:
            await trio.sleep(PAUSE)
            await resize()
            await trio.sleep(PAUSE)
    await agent.send(TextComplete(text))


async def resize_pane(socket, rng):
    r"""Make the window narrower, or as wide as it was; its height is random.

    tmux 3.3 loses count of the rows of a line that it has wrapped where half of a wide letter would
    stand in the last column: when it wraps that line anew, it leaves the cursor in another row than
    it was, and what is drawn next erases a row too much. No program has to run for that: in a
    window of 110 columns after `seq 60; printf 'é字%.0s' $(seq 40); printf '\n> '` it is a row too
    high once the window was 28 columns wide and is 110 again. No row that is printed at the usual
    width is wrapped there, so only a second narrow width in a row does it.
    `GREENROOM_WIDTHS=any` takes any width nevertheless.
    """
    is_free = os.environ.get("GREENROOM_WIDTHS") == "any"
    is_narrow = os.get_terminal_size().columns < WIDEST and not is_free
    columns = WIDEST if is_narrow else rng.randrange(20, WIDEST)
    lines = rng.randrange(16, 60)
    size = ["-x", str(columns), "-y", str(lines)]
    command = ["tmux", "-L", socket, "resize-window", "-t", os.environ["TMUX_PANE"], *size]
    await trio.run_process(command)


async def main():
    seed, count, socket = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    async with AgentRuntime(InMemoryStore()) as runtime:
        resize = partial(resize_pane, socket)
        handle = runtime.spawn(AgentSession.new("teller"), tell, seed, count, resize)
        handle.send_input_nowait("go")
        await ConsoleRenderer(handle).run()


if __name__ == "__main__":
    trio.run(main)
