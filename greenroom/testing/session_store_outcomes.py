"""Checks of a session store whose answers get lost; `session_stores` runs them."""

from typing import cast

from greenroom import core
from greenroom.core import Message
from greenroom.session import START, AgentSession, Position, SessionStore, SessionWriter
from greenroom.session._internal import encode_line
from greenroom.testing.session_store_contents import (
    StoreUnderTest,
    check_equal,
    checks_in,
    expect_error,
    load_texts,
    save_new,
)


class _CutStore:
    """A store whose connection is cut during the next line: after its commit, or before.

    An append of nothing only flushes, and there is nothing to be in doubt about.
    """

    def __init__(self, store: SessionStore, *, commits: bool) -> None:
        self._store = store
        self.commits = commits
        self.is_next = True

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def acquire(self, session_id: str) -> SessionWriter:
        writer = _CutWriter(await self._store.acquire(session_id), self)
        return cast("SessionWriter", writer)


class _CutWriter:
    """A writer in all but `append`."""

    def __init__(self, writer: SessionWriter, store: _CutStore) -> None:
        self._writer = writer
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._writer, name)

    async def append(self, line: bytes, at: Position, *, flush: bool = True) -> None:
        is_cut = self._store.is_next and bool(line)
        if is_cut:
            self._store.is_next = False
        if not is_cut or self._store.commits:
            await self._writer.append(line, at, flush=flush)
        if is_cut:
            raise core.SessionStorageError("the connection was cut")


async def a_line_whose_fate_is_unknown_is_stored_once(case: StoreUnderTest) -> None:
    """Whether the connection was cut before the commit or after it, the next save finds out."""
    for commits in (True, False):
        for is_open in (True, False):
            store = await case.open()
            session = await save_new(store, "one")
            cut = cast("SessionStore", _CutStore(await case.open(), commits=commits))
            loaded = await AgentSession.load(session.session_id, store=cut)
            if is_open:
                await loaded.open()
            loaded.add_message(Message.user("two"))
            with expect_error(core.SessionStorageError):
                await loaded.save()
            assert not loaded.is_saved, "nobody knows yet"
            loaded.add_message(Message.user("three"))
            await _save_after_doubt(loaded)
            await loaded.close()
            history = (await store.read(session.session_id)).history
            assert not history.torn, (
                f"a line is stored twice, or not in its place: {history.torn!r}"
            )
            check_equal(await load_texts(store, session), ["one", "two", "three"])


async def _save_after_doubt(session: AgentSession) -> None:
    try:
        await session.save()
    except core.SessionError as error:
        raise AssertionError(f"a save must find out whether the line is stored: {error}") from error


async def a_line_of_a_cut_connection_is_whole_for_the_next_writer(case: StoreUnderTest) -> None:
    """The next writer reads on from its place: the line is there once, and can't be added again."""
    store = await case.open()
    session = await save_new(store, "one")
    end = (await store.read(session.session_id)).history.end
    line = encode_line([b'{"kind":"rewind","to":0}'], end)
    writer = await store.acquire(session.session_id)
    await writer.append(line, end)
    await case.lose_lock(session.session_id)  # with the connection, before it had the answer
    heir = await (await case.open()).acquire(session.session_id)
    found = (await heir.read(end)).history
    check_equal((found.end, len(found.entries)), (end.after(line), 1))
    with expect_error(core.SessionStorageError):
        await heir.append(line, end)
    check_equal((await heir.read(START)).history.end, end.after(line))
    await heir.release()
    await writer.release()
    check_equal(await load_texts(store, session), [])


OUTCOME_CHECKS = checks_in(__name__)
