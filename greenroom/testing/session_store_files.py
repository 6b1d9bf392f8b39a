"""Checks of the files that a session store keeps beside sessions; `session_stores` runs them."""

import trio

from greenroom import core
from greenroom.core import Message
from greenroom.core._internal import new_id
from greenroom.session import AgentSession, SessionStore
from greenroom.session._internal import LONGEST_FILE
from greenroom.testing.session_store_contents import (
    StoreUnderTest,
    add_and_save,
    check_equal,
    checks_in,
    expect_error,
    save_new,
)

_BAD_NAMES = (
    *("", ".", "..", "../a", "a/b", "/a", "a\\b", ".hidden", "a\0", "a b", "\u00e9", "a\n"),
    "a" * 101,
)


async def a_file_comes_back_as_it_was(case: StoreUnderTest) -> None:
    """With any bytes, of an open session as of a closed one, through a newly opened store."""
    store = await case.open()
    session = await save_new(store, "one")
    await session.open()
    contents = {"a.txt": b"", "Bash-1.txt": b"\0\r\n\xff" * 1_000, "b": b"second"}
    await store.put_file(session.session_id, "b", b"first")
    for name, data in contents.items():
        await store.put_file(session.session_id, name, data)
    await session.close()
    for each in (store, await case.open()):
        check_equal(await _read_all(each, session.session_id), contents)
    await store.remove_file(session.session_id, "b")
    await store.remove_file(session.session_id, "b")
    with expect_error(core.SessionNotFoundError):
        await store.open_file(session.session_id, "b")
    check_equal(await store.list_files(new_id("s")), ())


async def a_file_may_come_before_its_session(case: StoreUnderTest) -> None:
    """What a tool keeps before the first save is there after it, and makes no session by itself."""
    store = await case.open()
    session = AgentSession.new("checked", session_id=new_id("s"), store=store)
    await session.open()
    await store.put_file(session.session_id, "a", b"early")
    check_equal(await store.exists(session.session_id), False)
    await add_and_save(session, Message.user("one"))
    await session.close()
    check_equal(await _read_all(await case.open(), session.session_id), {"a": b"early"})


async def files_of_sessions_are_kept_apart(case: StoreUnderTest) -> None:
    """A name in one session is not that of another."""
    store = await case.open()
    first, second = await save_new(store, "one"), await save_new(store, "two")
    for session in (first, second):
        await store.put_file(session.session_id, "a", session.session_id.encode())
    for session in (first, second):
        found = await _read_all(store, session.session_id)
        check_equal(found, {"a": session.session_id.encode()})


async def a_file_has_a_bound_and_a_name_that_leads_nowhere(case: StoreUnderTest) -> None:
    """16 MB are kept, more is an error that says so; nothing is written under any other name."""
    store = await case.open()
    session = await save_new(store, "one")
    await store.put_file(session.session_id, "a", b"x" * LONGEST_FILE)
    with expect_error(core.SessionError, message="16,777,216"):
        await store.put_file(session.session_id, "b", b"x" * 17_000_000)
    for name in _BAD_NAMES:
        with expect_error(ValueError):
            await store.put_file(session.session_id, name, b"x")
        with expect_error(ValueError):
            await store.open_file(session.session_id, name)
    (file,) = await store.list_files(session.session_id)
    check_equal((file.name, file.size), ("a", LONGEST_FILE))


async def files_go_with_their_session(case: StoreUnderTest) -> None:
    """A fork has copies, an archived session keeps its files, a deleted one leaves none."""
    store = await case.open()
    session = await save_new(store, "one")
    await store.put_file(session.session_id, "a", b"kept")
    fork = await session.fork()
    await AgentSession.archive(session.session_id, store=store)
    check_equal(await _read_all(store, session.session_id), {"a": b"kept"})
    await AgentSession.delete(session.session_id, store=store)
    check_equal(await store.list_files(session.session_id), ())
    check_equal(await _read_all(await case.open(), fork.session_id), {"a": b"kept"})
    again = AgentSession.new("checked", session_id=session.session_id, store=store)
    await add_and_save(again, Message.user("new"))
    check_equal(await store.list_files(session.session_id), ())


async def a_file_is_never_half_written(case: StoreUnderTest) -> None:
    """Who reads while it is replaced finds one or the other; so does who comes after a cancel."""
    store, other = await case.open(), await case.open()
    session = await save_new(store, "one")
    whole = [bytes([number]) * 300_000 for number in range(6)]
    await store.put_file(session.session_id, "a", whole[0])

    async def replace() -> None:
        for data in whole[1:]:
            with trio.move_on_after(0):
                await store.put_file(session.session_id, "a", data)
            await store.put_file(session.session_id, "a", data)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(replace)
        for _ in range(10):
            found = (await other.open_file(session.session_id, "a")).read()
            assert found in whole, "it is one that was put"
    check_equal(await _read_all(other, session.session_id), {"a": whole[-1]})


async def _read_all(store: SessionStore, session_id: str) -> dict[str, bytes]:
    files = await store.list_files(session_id)
    check_equal([each.name for each in files], sorted(each.name for each in files))
    found = {each.name: (await store.open_file(session_id, each.name)).read() for each in files}
    check_equal([each.size for each in files], [len(data) for data in found.values()])
    return found


FILE_CHECKS = checks_in(__name__)
