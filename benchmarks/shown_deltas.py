"""What it costs to show an agent that writes as fast as it can, against the same agent unseen.

An agent sends 100,000 deltas of a reply. Once, its handle's chunks are read by a reader that looks
at none of them; once, by `ConsoleRenderer`, in a pseudo-terminal that takes what comes. Each is a
process of its own, whose processor time is compared; they take turns, and medians count. Exits
with 1 where the bound is broken.

python benchmarks/shown_deltas.py
"""

import fcntl
import os
import pty
import statistics
import struct
import sys
import termios

import trio

from greenroom import AgentInternals, AgentRuntime, AgentSession, InMemoryStore
from greenroom.core import TextComplete, TextDelta

DELTAS = 100_000
ROUNDS = 5
MOST = 1.7
"""Times the processor's time without a console; 1.4 to 1.5 on an idle machine, half of it to load
rich and prompt-toolkit. The paragraphs are plain: each table or list takes rich a millisecond."""
PARAGRAPH = (*["Some ", "words ", "of ", "a ", "long ", "reply, ", "and ", "`code`, "] * 10, "\n\n")


async def writer(agent: AgentInternals) -> None:
    async for message in agent.inputs():
        async with agent.turn(message):
            said = []
            for number in range(DELTAS):
                piece = PARAGRAPH[number % len(PARAGRAPH)]
                said.append(piece)
                await agent.send(TextDelta(piece))
            await agent.send(TextComplete("".join(said)))
        return


async def unseen() -> None:
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("writer"), writer)
        async with handle.subscribe("all", answers=True) as chunks:
            handle.send_input_nowait("go")
            async for _ in chunks:
                pass


async def shown() -> None:
    from greenroom.cli import ConsoleRenderer

    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("writer"), writer)
        handle.send_input_nowait("go")
        await ConsoleRenderer(handle).run()


def measure(kind: str) -> tuple[float, int]:
    """Return the processor's time of a run in a terminal of its own, and the bytes it wrote."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execv(sys.executable, [sys.executable, __file__, kind])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 100, 0, 0))
    written = 0
    while True:
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:  # the program has ended
            break
        if not data:
            break
        written += len(data)
    _, status, used = os.wait4(pid, 0)
    os.close(terminal)
    if status:
        sys.exit(f"{kind} failed: {status}")
    return used.ru_utime + used.ru_stime, written


def main() -> int:
    if len(sys.argv) > 1:
        trio.run({"unseen": unseen, "shown": shown}[sys.argv[1]])
        return 0
    times: dict[str, list[float]] = {"unseen": [], "shown": []}
    written = 0
    for _ in range(ROUNDS):
        for kind, found in times.items():
            taken, written = measure(kind)
            found.append(taken)
    medians = {kind: statistics.median(found) for kind, found in times.items()}
    ratio = medians["shown"] / medians["unseen"]
    print(f"unseen {medians['unseen']:.2f} s, shown {medians['shown']:.2f} s: {ratio:.2f} ×")
    print(f"{written:,} bytes on the screen; most {MOST} ×")
    # Each delta has some five letters, and all of them have to be there.
    return 1 if ratio > MOST or written < 4 * DELTAS else 0


if __name__ == "__main__":
    sys.exit(main())
