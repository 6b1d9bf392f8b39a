"""Saves that come while another one is under way share one commit, and each keeps its promise."""

import random

import pytest
import trio
import trio.testing

from greenroom.core import SessionStorageError
from greenroom.session import AgentSession, InMemoryStore


class SlowStore(InMemoryStore):
    """A store whose appends take a second, and fail where they are told to."""

    def __init__(self):
        super().__init__()
        self.appends = []  # the number of bytes, and whether it was a flush
        self.fail = lambda: None  # "before" or "after" the line is written

    async def acquire(self, session_id):
        writer = await super().acquire(session_id)
        write = writer.append

        async def append(line, at, *, flush=True):
            self.appends.append((len(line), flush))
            await trio.sleep(0.5)
            where = self.fail()
            if where == "before":
                raise SessionStorageError("the disk is full", nothing_written=True)
            await write(line, at, flush=flush)
            if where == "after":
                raise SessionStorageError("the connection is lost")
            await trio.sleep(0.5)

        writer.append = append
        return writer


@pytest.fixture
def store():
    return SlowStore()


@pytest.fixture
async def session(store):
    session = AgentSession.new("coder", store=store)
    session.add_record("first", 0)
    await session.save()
    store.appends.clear()
    await session.open()
    yield session
    await session.close()


async def stored(session):
    """Return what a process would find that comes after a kill at this moment."""
    found = await AgentSession.load(session.session_id, store=session.store)
    return found.records("kept")


async def test_saves_that_wait_share_one_commit_and_return_together(autojump_clock, session):
    ended = []

    async def keep(number):
        session.add_record("kept", number)
        await session.save()
        assert number in await stored(session)
        ended.append(trio.current_time() - begun)

    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep, 0)
        await trio.testing.wait_all_tasks_blocked()
        for number in range(1, 21):
            nursery.start_soon(keep, number)
    assert len(session.store.appends) == 2
    assert ended == [1.0] + [2.0] * 20
    assert sorted(await stored(session)) == list(range(21))


async def test_a_save_counts_only_if_it_began_behind_what_it_is_to_save(autojump_clock, session):
    async with trio.open_nursery() as nursery:
        session.add_record("kept", "early")
        nursery.start_soon(session.save)
        await trio.testing.wait_all_tasks_blocked()
        session.add_record("kept", "late")  # the commit under way does not have it
        await session.save()
        assert await stored(session) == ("early", "late")


async def test_one_that_wants_a_flush_gets_it_with_those_that_do_not(autojump_clock, session):
    async with trio.open_nursery() as nursery:
        for flush in (False, False, True, False):
            session.add_record("kept", flush)
            nursery.start_soon(lambda flush=flush: session.save(flush=flush))
            await trio.testing.wait_all_tasks_blocked()
    assert [flush for _, flush in session.store.appends] == [False, True]
    assert all(size > 0 for size, _ in session.store.appends)
    assert session.is_saved


async def test_each_that_waits_for_a_save_that_fails_tries_itself_and_has_its_own_error(
    autojump_clock, session
):
    errors, session.store.fail = [], lambda: "before"

    async def keep(number):
        session.add_record("kept", number)
        try:
            await session.save()
        except SessionStorageError as error:
            errors.append(error)

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(keep, number)
    assert len({id(error) for error in errors}) == 5
    assert await stored(session) == ()
    session.store.fail = lambda: None
    await session.save()
    assert sorted(await stored(session)) == list(range(5))


async def test_a_failure_that_is_over_is_no_failure_of_those_that_waited(autojump_clock, session):
    failures, told = ["after"], []
    session.store.fail = lambda: failures.pop() if failures else None

    async def keep(number):
        session.add_record("kept", number)
        try:
            await session.save()
        except SessionStorageError:
            told.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(keep, number)
    assert len(told) == 1
    assert sorted(await stored(session)) == list(range(5))


@pytest.mark.parametrize("moment", [0, 0.25, 0.75, 1.25, 1.75, 2.25])
@pytest.mark.parametrize("who", range(4))
async def test_a_cancel_of_one_harms_no_other(autojump_clock, session, who, moment):
    saved, scopes = [], [trio.CancelScope() for _ in range(4)]

    async def keep(number):
        await trio.sleep(number / 4)
        with scopes[number]:
            session.add_record("kept", number)
            await session.save()
            assert number in await stored(session)
            saved.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(keep, number)
        await trio.sleep(moment)
        scopes[who].cancel()
    assert {*saved, who} == {0, 1, 2, 3}
    await session.save()
    assert {*saved} <= {*await stored(session)}


@pytest.mark.parametrize("seed", range(40))
async def test_whatever_fails_or_is_cancelled_what_was_saved_is_stored_once_and_in_order(
    autojump_clock, session, seed
):
    chance, written = random.Random(seed), []
    session.store.fail = lambda: chance.choice(["before", "after", *[None] * 6])

    async def work(name):
        for number in range(6):
            await trio.sleep(chance.choice([0, 0.25, 1, 3]))
            if chance.random() < 0.1:
                await session.close()
                await session.open()
            written.append(f"{name}{number}")
            session.add_record("kept", written[-1])
            mine = len(written)
            with trio.move_on_after(chance.choice([0, 0.5, 2, 60])) as scope:
                try:
                    await session.save(flush=chance.random() < 0.7)
                except SessionStorageError:
                    continue
            if not scope.cancelled_caught:
                assert (await stored(session))[:mine] == tuple(written[:mine])

    async with trio.open_nursery() as nursery:
        for name in "abcde":
            nursery.start_soon(work, name)
    session.store.fail = lambda: None
    await session.save()
    assert await stored(session) == tuple(written)
    assert session.is_saved


async def test_a_session_can_be_closed_while_saves_wait(autojump_clock, session):
    async with trio.open_nursery() as nursery:
        for number in range(3):
            session.add_record("kept", number)
            nursery.start_soon(session.save)
            await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(session.close)
    assert await stored(session) == (0, 1, 2)
    assert not session.statistics().is_open
