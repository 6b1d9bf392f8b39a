"""Checks of the end of a conversation, read without what precedes it."""

from greenroom.core import Message, SessionCorruptError, SessionNotFoundError, new_id
from greenroom.session import AgentSession, read_last
from greenroom.testing.stores.under_test import StoreUnderTest, expecting, same, saved

_LONG = "so it goes " * 1_000


async def the_last_page_is_the_end_of_the_conversation(case: StoreUnderTest) -> None:
    """A page holds what a whole load ends with, over rewinds and a compaction."""
    session = await _long(case, 30)
    await _compare(case, session)
    await session.rewind(to=20)
    await _compare(case, session)
    await session.compact("what was said", keep=15)
    await _compare(case, session)
    await _grow(session, 10)
    await session.rewind(to=len(session.history) - 5)
    await _compare(case, session)


async def damage_is_noticed_in_the_last_page_and_not_before_it(case: StoreUnderTest) -> None:
    """A page is verified, and what precedes it is not looked at."""
    session = await _long(case, 30)
    await case.damage(session.session_id, 3)
    store = await case.open()
    page = await read_last(session.session_id, 2, store=store)
    same(page.messages, session.history[-2:])
    with expecting(SessionCorruptError) as caught:
        await read_last(session.session_id, 30, store=store)
    same((caught[0].session_id, caught[0].line), (session.session_id, 4))


async def the_last_page_leaves_a_torn_end_out(case: StoreUnderTest) -> None:
    """A last line that can't be read is reported with a page as with a load."""
    session = await _long(case, 12)
    await case.damage(session.session_id, 12)
    store = await case.open()
    page = await read_last(session.session_id, 2, store=store)
    same(page.messages, session.history[-3:-1])
    same(page.repair, (await AgentSession.load(session.session_id, store=store)).repair)
    assert page.repair is not None, "it is reported"
    same(page.repair.line, 13)


async def the_last_page_of_nothing_is_an_error(case: StoreUnderTest) -> None:
    """There is no page of a session that is not there, none without a message, and else there is one."""
    store = await case.open()
    with expecting(SessionNotFoundError):
        await read_last(new_id("s"), 1, store=store)
    session = AgentSession.new("checked", session_id=new_id("s"), store=store)
    session.set_metadata("title", "nothing was said")
    await session.save()
    page = await read_last(session.session_id, 1, store=store)
    same((page.messages, page.is_whole, page.repair), ((), True, None))
    with expecting(ValueError):
        await read_last(session.session_id, 0, store=store)


async def _long(case: StoreUnderTest, messages: int) -> AgentSession:
    session = await saved(await case.open(), "begin")
    await _grow(session, messages)
    return session


async def _grow(session: AgentSession, messages: int) -> None:
    """Add messages of eleven kilobytes, each in a line of its own."""
    for number in range(messages):
        session.add_message(Message.user(f"{number} {_LONG}"))
        await session.save(flush=False)
    await session.save()


async def _compare(case: StoreUnderTest, session: AgentSession) -> None:
    whole = session.history
    for count in (1, 2, 7, len(whole) - 1, len(whole), len(whole) + 1):
        page = await read_last(session.session_id, count, store=await case.open())
        same([each.text for each in page.messages], [each.text for each in whole[-count:]])
        same((page.is_whole, page.repair), (count >= len(whole), None))
        same(len(page.lines), len(page.messages))
