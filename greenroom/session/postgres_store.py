"""Sessions in a PostgreSQL database, which several machines share."""

import os
import weakref
from collections.abc import Callable
from functools import partial
from io import BytesIO
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import trio

from greenroom.core import SessionLockedError, utc_now
from greenroom.core._internal import check_session_id
from greenroom.session.description import SessionMetadata
from greenroom.session.files import SessionFile, no_file_error
from greenroom.session.history import START, RepairReport, check_count
from greenroom.session.holders import begin_epoch, name_holder, new_store_id, pid_of
from greenroom.session.listing import PageOrder, SessionPage
from greenroom.session.postgres_open import lock_of, open_server
from greenroom.session.store import (
    StoredPage,
    StoredSession,
    StoreStatistics,
    StoreSurvey,
    release_after,
)
from greenroom.session.store_errors import locked_error, unknown_error

if TYPE_CHECKING:
    from greenroom.session.postgres_presence import Presence
    from greenroom.session.postgres_server import Connection, Server
    from greenroom.session.postgres_writer import PostgresWriter

T = TypeVar("T")


class PostgresStore:
    """Keeps all sessions in a PostgreSQL database, for programs on any number of machines.

    What `save` has acknowledged is on the server's disk (`synchronous_commit=on`; a server with
    `fsync=off` is refused). A session has one writer among all machines: a store is present as long
    as one connection of it lasts, and holds sessions as long as it is present. Readers need no
    lock. While the server is away, restarting for instance, reads and writes wait for it; a write
    whose connection was cut off is looked for before it is repeated, so nothing is stored twice.

    The first use makes the tables, in a schema of their own, or upgrades those of an older version.
    It needs the extra `greenroom[postgres]`, and PostgreSQL 14 or later. The password belongs in
    libpq's pass file; it is shown in no error, `repr` or log. A server on another machine is asked
    for TLS (`sslmode=require`); say `verify-full` to check who it is as well. Presence does not go
    through a pooler that gives connections away after each transaction: name the server itself, or
    pool by session. Several runs of trio may use the store, even at the same time.

    Example:
        ```python
        async with PostgresStore("postgresql://db.example.org/agents") as store:
            async with AgentRuntime(store=store) as runtime:
                ...
        ```
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        schema: str = "greenroom",
        connections: int = 8,
        patience: float = 10.0,
    ) -> None:
        """Set where the sessions are; nothing is opened yet.

        Args:
            dsn: a connection string of libpq, a URI or `key=value` pairs. By default that of the
                variable `GREENROOM_DSN`, or what libpq's own variables name.
            schema: where the tables are: small letters, digits and `_`.
            connections: how many reads and writes run at once; one more connection is for presence.
            patience: seconds to wait for a server that is away, before it is an error.

        Raises:
            ConfigurationError: no server is named, the string can't be read, what is sent could be
                read by others on the way, or psycopg is not installed.
            ValueError: the schema has another name, or there are no connections.
        """
        self._server = open_server(dsn, schema, connections, patience)
        self._id = new_store_id()
        self._held: dict[str, PostgresWriter] = {}
        self._taking: set[str] = set()
        self._lock = lock_of(schema)
        from greenroom.session.postgres_presence import Presence  # with psycopg

        name = partial(name_holder, self._id)  # another one in a forked process
        self._presence = Presence(self._server, name, self._lock, self._held)
        self._finalizer = weakref.finalize(self, _close, self._server, self._presence)
        _stores.add(self)

    @property
    def holder(self) -> str:
        """The name under which it holds sessions: HOST/PID/STORE."""
        return name_holder(self._id)

    def __repr__(self) -> str:
        return f"PostgresStore({str(self._server.address)!r}, schema={self._server.schema!r})"

    def __eq__(self, other: object) -> bool:
        """Whether both keep the same sessions: stores of one schema of one database are equal."""
        return isinstance(other, PostgresStore) and self._place == other._place

    def __hash__(self) -> int:
        return hash(self._place)

    @property
    def _place(self) -> tuple[object, str]:
        return self._server.address, self._server.schema

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; what is still held is free for others. The next use opens more."""
        with trio.CancelScope(shield=True):
            await self.in_thread(self._close)

    def statistics(self) -> StoreStatistics:
        """Return figures about the store's threads in this run of trio."""
        return StoreStatistics(*self._server.figures())

    async def exists(self, session_id: str) -> bool:
        """Whether a session with this id is stored.

        Raises:
            SessionStorageError: the server refused, or was away for too long.
        """
        return await self._find(session_id)

    async def read(self, session_id: str) -> StoredSession:
        """Read a session, changing nothing.

        Raises:
            SessionCorruptError: the session is damaged.
            SessionStorageError: the server refused, or was away for too long.
        """
        from greenroom.session.postgres_tables import select_session
        from greenroom.session.postgres_writer import stored_session

        path = self._path(session_id)
        return await self._server.run(
            session_id,
            lambda each: stored_session(
                select_session(each, session_id, 0), session_id, path, START
            ),
        )

    async def read_last(self, session_id: str, limit: int) -> StoredPage:
        """Read the last messages of a session, without reading what precedes them.

        Raises:
            ValueError: `limit` is less than 1.
            SessionCorruptError: the description is damaged, or the end of the history before its
                last line.
            SessionStorageError: the server refused, or was away for too long.
        """
        from greenroom.session.postgres_writer import read_last_page

        check_count(limit)
        path = self._path(session_id)
        return await self._server.run(
            session_id, lambda each: read_last_page(each, session_id, limit, path)
        )

    async def list_all(self) -> list[SessionMetadata]:
        """Describe every stored session, the last changed first, without reading histories.

        A session that can't be listed is logged; `survey` returns the reasons.

        Raises:
            SessionStorageError: the server refused, or was away for too long.
        """
        return (await self.survey()).log_damaged()

    async def list_page(
        self,
        after: str | None = None,
        limit: int = 100,
        *,
        agent_type: str | None = None,
        archived: bool | None = None,
    ) -> SessionPage:
        """Describe some of the sessions, the last changed first; see `SessionStore.list_page`.

        An index finds where the page begins, and only the descriptions up to its end are read. A
        page of few among many, of a rare type for instance, reads those between them too.

        Raises:
            ValueError: the limit is not from 1 to 1,000, or `after` is not of an earlier page.
            SessionStorageError: the server refused, or was away for too long.
        """
        from greenroom.session.postgres_lists import list_page

        wanted = PageOrder(after, limit, agent_type, archived)
        page, damaged = await self._server.run(
            "", lambda each: list_page(each, self._server.place, wanted)
        )
        StoreSurvey((), damaged).log_damaged()
        return page

    async def survey(self) -> StoreSurvey:
        """Describe every stored session, and say which are damaged, without reading histories.

        Raises:
            SessionStorageError: the server refused, or was away for too long.
        """
        from greenroom.session.postgres_lists import survey

        return await self._server.run("", lambda each: survey(each, self._server.place))

    async def acquire(self, session_id: str) -> "PostgresWriter":
        """Become the only writer of this session, on this machine and all others.

        Raises:
            SessionLockedError: there is another writer; the error has its process id and name.
            SessionStorageError: the server refused, or was away for too long.
        """
        check_session_id(session_id)
        if session_id in self._taking:
            raise locked_error(session_id, pid_of(self.holder), self.holder)
        self._taking.add(session_id)
        try:
            found = await self._server.run(session_id, lambda each: self._take(each, session_id))
        finally:
            self._taking.discard(session_id)
        if isinstance(found, SessionLockedError):
            raise found
        return found

    async def salvage(self, session_id: str) -> RepairReport | None:
        """Make a damaged session usable again, with everything that can be verified.

        The lines before the first damaged one stay. Everything after them is moved into the table
        `torn`, and the lines of it that verify are written again, after a message that says what
        is missing. A damaged or missing description is reconstructed.

        Returns:
            What was set aside and where, what was kept and what was lost; None if nothing was
            damaged.

        Raises:
            SessionNotFoundError: the session is not stored.
            SessionLockedError: another writer has it.
            SessionStorageError: the server refused, or was away for too long.
        """
        if not await self._find(session_id, described=False):
            raise unknown_error(session_id, self)
        relatives = [each for each in await self.list_all() if each.session_id != session_id]
        async with release_after(await self.acquire(session_id)) as writer:
            return await writer.salvage(relatives)

    async def evict(self, holder: str) -> int:
        """Free all sessions of a holder that is cut off, or hangs; its next writes are refused.

        Args:
            holder: its name, as `SessionLockedError.holder` has it.

        Returns:
            How many sessions are free now.

        Raises:
            SessionStorageError: the server refused, or was away for too long.
        """
        from greenroom.session.postgres_tables import evict_holder

        return await self._server.run("", lambda each: evict_holder(each, holder))

    async def put_file(self, session_id: str, name: str, data: bytes) -> None:
        """Keep a file of a session, whole or not at all; see `KeepsFiles`.

        Raises:
            ValueError: the name leads elsewhere.
            SessionError: the file is longer than 16 MB.
            SessionStorageError: the server refused, or was away for too long.
        """
        from greenroom.session.postgres_files import put_file

        check_session_id(session_id)
        SessionFile.check(session_id, name, data)
        second = int(utc_now().timestamp())
        await self._server.run(
            session_id, lambda each: put_file(each, session_id, name, data, second)
        )

    async def open_file(self, session_id: str, name: str) -> BytesIO:
        """Return the content of a session's file.

        Raises:
            ValueError: the name is not allowed.
            SessionNotFoundError: the session does not have this file.
            SessionStorageError: the server refused, or was away for too long.
        """
        from greenroom.session.postgres_files import read_file

        check_session_id(session_id)
        SessionFile.check_name(name)
        data = await self._server.run(session_id, lambda each: read_file(each, session_id, name))
        if data is None:
            raise no_file_error(session_id, name)
        return BytesIO(data)

    async def list_files(self, session_id: str) -> tuple[SessionFile, ...]:
        """Describe a session's files, by their names.

        Raises:
            SessionStorageError: the server refused, or was away for too long.
        """
        from greenroom.session.postgres_files import list_files

        check_session_id(session_id)
        return await self._server.run(session_id, lambda each: list_files(each, session_id))

    async def remove_file(self, session_id: str, name: str) -> None:
        """Remove a file of a session, if there is one of this name.

        Raises:
            ValueError: the name is not allowed.
            SessionStorageError: the server refused, or was away for too long.
        """
        from greenroom.session.postgres_files import remove_file

        check_session_id(session_id)
        SessionFile.check_name(name)
        await self._server.run(session_id, lambda each: remove_file(each, session_id, name))

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do this work in one of the store's threads; no thread is abandoned on cancellation."""
        return await self._server.in_thread(work)

    def folder(self, session_id: str) -> str:
        """Return "": there are no files.

        Raises:
            InvalidSessionIdError: the id is not valid.
        """
        check_session_id(session_id)
        return ""

    def _close(self) -> None:
        self._presence.end()
        self._server.close()

    def leave_to_parent(self) -> None:
        """Begin anew in a forked child: the connections, and what is held, are its parent's."""
        self._server.leave_to_parent()
        self._presence.leave_to_parent()
        self._held.clear()
        self._taking.clear()

    def _path(self, session_id: str) -> str:
        return f"{self._server.place}#{check_session_id(session_id)}"

    async def _find(self, session_id: str, *, described: bool = True) -> bool:
        from greenroom.session.postgres_tables import select_description

        check_session_id(session_id)
        row = await self._server.run(session_id, lambda each: select_description(each, session_id))
        return row is not None and (row.metadata is not None or not described)

    def _take(
        self, connection: "Connection", session_id: str
    ) -> "PostgresWriter | SessionLockedError":
        """Begin an epoch of a session, or return why not."""
        from greenroom.session.postgres_tables import find_holder, take_session
        from greenroom.session.postgres_writer import PostgresWriter

        holder, known = self._presence.ensure(), self._held.get(session_id)
        live = known.epochs if known else []
        epoch = take_session(connection, session_id, begin_epoch(), holder, live, self._lock)
        if epoch is None:
            _, name = find_holder(connection, session_id) or (0, "")
            return locked_error(session_id, pid_of(name), name)
        writer = PostgresWriter(session_id, self._server, self._presence, epoch, self._held, self)
        self._held[session_id] = writer
        return writer


def ensure_presence(store: PostgresStore) -> int:
    """Return the number under which a store holds sessions now, present again if it was not.

    It blocks: call it in a thread.

    Raises:
        SessionStorageError: the server can't keep sessions.
        psycopg.Error: it can't be reached, or refused.
    """
    return store._presence.ensure()


def _close(server: "Server", presence: "Presence") -> None:
    server.close()
    presence.close()


_stores: weakref.WeakSet[PostgresStore] = weakref.WeakSet()


def _leave_to_parent() -> None:
    for store in tuple(_stores):
        store.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)
