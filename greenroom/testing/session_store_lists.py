"""Checks of how a session store lists its sessions; `session_stores` runs them."""

from greenroom.core import Message
from greenroom.core._internal import new_id
from greenroom.session import AgentSession, SessionMetadata, SessionStore
from greenroom.testing.session_store_contents import (
    StoreUnderTest,
    add_and_save,
    check_equal,
    checks_in,
    control_clock,
    expect_error,
    save_new,
)


async def the_list_shows_the_last_changed_first(case: StoreUnderTest) -> None:
    """A list is of descriptions, newest first; a new line alone makes a session newer."""
    store, sessions = await case.open(), []
    with control_clock() as moments:
        for _ in range(3):
            sessions.append(await save_new(store, "one"))
            next(moments)
        await add_and_save(sessions[1], Message.assistant("two"))
    ids = [sessions[place].session_id for place in (1, 2, 0)]
    listed = [each for each in await (await case.open()).list_all() if each.session_id in ids]
    check_equal(listed, [sessions[place].description.record for place in (1, 2, 0)])
    check_equal((await AgentSession.load(ids[0], store=store)).description.record, listed[0])


async def listing_reads_no_history(case: StoreUnderTest) -> None:
    """A session whose history can't be read is listed all the same."""
    store = await case.open()
    session = await save_new(store, "one")
    await add_and_save(session, Message.assistant("two"))
    await case.damage(session.session_id, 0)
    assert session.session_id in [each.session_id for each in await store.list_all()]
    check_equal(await store.exists(session.session_id), True)


async def pages_hold_every_session_once(case: StoreUnderTest) -> None:
    """Pages of any length, one after the other, are the list; its order does not depend on them."""
    store, kind = await case.open(), new_id("kind")
    with control_clock() as moments:
        for number in range(9):
            session = AgentSession.new(kind, session_id=new_id("s"), store=store)
            await add_and_save(session, Message.user("one"))
            if number % 3 == 0:
                next(moments)
            if number % 4 == 0:
                await AgentSession.archive(session.session_id, store=store)
    listed = await _list_in_order(store, kind)
    for limit in (1, 2, 4, 9, 100):
        for each in (store, await case.open()):
            check_equal(await _read_pages(each, limit, agent_type=kind), listed)
    for archived in (True, False):
        found = await _read_pages(store, 2, agent_type=kind, archived=archived)
        check_equal(found, [each for each in listed if each.is_archived is archived])
    everything = await _read_pages(store, 7)
    check_equal([each for each in everything if each.agent_type == kind], listed)
    check_equal(len(everything), len(await store.list_all()))
    check_equal((await store.list_page(agent_type=new_id("kind"))).after, None)


async def a_page_goes_on_after_a_session_that_is_gone(case: StoreUnderTest) -> None:
    """What is deleted between two pages takes nothing else with it."""
    store, kind = await case.open(), new_id("kind")
    for _ in range(4):
        session = AgentSession.new(kind, session_id=new_id("s"), store=store)
        await add_and_save(session, Message.user("one"))
    listed = await _list_in_order(store, kind)
    first = await store.list_page(limit=2, agent_type=kind)
    await AgentSession.delete(listed[1].session_id, store=store)
    second = await store.list_page(first.after, limit=2, agent_type=kind)
    check_equal([*first.sessions, *second.sessions], listed)
    check_equal(second.after, None)


async def a_page_of_nothing_is_an_error(case: StoreUnderTest) -> None:
    """So is a place that is not of an earlier page."""
    store = await case.open()
    for limit in (0, -1, 1_001):
        with expect_error(ValueError):
            await store.list_page(limit=limit)
    for after in ("", "no place", "bm8", "W10="):
        with expect_error(ValueError):
            await store.list_page(after)


async def _list_in_order(store: SessionStore, kind: str) -> list[SessionMetadata]:
    found = [each for each in await store.list_all() if each.agent_type == kind]
    return sorted(found, key=lambda each: (each.updated_at, each.session_id), reverse=True)


async def _read_pages(
    store: SessionStore,
    limit: int,
    *,
    agent_type: str | None = None,
    archived: bool | None = None,
) -> list[SessionMetadata]:
    found, after, is_over = list[SessionMetadata](), None, False
    while not is_over:
        page = await store.list_page(after, limit, agent_type=agent_type, archived=archived)
        assert len(page.sessions) <= limit, "a page has its limit"
        found += page.sessions
        after, is_over = page.after, page.after is None
    return found


LIST_CHECKS = checks_in(__name__)
