"""What a session goes through on a disk that fails, and the book of what it must still hold.

Each life is a process: it loads what the last one left, checks it against the book, adds to it, and
dies at a chosen operation. The next life begins after a kill, or after a power cut.
"""

import contextlib
import importlib
import itertools
import pkgutil
import random
import re

import pytest
import trio

import greenroom.fs
import greenroom.session
from greenroom.core import Message, SessionStorageError
from greenroom.fs import loop_writes
from greenroom.session import AgentSession, FileStore
from greenroom.session.history import START, encode_line
from greenroom.threads._internal import SharedThreads
from tests.session.faults.simulated_disk import Crash, Folder, SimulatedDisk

MODULES = [
    importlib.import_module(each.name)
    for package in (greenroom.fs, greenroom.session)
    for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]
"""All that a store is made of, found once, since a disk is put under it thousands of times."""
FOLDER = "/home/state/sessions"
SIZES = (1, 1, 30, 500, 1100, 2600)
OPERATIONS = 70  # a life is cut at one of its first so many operations
SEEDS = range(400)  # enough to notice each of the mutants, and what every run of the tests tries


class Fault(AssertionError):
    """The store broke a promise."""


def expect(holds, promise, *details):
    if not holds:
        raise Fault(promise, *details)


def _short(value):
    """Leave the padding out of what a person is to read."""
    return re.sub("x{5,}", "…", repr(value))


class Versions:
    """The values that something had, and up to which the store has said that it keeps them."""

    def __init__(self, first):
        self.values, self.durable, self.written = [first], 0, 0
        self.observed = 1

    @property
    def is_changed(self):
        """Whether the present life has changed it."""
        return len(self.values) > self.observed

    def add(self, value):
        self.values.append(value)

    def acknowledge(self, durable):
        self.written = len(self.values) - 1
        if durable:
            self.durable = self.written

    def observe(self, value, powerless):
        """Check what is there after a kill or a power cut; go on from it."""
        least = self.durable if powerless else self.written
        places = [at for at, each in enumerate(self.values) if each == value and at >= least]
        expect(places, "what was acknowledged is there", _short(value), _short(self.values[least:]))
        kept = [value] if powerless else self.values[self.durable : places[0] + 1]
        self.values, self.durable, self.written = kept, 0, len(kept) - 1
        self.observed = len(kept)


ACTS = ("add", "add", "add", "loose", "loose", "title", "rewind", "compact", "reopen")


class Lives:
    """One session's lives on one disk."""

    def __init__(self, disk, rng):
        self.disk, self.rng = disk, rng
        self.history, self.title = Versions(()), Versions(None)
        self.numbers = itertools.count()
        self.powerless = True

    @property
    def path(self):
        return f"{FOLDER}/mine/history.jsonl"

    async def one(self, crash_at=None, fail_at=None):
        """Live until the crash; return whether it came."""
        self.disk.crash_at, self.disk.fail_at = crash_at, fail_at
        self.disk.is_short = self.rng.random() < 0.3
        try:
            with contextlib.suppress(SessionStorageError):
                session = await self._begin()
                for _ in range(self.rng.randint(1, 5)):
                    try:
                        await self._act(session)
                    except SessionStorageError:
                        # What is not saved is saved by the next that saves.
                        await session.close()
                        await session.open()
                await session.close()
        except Crash:
            return True
        return False

    async def end(self):
        """Die, of a kill or of a power cut."""
        is_cut = self.rng.random() < 0.8
        if is_cut:
            self.disk.lose_power()
        else:
            self.disk.kill()
        self.powerless = self.powerless or is_cut
        return is_cut

    async def check(self):
        """Look at what the last life left, without any fault."""
        self.disk.restart()
        await self._begin()

    async def _begin(self):
        session = await loaded_or_new()
        self.history.observe(tuple(each.text for each in session.history), self.powerless)
        self.title.observe(session.get_metadata("title"), self.powerless)
        self.powerless = False
        before = self.disk.read_whole(self.path)
        await session.open()
        after, report = self.disk.read_whole(self.path), session.repair
        aside = self.disk.read_whole(report.set_aside) if report and report.set_aside else b""
        expect(after + aside == before, "nothing is repaired in silence", report)
        expect(bool(aside) == bool(report), "a report says what was set aside", report)
        return session

    async def _act(self, session):
        match self.rng.choice(ACTS):
            case "add":
                await self._add(session, flush=True)
            case "loose":
                await self._add(session, flush=False)
            case "title":
                title = f"title {next(self.numbers)}"
                session.set_metadata("title", title)
                self.title.add(title)
                await self._save(session, flush=True)
            case "rewind":
                to = self.rng.randint(0, len(session.history))
                self.history.add(tuple(each.text for each in session.history[:to]))
                await session.rewind(to)
                self._acknowledge(flush=True)
            case "compact":
                await self._compact(session)
            case "reopen":
                await session.close()
                if self.rng.random() < 0.5:
                    await session.open()

    async def _add(self, session, *, flush):
        for _ in range(self.rng.randint(1, 2)):
            text = f"{next(self.numbers)} " + "x" * self.rng.choice(SIZES)
            session.add_message(Message.user(text))
        self.history.add(tuple(each.text for each in session.history))
        await self._save(session, flush=flush)

    async def _compact(self, session):
        cut = self.rng.randint(0, len(session.history))
        if cut:
            summary = f"{next(self.numbers)} in short"
            self.history.add((summary, *(each.text for each in session.history[cut:])))
            await session.compact(summary, len(session.history) - cut)
            self._acknowledge(flush=True)

    async def _save(self, session, *, flush):
        await session.save(flush=flush)
        self._acknowledge(flush)

    def _acknowledge(self, flush):
        self.history.acknowledge(flush)
        # A description is synced when it is written. One that a dead process has left unsynced is
        # made durable by the next save that syncs.
        self.title.acknowledge(flush or self.title.is_changed)


