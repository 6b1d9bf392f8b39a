"""Readers that come and go over the lives of one agent, and what each must be told.

    python -m tests.runtime.positions PLAY

plays one life in a process of its own, and prints what became of the readers.
"""

import json
import random
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

import trio

from greenroom.core import Lagged, Message, SessionNotFoundError, TextDelta
from greenroom.core._internal import set_clock
from greenroom.resilience import Backoff
from greenroom.runtime import AgentRuntime, RuntimeLimits
from greenroom.session import AgentSession, FileStore, SQLiteStore


@dataclass
class Reader:
    """What a reader knows: its position, the last text it read, and whether it missed some."""

    position: tuple[int, int] | None = None
    life: int = -1
    number: int = -1
    was_told: str = ""

    def take(self, chunk):
        if isinstance(chunk, Lagged):
            self.was_told = "all" if chunk.missed is None else self.was_told or "some"
        if not isinstance(chunk, TextDelta):
            return
        life, number = map(int, chunk.text.split())
        is_next = (life, number) == (self.life, self.number + 1)
        is_later = (life, number) > (self.life, self.number)
        told_of = "all" if life != self.life else "some"
        is_first = self.life < 0
        assert is_next or is_first or (is_later and self.was_told in (told_of, "all")), (
            self,
            chunk,
        )
        self.life, self.number, self.was_told = life, number, ""


@dataclass
class Play:
    """One life of the agent: which it is, and the readers of before."""

    life: int
    seed: int
    readers: list

    @classmethod
    def read(cls, text):
        fields = json.loads(text)
        readers = [Reader(**each) for each in fields.pop("readers")]
        return cls(readers=readers, **fields)

    def write(self):
        return json.dumps(asdict(self))


async def live(store, play):
    with trio.fail_after(60):
        await _live(store, play)


async def _live(store, play):
    rng, numbers = random.Random(play.seed), iter(range(1_000_000))
    hours = rng.choice([0, 0, -3, 2])
    set_clock(lambda: datetime.now(UTC) + timedelta(hours=hours))

    async def talk(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                for _ in range(rng.randrange(20)):
                    await agent.send(TextDelta(f"{play.life} {next(numbers)}"))
                if message.text == "crash":
                    raise ValueError("broken")
                agent.session.add_message(Message.assistant("said"))
                if message.text == "compact":
                    await agent.session.compact("what was said", keep=1)

    try:
        session = await AgentSession.load("mine", store=store)
    except SessionNotFoundError:
        session = AgentSession.new("talker", session_id="mine", store=store)
    try:
        async with AgentRuntime(store=store, limits=RuntimeLimits(ring_chunks=40)) as runtime:
            supervisor = runtime.supervisor(
                intensity=1000, period=1, backoff=Backoff(first=0.0, factor=1.0, jitter=0)
            )
            handle = supervisor.spawn(session, talk, restart="permanent")
            for _ in range(12):
                for reader in rng.sample(play.readers, len(play.readers) // 3):
                    await read_some(handle, reader, rng)
                await handle.ask(rng.choice(["say", "say", "crash", "compact"]))
    finally:
        set_clock(None)


async def read_some(handle, reader, rng):
    most = rng.choice([0, 1, 5, 1000])  # a reader may leave before it has read anything
    async with handle.subscribe(reader.position or "all") as chunks:
        # Where nothing is kept, there may still be the word of a loss, or nothing at all.
        with trio.move_on_after(60 if chunks.lag else 0.01):
            for number in range(most):
                if number and not chunks.lag:
                    break
                reader.take(await anext(chunks))
        reader.position = chunks.position


async def main(kind, path):
    play = Play.read(sys.stdin.read())
    store = {"files": FileStore, "sqlite": SQLiteStore}[kind](path)
    await live(store, play)
    print(play.write())


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
