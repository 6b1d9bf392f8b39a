"""What a pattern costs, against the same agents spawned by hand in the same run.

Passes of the event loop and seconds of CPU, for a pipeline of 20 agents and for 50 side by side;
the agents do nothing but answer. Exits with 1 where a pattern takes more than 1.3 times as much.

python benchmarks/teams.py
"""

import gc
import statistics
import sys
import time

import trio

from greenroom import AgentInternals, AgentRuntime, AgentSession, InMemoryStore, Message
from greenroom.flow import parallel, pipeline
from greenroom.flow._internal import Member

MEMBERS = {"pipeline": 20, "parallel": 50}
ROUNDS = 9
MAX_RATIO = 1.3


class Passes(trio.abc.Instrument):
    """Counts passes of the event loop."""

    def __init__(self) -> None:
        self.count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


async def member(agent: AgentInternals) -> None:
    async for message in agent.inputs():
        async with agent.turn(message) as turn:
            agent.session.add_message(Message.assistant(message.text))
            turn.set_result(message.text)


async def pipeline_by_hand(agent: AgentInternals) -> None:
    async for message in agent.inputs():
        async with agent.turn(message) as turn:
            said = message.text
            for _ in range(MEMBERS["pipeline"]):
                handle = agent.spawn(AgentSession.new("member"), member, report=False)
                said = str((await handle.ask(said)).value)
                await handle.shutdown()
            agent.session.add_message(Message.assistant(said))
            turn.set_result(said)


async def parallel_by_hand(agent: AgentInternals) -> None:
    async def ask(number: int, text: str) -> None:
        handle = agent.spawn(AgentSession.new("member"), member, report=False)
        found[f"member {number}"] = (await handle.ask(text)).value
        await handle.shutdown()

    found: dict[str, object] = {}
    async for message in agent.inputs():
        async with agent.turn(message) as turn:
            async with trio.open_nursery() as nursery:
                for number in range(MEMBERS["parallel"]):
                    nursery.start_soon(ask, number, message.text)
            agent.session.add_message(Message.assistant(str(found)))
            turn.set_result(found)


WAYS: dict[str, tuple[Member, Member]] = {
    "pipeline": (pipeline_by_hand, pipeline(*[member] * MEMBERS["pipeline"])),
    "parallel": (parallel_by_hand, parallel(*[member] * MEMBERS["parallel"])),
}


def run(function: Member) -> tuple[int, float]:
    """Ask an agent once; return the passes and the seconds of CPU of that."""
    passes = Passes()
    spent = 0.0

    async def main() -> None:
        nonlocal spent
        async with AgentRuntime(InMemoryStore()) as runtime:
            handle = runtime.spawn(AgentSession.new("team"), function)
            await handle.ask("x")
            trio.lowlevel.add_instrument(passes)
            begun = time.process_time()
            await handle.ask("x")
            spent = time.process_time() - begun
            trio.lowlevel.remove_instrument(passes)

    gc.collect()
    trio.run(main)
    return passes.count, spent


def main() -> int:
    worst = 0.0
    for name, (by_hand, pattern) in WAYS.items():
        rounds = [(run(by_hand), run(pattern)) for _ in range(ROUNDS)]
        passes = [statistics.median(each[way][0] for each in rounds) for way in (0, 1)]
        seconds = [statistics.median(each[way][1] for each in rounds) for way in (0, 1)]
        by_passes, by_seconds = passes[1] / passes[0], seconds[1] / seconds[0]
        print(
            f"{name}: {passes[1]:.0f} passes, {by_passes:.2f} times those by hand;"
            f" {seconds[1] * 1000:.1f} ms of CPU, {by_seconds:.2f} times"
        )
        worst = max(worst, by_passes, by_seconds)
    return int(worst > MAX_RATIO)


if __name__ == "__main__":
    sys.exit(main())