async def loaded_or_new():
    """Take up the session as a new process does."""
    store = FileStore(FOLDER)
    if await store.exists("mine"):
        return await AgentSession.load("mine", store=store)
    return AgentSession.new("coder", session_id="mine", store=store)


async def save(disk, text, *, flush=True, crash_at=None):
    """Be a process that saves one message, and dies at this operation or when it is done."""
    disk.crash_at = crash_at
    with contextlib.suppress(Crash):
        session = await loaded_or_new()
        session.add_message(Message.user(text))
        await session.save(flush=flush)
    disk.kill()


async def empty_in_vain():
    """Let the sync of a truncation fail: readers see an empty file, and the disk has the old one.

    What is written to it later does not bring that back.
    """
    for failed in range(1, 70):
        disk = new_disk()
        with installed(disk):
            await _leave_two_lines_undescribed()
            disk.restart()
            disk.fail_at = failed
            with contextlib.suppress(SessionStorageError):
                await (await loaded_or_new()).open()
            disk.kill()
            await save(disk, "new")
            disk.lose_power()
            found = await texts()
            expect(found == ["new"], "what was acknowledged is there, alone", failed, found)


async def _leave_two_lines_undescribed():
    """Be a process that dies before its session is stored."""
    writer = await FileStore(FOLDER).acquire("mine")
    calls = b'{"kind":"tools_started","tool_use_ids":["%s"]}' % (b"x" * 999)
    first = encode_line([calls], START)
    at = START.after(first).as_synced()
    await writer.append(first, START)
    await writer.append(encode_line([b'{"kind":"rewind","to":0}'], at), at)
    await writer.release()


async def texts():
    """Return what the session holds."""
    return [message.text for message in (await loaded_or_new()).history]


async def cut_all(model, seeds=SEEDS, *, failing=False):
    """Let a session live for each of these seeds; return how many power cuts that were."""
    cuts = 0
    for seed in seeds:
        try:
            cuts += await cut(model, seed, failing=failing)
        except Exception as error:
            error.add_note(f"seed {seed} on the {model} model, failing: {failing}")
            raise
    return cuts


async def cut(model, seed, *, failing=False):
    """Let one session live, be cut off, and live on, a few times; return how many power cuts.

    Seeds that follow each other cut the first life at operations that follow each other.
    """
    rng = random.Random(seed)
    disk = new_disk(model, rng)
    cuts = 0
    with installed(disk):
        lives = Lives(disk, rng)
        for at in (1 + seed % OPERATIONS, rng.randint(1, OPERATIONS), rng.randint(1, OPERATIONS)):
            await lives.one(crash_at=None if failing else at, fail_at=at if failing else None)
            cuts += await lives.end()
        await lives.check()
    return cuts


def new_disk(model="strict", rng=None):
    """Return an empty disk, whose home folder is safe."""
    disk = SimulatedDisk(model, rng or random.Random(0))
    disk.root.names["home"] = disk.root.synced["home"] = Folder()
    return disk


@contextlib.contextmanager
def installed(disk):
    """Put a disk under the store, and let its threads' work be done at once."""

    async def at_once(work, *args, **options):
        return work(*args)

    with pytest.MonkeyPatch.context() as patch:
        for module in MODULES:
            for name in {"os", "fcntl"} & vars(module).keys():
                patch.setattr(module, name, disk)
        patch.setattr(trio.to_thread, "run_sync", at_once)
        patch.setattr(SharedThreads, "run", lambda _threads, work: at_once(work))
        patch.setattr(loop_writes, "is_local", lambda _device: True)
        yield
