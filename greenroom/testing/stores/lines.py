"""Checks of the history as lines: added at the end only, read from anywhere, damaged and set aside."""

from greenroom.core import (
    Message,
    SessionCorruptError,
    SessionStorageError,
    new_id,
)
from greenroom.session import START, AgentSession, Position, encode_line
from greenroom.testing.stores.under_test import StoreUnderTest, expecting, same, saved, texts


async def a_line_is_added_at_the_end_only(case: StoreUnderTest) -> None:
    """A line for another place is refused, and the history is as it was."""
    store = await case.open()
    session = await saved(store, "one")
    end = (await store.read(session.session_id)).history.end
    line = encode_line([b'{"kind":"rewind","to":0}'], end)
    writer = await store.acquire(session.session_id)
    for place in (START, Position(end.lines + 1, end.size + 1, end.last)):
        with expecting(SessionStorageError):
            await writer.append(line, place)
    same(writer.is_broken, False)
    await writer.append(line, end)
    with expecting(SessionStorageError):
        await writer.append(line, end)
    await writer.release()
    same((await store.read(session.session_id)).history.end, end.after(line))


async def reading_goes_on_from_a_place(case: StoreUnderTest) -> None:
    """A writer reads what was added since a place, and no more."""
    store = await case.open()
    session = await saved(store, "one")
    first = (await store.read(session.session_id)).history.end
    session.add_message(Message.assistant("two"))
    await session.save()
    whole = (await store.read(session.session_id)).history
    writer = await store.acquire(session.session_id)
    later = (await writer.read(first)).history
    same(later.entries, whole.entries[-1:])
    same((later.end, later.torn), (whole.end, b""))
    same((await writer.read(START)).history, whole)
    same((await writer.read(whole.end)).history.entries, ())
    await writer.release()


async def another_past_is_refused(case: StoreUnderTest) -> None:
    """Nobody goes on from a line that is not the one stored."""
    store = await case.open()
    session = await saved(store, "one")
    end = (await store.read(session.session_id)).history.end
    writer = await store.acquire(session.session_id)
    with expecting(SessionCorruptError):
        await writer.read(Position(end.lines, end.size, end.last.replace(b"one", b"two")))
    await writer.release()


async def entries_of_newer_versions_survive(case: StoreUnderTest) -> None:
    """A kind of entry that this version does not know is passed over and kept."""
    store = await case.open()
    session = await saved(store, "one")
    end = (await store.read(session.session_id)).history.end
    line = encode_line([b'{"kind":"hologram","points":[1]}'], end)
    writer = await store.acquire(session.session_id)
    await writer.append(line, end)
    await writer.release()
    loaded = await AgentSession.load(session.session_id, store=store)
    loaded.add_message(Message.user("more"))
    await loaded.save()
    same(await texts(store, session), ["one", "more"])
    same((await store.read(session.session_id)).history.end.lines, end.lines + 2)


async def what_is_saved_without_a_flush_is_read_at_once(case: StoreUnderTest) -> None:
    """A line that need not be durable yet is there for every reader."""
    store = await case.open()
    session = await saved(store, "one")
    session.add_message(Message.assistant("two"))
    await session.save(flush=False)
    same(await texts(await case.open(), session), ["one", "two"])
    await session.save()
    assert session.is_saved, "an empty line flushes what was written before"
    same(await texts(store, session), ["one", "two"])


async def what_is_set_aside_is_out_of_the_history(case: StoreUnderTest) -> None:
    """A writer cuts the history off, and adds to what is left."""
    store = await case.open()
    session = await saved(store, "one")
    first = (await store.read(session.session_id)).history.end
    session.add_message(Message.assistant("two"))
    await session.save()
    writer = await store.acquire(session.session_id)
    place = await writer.set_aside(first)
    assert place, "it says where that is now"
    same((await store.read(session.session_id)).history.end, first)
    line = encode_line([b'{"kind":"rewind","to":0}'], first)
    await writer.append(line, first)
    assert await writer.set_aside(first) != place, "what was set aside before is kept"
    await writer.release()
    same(await texts(store, session), ["one"])


async def what_a_crash_left_of_an_unsaved_session_is_put_aside(case: StoreUnderTest) -> None:
    """Lines without a description are no session, and don't get in the way of one."""
    store = await case.open()
    session = AgentSession.new("checked", session_id=new_id("s"), store=store)
    writer = await store.acquire(session.session_id)
    await writer.append(encode_line([b'{"kind":"format","version":1}'], START), START)
    await writer.release()
    same(await store.exists(session.session_id), False)
    assert session.session_id not in [each.session_id for each in await store.list_all()]
    session.add_message(Message.user("one"))
    await session.save()
    same(await texts(store, session), ["one"])


async def a_damaged_end_is_reported_and_set_aside(case: StoreUnderTest) -> None:
    """A reader is told of a last line that can't be read; who opens the session puts it aside."""
    store = await case.open()
    session = await saved(store, "one")
    first = (await store.read(session.session_id)).history.end
    session.add_message(Message.assistant("two"))
    await session.save()
    await case.damage(session.session_id, 1)
    loaded = await AgentSession.load(session.session_id, store=store)
    for reader in (loaded, await AgentSession.load(session.session_id, store=await case.open())):
        same([message.text for message in reader.history], ["one"])
        assert reader.repair is not None, "the damage is reported"
        found = reader.repair.line, reader.repair.offset, reader.repair.set_aside
        same(found, (2, first.size, ""))
    await loaded.open()
    assert loaded.repair is not None, "what was done is reported"
    assert loaded.repair.set_aside, "it is kept, and it is told where"
    loaded.add_message(Message.assistant("three"))
    await loaded.save()
    await loaded.close()
    again = await AgentSession.load(session.session_id, store=store)
    same([message.text for message in again.history], ["one", "three"])
    same(again.repair, None)


async def damage_in_the_middle_is_refused_and_changes_nothing(case: StoreUnderTest) -> None:
    """A damaged line that others follow is an error that names it, for readers and writers."""
    store = await case.open()
    session = await saved(store, "one")
    for text in ("two", "three"):
        session.add_message(Message.assistant(text))
        await session.save()
    await case.damage(session.session_id, 1)
    for _ in range(2):
        with expecting(SessionCorruptError) as caught:
            await AgentSession.load(session.session_id, store=await case.open())
        same((caught[0].session_id, caught[0].line), (session.session_id, 2))
        assert caught[0].path, "it names the place"
        writer = await store.acquire(session.session_id)
        with expecting(SessionCorruptError):
            await writer.read(START)
        await writer.release()


async def listing_reads_no_history(case: StoreUnderTest) -> None:
    """A session whose history can't be read is listed all the same."""
    store = await case.open()
    session = await saved(store, "one")
    session.add_message(Message.assistant("two"))
    await session.save()
    await case.damage(session.session_id, 0)
    assert session.session_id in [each.session_id for each in await store.list_all()]
    same(await store.exists(session.session_id), True)
