"""Checks of the right to write: one holder, who may be cancelled, cut off or replaced."""

import os

import trio

from greenroom.core import (
    Message,
    SessionError,
    SessionExistsError,
    SessionFencedError,
    SessionLockedError,
    new_id,
)
from greenroom.session import START, AgentSession, History, SessionWriter, encode_line
from greenroom.testing.stores.disturbance import AfterAppend, act_within, cancelling
from greenroom.testing.stores.under_test import StoreUnderTest, expecting, same, saved, texts


async def one_writer_at_a_time(case: StoreUnderTest) -> None:
    """A second writer is refused, and told who holds the session; readers are let in."""
    store = await case.open()
    first = await saved(store, "one")
    await first.open()
    await first.open()  # it is open already
    second = await AgentSession.load(first.session_id, store=store)
    for other in (store, await case.open()):
        second = await AgentSession.load(first.session_id, store=other)
        second.add_message(Message.user("two"))
        for attempt in (second.save, second.open):
            with expecting(SessionLockedError) as caught:
                await attempt()
            same(caught[0].session_id, first.session_id)
            assert caught[0].pid in (os.getpid(), None), "it names the process, if it knows it"
        same(await texts(other, first), ["one"])
    await first.close()
    await second.save()
    same(await texts(store, first), ["one", "two"])


async def an_open_unsaved_session_holds_its_id(case: StoreUnderTest) -> None:
    """An id is taken while somebody holds it, and free again if nothing was stored."""
    store, session_id = await case.open(), new_id("s")
    first = AgentSession.new("checked", session_id=session_id, store=store)
    second = AgentSession.new("checked", session_id=session_id, store=await case.open())
    await first.open()
    with expecting(SessionLockedError):
        await second.open()
    await first.close()
    await second.open()
    await second.close()


async def a_new_session_cannot_take_an_id_of_the_store(case: StoreUnderTest) -> None:
    """Neither while the session of that id is open nor later."""
    store = await case.open()
    first = await saved(store, "one")
    second = AgentSession.new("checked", session_id=first.session_id, store=store)
    second.add_message(Message.user("other"))
    for attempt in (second.save, second.open):
        with expecting(SessionExistsError):
            await attempt()
    await first.open()
    with expecting(SessionExistsError):
        await second.open()
    await first.close()
    same(await texts(store, first), ["one"])


async def opening_brings_in_what_another_writer_added(case: StoreUnderTest) -> None:
    """Who opens a session sees it as it is stored now."""
    store = await case.open()
    first = await saved(store, "one")
    reader = await AgentSession.load(first.session_id, store=await case.open())
    first.add_message(Message.assistant("two"))
    first.set_metadata("title", "mine")
    await first.save()
    await reader.open()
    same([message.text for message in reader.history], ["one", "two"])
    same(reader.metadata, {"title": "mine"})
    await reader.close()


async def a_change_on_both_sides_is_refused(case: StoreUnderTest) -> None:
    """Two who loaded the same session can't both go on."""
    store = await case.open()
    first = await saved(store, "one")
    second = await AgentSession.load(first.session_id, store=store)
    first.add_message(Message.user("two"))
    await first.save()
    second.add_message(Message.user("also two"))
    for attempt in (second.save, second.open):
        with expecting(SessionError, message="another writer"):
            await attempt()
    first.add_message(Message.user("three"))
    await first.save()
    same(await texts(store, first), ["one", "two", "three"])


async def saves_at_the_same_time_store_everything_once(case: StoreUnderTest) -> None:
    """Tasks that share an open session may all save it."""
    store = await case.open()
    session = AgentSession.new("checked", store=store)

    async def say(number: int) -> None:
        session.add_message(Message.user(str(number)))
        await session.save()

    await session.open()
    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(say, number)
    await session.close()
    same(await texts(store, session), [message.text for message in session.history])
    same(len(session.history), 20)


async def a_save_cancelled_at_any_moment_can_be_repeated(case: StoreUnderTest) -> None:
    """Wherever it is cut off, it leaves the session free, and no message is stored twice."""
    store, steps, is_cut = await case.open(), 0, True
    while is_cut:
        session = AgentSession.new("checked", store=store)
        session.add_message(Message.user("one"))
        with trio.CancelScope() as scope:
            with cancelling(scope, steps):
                await session.save()
        steps, is_cut = steps + 1, scope.cancelled_caught
        await session.save()
        same(await texts(store, session), ["one"])
    assert steps > 1, "saving can be cancelled"


