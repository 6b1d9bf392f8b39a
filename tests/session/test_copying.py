"""Sessions copied from one store to another."""

from datetime import timedelta

import pytest
import trio

from greenroom.core import Message, SessionError, SessionNotFoundError, SessionStorageError
from greenroom.session import (
    AgentSession,
    FileStore,
    InMemoryStore,
    SessionExistsError,
    SQLiteStore,
)
from greenroom.testing.session_stores import cancel_after


async def make(store, session_id="mine"):
    session = AgentSession.new("coder", session_id=session_id, store=store)
    for number in range(3):
        session.add_message(Message.user(f"question {number}"))
        session.add_message(Message.assistant("ä" * 4_000))
        await session.save()
    await session.rewind(5)
    await session.compact("what was said", 3)
    session.set_metadata("title", "mine")
    await store.put_file(session_id, "Bash-1.txt", b"\0long")
    await session.save()
    return session


async def content(store, session_id="mine"):
    session = await AgentSession.load(session_id, store=store)
    assert session.repair is None
    names = [each.name for each in await store.list_files(session_id)]
    return session.history, session.description.record, names


@pytest.fixture(params=["sqlite", "postgres", "memory"])
def target(request, tmp_path):
    if request.param == "memory":
        return InMemoryStore()
    if request.param == "sqlite":
        return SQLiteStore(tmp_path / "sessions.db")
    return request.getfixturevalue("postgres").make()


async def test_a_copy_is_equal_both_ways(files, target, tmp_path, wall):
    await make(files)
    wall.move(100)
    back = FileStore(tmp_path / "back")
    for source, to in ((files, target), (target, back)):
        assert await AgentSession.copy("mine", source, to) == "copied"
        assert await AgentSession.copy("mine", source, to) == "there"
    # With the time of the last change: what expires does not depend on where it is kept.
    assert await content(back) == await content(target) == await content(files)
    page = await back.read_last("mine", 2)
    assert page.page.messages == (await files.read_last("mine", 2)).page.messages
    session = await AgentSession.load("mine", store=back)
    session.add_message(Message.user("and?"))
    await session.save()
    assert await AgentSession.copy("mine", target, back) == "there"  # it has gone on
    assert len((await AgentSession.load("mine", store=back)).history) == len(session.history)


async def test_a_session_without_a_message_is_copied_too(files, target, tmp_path):
    session = AgentSession.new("coder", session_id="mine", store=files)
    session.set_metadata("title", "mine")
    await session.save()
    back = FileStore(tmp_path / "back")
    for source, to in ((files, target), (target, back)):
        assert await AgentSession.copy("mine", source, to) == "copied"
    assert await content(back) == await content(target) == await content(files)


async def test_a_copy_that_is_cut_off_anywhere_is_completed(files):
    await make(files)
    steps, is_cut = 0, True
    while is_cut:
        target = InMemoryStore()
        with trio.CancelScope() as scope:
            with cancel_after(scope, steps):
                await AgentSession.copy("mine", files, target)
        is_cut = scope.cancelled_caught
        if not await target.exists("mine"):
            assert await target.list_all() == []
        await AgentSession.copy("mine", files, target)
        assert await content(target) == await content(files)
        steps += 1
    assert steps > 10


async def test_another_session_of_that_id_is_left_alone(files):
    await make(files)
    target = InMemoryStore()
    other = AgentSession.new("coder", session_id="mine", store=target)
    other.add_message(Message.user("other"))
    await other.save()
    with pytest.raises(SessionExistsError, match="another session"):
        await AgentSession.copy("mine", files, target)
    assert (await AgentSession.load("mine", store=target)).history[0].text == "other"
    with pytest.raises(SessionNotFoundError):
        await AgentSession.copy("nobody", files, target)


async def test_a_copy_is_read_back(files, monkeypatch):
    await make(files)
    target = InMemoryStore()
    real = target.acquire

    async def acquire(session_id):
        writer = await real(session_id)
        append = writer.append

        async def lose_letters(line, at, *, flush=True):
            await append(line.replace(b"question 1", b"question 7"), at, flush=flush)

        writer.append = lose_letters
        return writer

    monkeypatch.setattr(target, "acquire", acquire)
    with pytest.raises(SessionError) as caught:
        await AgentSession.copy("mine", files, target)
    assert isinstance(caught.value, SessionStorageError) or "damaged" in str(caught.value)


async def test_only_what_is_old_is_removed(files, wall):
    session = await make(files)
    old = wall.moment + timedelta(seconds=1)
    wall.move(10)
    session.add_message(Message.user("still here"))
    await session.save()
    with pytest.raises(SessionError, match="changed meanwhile"):
        await AgentSession.delete("mine", store=files, older_than=old)
    assert await files.exists("mine")
    await AgentSession.delete("mine", store=files, older_than=old + timedelta(seconds=10))
    assert not await files.exists("mine")
