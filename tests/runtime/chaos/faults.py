"""The same programs over a store that fails, hangs and is slow, under hooks that raise and meddle.

What is stored is not certain then. All else is promised as ever.
"""

import trio

from greenroom.core import Instrument, SessionNotFoundError, SessionStorageError
from greenroom.session import InMemoryStore
from greenroom.session.transcript import is_stand_in
from tests.runtime.chaos.books import Book, expect
from tests.runtime.chaos.world import Family, Tree, World


class FaultyWriter:
    """A writer around another one: any step of it may fail, before it is done or after."""

    def __init__(self, writer, stumble):
        self._writer = writer
        self._stumble = stumble

    @property
    def epoch(self):
        return self._writer.epoch

    @property
    def is_broken(self):
        return self._writer.is_broken

    async def read(self, since):
        await self._stumble()
        return await self._writer.read(since)

    async def append(self, line, at, *, flush=True):
        await self._stumble()
        await self._writer.append(line, at, flush=flush)
        await self._stumble()

    async def write_metadata(self, metadata):
        await self._stumble()
        await self._writer.write_metadata(metadata)
        await self._stumble()

    async def set_aside(self, at):
        return await self._writer.set_aside(at)

    async def release(self):
        try:
            await self._stumble()
        finally:
            await self._writer.release()


class FaultyStore(InMemoryStore):
    """A store that works for the mild agent only; after the program, for everybody."""

    def __init__(self, world):
        super().__init__()
        self._world = world
        self.is_sound = False

    async def acquire(self, session_id):
        async def stumble():
            if not self.is_sound and session_id != self._world.mild.session_id:
                await self._stumble(session_id)

        await stumble()
        return FaultyWriter(await super().acquire(session_id), stumble)

    async def _stumble(self, session_id):
        world = self._world
        if world.chance(0.85):
            return
        fault = world.random.choice(["full", "bug", "slow", "stubborn", "in a group"])
        world.tally[f"store: {fault}"] += 1
        match fault:
            case "full":
                raise SessionStorageError("full", session_id=session_id)
            case "bug":
                raise world.random.choice([OSError, ValueError])("the store has a bug")
            case "slow":  # or hangs, as far as the grace of a save goes
                await trio.sleep(world.random.choice([0, 1, 30]))
            case "stubborn":
                with trio.CancelScope(shield=True):
                    await world.rest()
            case "in a group":
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._fail, session_id)
                    await trio.sleep(1)

    async def _fail(self, session_id):
        await trio.lowlevel.checkpoint()
        raise SessionStorageError("in a group", session_id=session_id)


class FaultyHooks(Instrument):
    """Hooks that raise, and that end what they watch in the middle of it."""

    def __init__(self, world):
        self._world = world

    def _stumble(self, agent, share):
        world, book = self._world, self._world.books.get(agent.session_id)
        if book is not None and book is not world.mild and world.chance(share):
            world.random.choice([book.handle.interrupt_nowait, book.handle.kill])()
        if world.chance(0.02):
            raise ValueError("a hook has a bug")

    def before_agent(self, agent):
        self._stumble(agent, 0.02)

    def after_agent(self, agent, end):
        self._stumble(agent, 0.02)

    def before_turn(self, agent, message):
        self._stumble(agent, 0.02)

    def after_turn(self, agent, done):
        self._stumble(agent, 0.02)

    def on_chunk(self, agent, chunk):
        self._stumble(agent, 0.002)


class FaultyBook(Book):
    """What is known of an agent whose store may fail."""

    async def audit(self):
        await super().audit()
        expect(not self.actor.session.journal.is_open, "the session is released", self.handle)
        expect(not self.actor.session.journal.has_agent, "and free", self.handle)

    async def _load(self):
        try:
            return await super()._load()
        except SessionNotFoundError:
            return ()

    def _audit_stored(self, history, stored):
        """What is stored is a beginning of what was said, with answers to the calls left open."""
        count = len(stored)
        if count and any(map(is_stand_in, stored[-1].tool_results)):
            count -= 1
        expect(stored[:count] == history[:count], "what is stored was said", self.handle)


class Faulty(World):
    """A program with faults."""

    book = FaultyBook

    def __init__(self, seed):
        super().__init__(seed)
        self._store = FaultyStore(self)
        self.watchers = (FaultyHooks(self),)

    def store(self):
        return self._store

    async def interrupt(self, book):
        """A store may hang: then an interrupt leaves something behind, but returns in time."""
        grace, began = self.random.random(), trio.current_time()
        await book.handle.interrupt(grace=grace)
        took = trio.current_time() - began
        expect(took <= grace + 0.2501, "an interrupt returns in time", took, grace)

    async def kill(self, book, life):
        book.handle.kill()

    async def audit(self):
        self._store.is_sound = True
        await super().audit()


class FaultyFamily(Faulty, Family):
    """Agents under the runtime, with their subagents."""


class FaultyTree(Faulty, Tree):
    """Agents under supervisors, which may be under agents."""
