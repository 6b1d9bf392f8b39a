"""Checks of deleting: all of a session or nothing, and nothing but it."""

from functools import partial
from itertools import cycle

import trio

from greenroom.core import (
    Message,
    SessionFencedError,
    SessionLockedError,
    SessionNotFoundError,
    new_id,
)
from greenroom.session import START, AgentSession, SessionStore, delete_session, encode_line
from greenroom.testing.stores.disturbance import cancelling
from greenroom.testing.stores.under_test import StoreUnderTest, expecting, same, saved, texts


async def a_deleted_session_is_gone_and_its_id_is_free(case: StoreUnderTest) -> None:
    """Nobody finds it any more, the others are as they were, and a new one may have its id."""
    store = await case.open()
    session, other = await saved(store, "one", "two"), await saved(store, "other")
    await delete_session(session.session_id, store=store)
    for each in (store, await case.open()):
        await _is_gone(each, session.session_id)
        same(await texts(each, other), ["other"])
    with expecting(SessionNotFoundError) as caught:
        await delete_session(session.session_id, store=store)
    same(caught[0].session_id, session.session_id)
    again = AgentSession.new("checked", session_id=session.session_id, store=store)
    again.add_message(Message.user("new"))
    await again.save()
    same(await texts(store, again), ["new"])


async def who_loaded_a_session_that_is_deleted_cannot_store_it_again(case: StoreUnderTest) -> None:
    """It is told so, whether it has changes or not, and brings nothing back."""
    store = await case.open()
    session = await saved(store, "one")
    loaded = await AgentSession.load(session.session_id, store=await case.open())
    await delete_session(session.session_id, store=store)
    with expecting(SessionNotFoundError):
        await loaded.open()
    loaded.add_message(Message.user("more"))
    for attempt in (loaded.save, loaded.open):
        with expecting(SessionNotFoundError):
            await attempt()
    await _is_gone(store, session.session_id)


async def a_session_that_is_written_is_not_deleted(case: StoreUnderTest) -> None:
    """Its holder goes on as if nobody had tried."""
    store = await case.open()
    session = await saved(store, "one")
    await session.open()
    for each in (store, await case.open()):
        with expecting(SessionLockedError):
            await delete_session(session.session_id, store=each)
    session.add_message(Message.assistant("two"))
    await session.save()
    await session.close()
    same(await texts(store, session), ["one", "two"])
    await delete_session(session.session_id, store=store)


async def a_damaged_session_can_be_deleted(case: StoreUnderTest) -> None:
    """What nobody can read any more can be thrown away."""
    store = await case.open()
    session = await saved(store, "one")
    session.add_message(Message.assistant("two"))
    await session.save()
    await case.damage(session.session_id, 0)
    await delete_session(session.session_id, store=store)
    await _is_gone(store, session.session_id)


async def a_writer_that_deleted_its_session_writes_nothing(case: StoreUnderTest) -> None:
    """Its right is gone with the session; once it has let go, the id is another's to take."""
    store = await case.open()
    session = await saved(store, "one")
    stored = await store.read(session.session_id)
    writer = await store.acquire(session.session_id)
    await writer.delete()
    assert stored.metadata is not None, "it was stored"
    with expecting(SessionFencedError):
        await writer.append(encode_line([b'{"kind":"rewind","to":0}'], START), START)
    with expecting(SessionFencedError):
        await writer.write_metadata(stored.metadata)
    await _is_gone(store, session.session_id)
    await writer.release()
    await (await store.acquire(session.session_id)).release()
    await _is_gone(store, session.session_id)


async def a_delete_cancelled_at_any_moment_leaves_a_session_whole_or_gone(
    case: StoreUnderTest,
) -> None:
    """Wherever it is cut off, no half of a session is left, and no lock."""
    store, steps, is_cut = await case.open(), 0, True
    while is_cut:
        session = await saved(store, "one", "two")
        with trio.CancelScope() as scope:
            with cancelling(scope, steps):
                await delete_session(session.session_id, store=store)
        steps, is_cut = steps + 1, scope.cancelled_caught
        if await store.exists(session.session_id):
            same(await texts(store, session), ["one", "two"])
            await delete_session(session.session_id, store=store)
        await _is_gone(store, session.session_id)
    assert steps > 1, "deleting can be cancelled"


async def children_are_deleted_with_their_parent_where_that_is_asked_for(
    case: StoreUnderTest,
) -> None:
    """And theirs, and no others; one that is written keeps what is above it."""
    store = await case.open()
    parent, other = await saved(store, "parent"), await saved(store, "other")
    child = await _child(store, parent)
    grandchild = await _child(store, child)
    await delete_session(grandchild.session_id, store=store)
    same(await texts(store, child), ["child"])
    grandchild = await _child(store, child)
    for busy in (parent, grandchild):
        await busy.open()
        with expecting(SessionLockedError):
            await delete_session(parent.session_id, store=store, children=True)
        for each in (parent, child, grandchild):
            same(await store.exists(each.session_id), True)
        await busy.close()
    await delete_session(parent.session_id, store=store, children=True)
    for each in (parent, child, grandchild):
        await _is_gone(store, each.session_id)
    same(await texts(store, other), ["other"])


async def many_sessions_are_deleted_side_by_side(case: StoreUnderTest) -> None:
    """Deletes at the same time don't get in each other's way, with children or without."""
    store = await case.open()
    alone = [await saved(store, "alone") for _ in range(60)]
    parents = [await saved(store, "parent") for _ in range(10)]
    children = [await _child(store, parent) for parent in parents for _ in range(5)]
    other = await saved(store, "other")

    stores = cycle((store, await case.open()))
    async with trio.open_nursery() as nursery:
        for each in (*alone, *parents):
            delete = partial(delete_session, store=next(stores), children=each in parents)
            nursery.start_soon(delete, each.session_id)
    left = {each.session_id for each in await store.list_all()}
    same(left & {each.session_id for each in (*alone, *parents, *children)}, set())
    same(await texts(store, other), ["other"])


async def _child(store: SessionStore, parent: AgentSession) -> AgentSession:
    session = AgentSession.new_subagent(
        "checked", parent.session_id, session_id=new_id("s"), store=store
    )
    session.add_message(Message.user("child"))
    await session.save()
    return session


async def _is_gone(store: SessionStore, session_id: str) -> None:
    """See that neither a look nor a load nor a list finds it."""
    same(await store.exists(session_id), False)
    with expecting(SessionNotFoundError):
        await AgentSession.load(session_id, store=store)
    assert session_id not in [each.session_id for each in await store.list_all()], "it is listed"
