"""A new session in a store of this process is opened and closed in one step."""

import pytest

from greenroom.core import Message, SessionLockedError
from greenroom.session import AgentSession, FileStore, InMemoryStore

pytestmark = pytest.mark.unit


class Asked(InMemoryStore):
    def __init__(self):
        super().__init__()
        self.asked = []

    async def acquire(self, session_id):
        self.asked.append(session_id)
        return await super().acquire(session_id)


class PassesOn:
    """Has what another store has, but for the lock."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def acquire(self, session_id):
        return await self._store.acquire(session_id)


def new(store, session_id="mine"):
    return AgentSession.new("coder", session_id=session_id, store=store)


async def test_it_is_locked_and_released_as_by_open_and_close():
    store = InMemoryStore()
    session, other = new(store), new(store)
    assert session.journal.open_now()
    assert not session.journal.open_now()  # it is open
    assert session.journal.is_open
    assert session.journal.epoch
    assert not other.journal.open_now()
    with pytest.raises(SessionLockedError):
        await other.open()
    session.add_message(Message.user("hello"))
    await session.save()
    assert session.journal.close_now()
    assert not session.journal.is_open
    assert not session.journal.close_now()
    [message] = (await AgentSession.load("mine", store=store)).history
    assert message.text == "hello"


async def test_an_unused_one_leaves_nothing_in_the_store():
    store = InMemoryStore()
    session = new(store)
    assert session.journal.open_now()
    assert session.journal.close_now()
    assert store.statistics().locked == 0
    assert not await store.exists("mine")
    assert session.journal.open_now()  # it may be opened again


async def test_one_that_is_stored_is_opened_by_open():
    store = InMemoryStore()
    session = new(store)
    session.add_message(Message.user("hello"))
    await session.save()
    loaded = await AgentSession.load("mine", store=store)
    for each in (session, loaded, new(store)):
        assert not each.journal.open_now()
        assert not each.journal.is_open


async def test_who_has_an_acquire_of_their_own_is_asked(tmp_path, monkeypatch):
    patched = InMemoryStore()
    monkeypatch.setattr(patched, "acquire", Asked().acquire)
    for store in (Asked(), PassesOn(InMemoryStore()), patched, FileStore(tmp_path)):
        assert not new(store).journal.open_now()


async def test_a_release_of_another_is_not_passed_over():
    session = new(InMemoryStore())
    assert session.journal.open_now()
    released = []

    async def release():
        released.append(True)

    session.journal._tail._writer.release = release
    assert not session.journal.close_now()
    await session.close()
    assert released == [True]


async def test_a_save_that_runs_keeps_it_open():
    session = new(InMemoryStore())
    assert session.journal.open_now()
    await session.journal._turnstile.enter()  # as a save does
    assert not session.journal.close_now()
    session.journal._turnstile.leave()
    assert session.journal.close_now()