async def closing_lets_go_even_when_cancelled(case: StoreUnderTest) -> None:
    """A cancelled holder leaves no lock behind."""
    store = await case.open()
    session = await saved(store, "one")
    await session.open()
    with trio.CancelScope() as scope:
        scope.cancel()
        await session.close()
    again = await AgentSession.load(session.session_id, store=store)
    await again.open()
    await again.close()


async def cancelling_between_the_two_writes_loses_nothing(case: StoreUnderTest) -> None:
    """A first save is a line and a description; cut off between them, it can be repeated."""
    for is_open in (True, False):
        store, session_id = await case.open(), new_id("s")
        scope = trio.CancelScope()
        cut = AfterAppend(store, scope.cancel)
        session = AgentSession.new("checked", session_id=session_id, store=cut)
        session.add_message(Message.user("one"))
        with scope:
            if is_open:
                await session.open()
            await session.save()
        await session.close()
        same(await store.exists(session_id), not scope.cancelled_caught)
        session.add_message(Message.user("two"))
        await session.save()
        same(await texts(store, session), ["one", "two"])


async def what_is_added_during_a_save_is_stored_by_the_next(case: StoreUnderTest) -> None:
    """A message that comes while a line is being written is neither lost nor written twice."""
    store = await case.open()
    busy = AfterAppend(store, lambda: session.add_message(Message.user("two")))
    session = AgentSession.new("checked", store=busy)
    session.add_message(Message.user("one"))
    await session.save()
    assert not session.is_saved, "the second is not stored yet"
    same(await texts(store, session), ["one"])
    await session.save()
    assert session.is_saved, "the second is stored"
    same(await texts(store, session), ["one", "two"])


async def a_writer_that_lost_its_session_writes_nothing(case: StoreUnderTest) -> None:
    """A writer that was taken for dead is refused from the next holder on, whatever it writes."""
    store = await case.open()
    session = await saved(store, "one")
    stored = await store.read(session.session_id)
    end = stored.history.end
    line = encode_line([b'{"kind":"rewind","to":0}'], end)
    stale = await store.acquire(session.session_id)
    await case.lose_lock(session.session_id)
    heir = await (await case.open()).acquire(session.session_id)
    assert stored.metadata is not None, "it was stored"
    with expecting(SessionFencedError):
        await stale.append(line, end)
    with expecting(SessionFencedError):
        await stale.write_metadata(stored.metadata)
    with expecting(SessionFencedError):
        await stale.set_aside(START)
    with expecting(SessionFencedError):
        await stale.delete()
    await stale.release()
    with expecting(SessionLockedError):
        await store.acquire(session.session_id)
    same((await heir.read(START)).history, stored.history)
    await heir.append(line, end)
    await heir.release()
    same(await texts(store, session), [])


async def a_writer_that_loses_its_session_within_a_write_does_not_go_on(
    case: StoreUnderTest,
) -> None:
    """To see that the right is still there and to write is one step: nothing can come between.

    Whichever step of an append the next writer comes behind: once that one has its right, the history
    is its own, with the line or without.
    """
    step, is_within = 1, True
    while is_within:
        store, seen = await case.open(), list[History]()
        session = await saved(store, "one")
        end = (await store.read(session.session_id)).history.end
        stale = await store.acquire(session.session_id)

        async def take_over(session_id: str = session.session_id) -> None:
            await case.lose_lock(session_id)
            heir = await (await case.open()).acquire(session_id)
            seen.append((await heir.read(START)).history)  # noqa: B023 -- it is called in this round
            heirs.append(heir)  # noqa: B023

        heirs = list[SessionWriter]()
        line = encode_line([b'{"kind":"rewind","to":0}'], end)
        try:
            _, is_within = await act_within(stale.append(line, end), step, take_over)
        except SessionFencedError:
            is_within = True
        if heirs:
            same((await heirs[0].read(START)).history, seen[0])
            await heirs[0].release()
        await stale.release()
        step += 1
    assert step > 1, "appending takes a step at the least"
