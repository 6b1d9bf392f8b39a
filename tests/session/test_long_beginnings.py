"""A session with a long beginning, such as a fork: moderate lines, encoded in a thread."""

import threading

import pytest
import trio

from greenroom.core import Message, SessionNotFoundError, SessionStorageError
from greenroom.core._internal import serde
from greenroom.session import (
    AgentSession,
    InMemoryStore,
    SessionCorruptError,
    history as page_module,
)
from greenroom.session._internal import read_last
from greenroom.testing.session_stores import cancel_after

TEXT = "so it goes " * 100
COUNT = 600


@pytest.fixture
async def long(store):
    session = AgentSession.new("coder", store=store)
    for number in range(COUNT):
        session.add_message(Message.user(f"{number} {TEXT}"))
    session.mark_tools_started(["t1"])
    await session.save()
    return session


@pytest.fixture
def threads(monkeypatch):
    """The threads in which messages are encoded."""
    found, real = [], serde.encode

    def encode(value):
        found.append(threading.get_ident())
        return real(value)

    monkeypatch.setattr(serde, "encode", encode)
    return found


async def test_a_fork_of_a_long_session_is_encoded_in_a_thread(store, long, threads):
    threads.clear()
    await long.fork()
    on_the_loop = threads.count(threading.get_ident())
    assert len(threads) > COUNT
    assert on_the_loop <= 10 or isinstance(store, InMemoryStore), "a store in memory has no threads"


async def test_its_last_page_is_read_without_the_rest(store, long, monkeypatch):
    fork = await long.fork()
    read, real = [], page_module.read_page

    def counted(blocks, *arguments, **options):
        return real((read.append(len(block)) or block for block in blocks), *arguments, **options)

    for module in ("session_folder", "sqlite_store", "store"):
        monkeypatch.setattr(f"greenroom.session.{module}.read_page", counted)
    page = await read_last(fork.session_id, 10, store=store)
    assert page.messages == long.history[-10:]
    assert sum(read) < 300_000


async def test_it_is_what_it_was_made_of(store, long):
    fork = await long.fork(at=COUNT - 5)
    stored = (await store.read(fork.session_id)).history
    assert stored.end.lines > 5
    assert stored.end.loose == len(stored.end.last), (
        "what precedes the last line was synced before it"
    )
    loaded = await AgentSession.load(fork.session_id, store=store)
    assert loaded.history == fork.history == long.history[: COUNT - 5]
    assert loaded.repair is None


async def test_damage_in_it_is_damage_and_no_torn_end(store_under_test):
    """All of it is acknowledged, so its last line says of no other that it may be unfinished."""
    store = store_under_test.make()
    session = AgentSession.new("coder", session_id="mine", store=store)
    for number in range(COUNT):
        session.add_message(Message.user(f"{number} {TEXT}"))
    await session.save()
    await store_under_test.damage("mine", 2)
    with pytest.raises(SessionCorruptError, match=r":3: the line is damaged"):
        await AgentSession.load("mine", store=store)


@pytest.mark.parametrize("fails", [1, 2, 5])
async def test_a_save_that_fails_on_the_way_leaves_no_session_and_can_be_repeated(
    store, fails, monkeypatch
):
    session = AgentSession.new("coder", session_id="mine", store=store)
    for number in range(COUNT):
        session.add_message(Message.user(f"{number} {TEXT}"))
    journal = type(session.journal._tail)
    count, real = 0, journal._append

    async def failing(self, line, *, flush):
        nonlocal count
        count += 1
        if count == fails:
            raise SessionStorageError("no room", session_id="mine")
        await real(self, line, flush=flush)

    monkeypatch.setattr(journal, "_append", failing)
    with pytest.raises(SessionStorageError, match="no room"):
        await session.save()
    with pytest.raises(SessionNotFoundError):
        await AgentSession.load("mine", store=store)
    assert [branch.history for branch in await session.read_branches()] == [session.history]
    await session.save()
    loaded = await AgentSession.load("mine", store=store)
    assert loaded.history == session.history


async def test_a_save_cancelled_at_any_moment_can_be_repeated(store):
    steps, is_cut = 0, True
    while is_cut:
        session = AgentSession.new("coder", store=store)
        for number in range(300):
            session.add_message(Message.user(f"{number} {TEXT}"))
        with trio.CancelScope() as scope, cancel_after(scope, steps):
            await session.save()
        is_cut = scope.cancelled_caught
        await session.save()
        loaded = await AgentSession.load(session.session_id, store=store)
        assert loaded.history == session.history
        steps += 1
    assert steps > 5
