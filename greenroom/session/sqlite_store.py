"""Sessions in one SQLite database: the store, and the one writer of a session in it."""

import contextlib
import os
from collections.abc import Callable, Sequence
from sqlite3 import Connection
from types import TracebackType
from typing import Self, TypeVar

import trio

from greenroom.core import SessionError, SessionStorageError, check_session_id
from greenroom.fs import HeldError, lock, unlock
from greenroom.session import sqlite_rows as rows
from greenroom.session.description import SessionMetadata, encode_metadata
from greenroom.session.history import START, Position, RepairReport, check_count
from greenroom.session.sqlite_database import Database, is_uncertain
from greenroom.session.store import (
    StoredPage,
    StoredSession,
    StoreStatistics,
    StoreSurvey,
    locked_error,
    newest_first,
    unknown_error,
)

T = TypeVar("T")


class SQLiteWriter:
    """Writes one session while its epoch lasts; made by `SQLiteStore.acquire`.

    The lock on a file tells whether the holder lives. The epoch decides: it is checked in the same
    transaction that writes.
    """

    def __init__(
        self, session_id: str, database: Database, epoch: int, lock: int, folder: str
    ) -> None:
        """Take over a lock that is held already, on this folder, and an epoch that has begun."""
        self._session_id = session_id
        self._database = database
        self._epoch = epoch
        self._lock = lock
        self._folder = folder
        self._is_broken = False

    @property
    def is_broken(self) -> bool:
        """Whether a sync failed: what is stored is then uncertain, and nothing more is written."""
        return self._is_broken

    async def read(self, since: Position) -> StoredSession:
        """Read what is stored, the history from `since` on.

        Raises:
            SessionCorruptError: it is damaged, or what was before `since` is no longer there.
            SessionNotFoundError: there was a history before `since`, and there is none now.
            SessionStorageError: SQLite or the disk refused.
        """
        return await self._run(lambda: rows.read_session(self._database, self._session_id, since))

    async def append(self, line: bytes, at: Position, *, flush: bool = True) -> None:
        """Add a line to the history, which must end at this place; durable, also without `flush`.

        Raises:
            SessionFencedError: another writer has the session now.
            SessionStorageError: SQLite or the disk refused; the history is as it was before.
        """
        if line:
            await self._write(lambda connection: self._append(connection, line, at))

    async def write_metadata(self, metadata: SessionMetadata) -> None:
        """Replace the description, all or nothing; durable when it returns.

        Raises:
            SessionCorruptError: what stands there describes no session, or another; it was left alone.
            SessionFencedError: another writer has the session now.
            SessionStorageError: SQLite or the disk refused.
        """
        await self._write(lambda connection: self._describe(connection, metadata))

    async def set_aside(self, at: Position) -> str:
        """Move what follows this place into the table `torn`; return the place there.

        Raises:
            SessionFencedError: another writer has the session now.
            SessionStorageError: SQLite or the disk refused; the history is as it was before.
        """
        number = await self._write(
            lambda connection: rows.cut(connection, self._row(connection), at)
        )
        return f"{self._database.path}: number {number} of the table torn"

    async def delete(self) -> None:
        """Remove the session, and what was set aside of it, in one transaction.

        Raises:
            SessionFencedError: another writer has the session now.
            SessionStorageError: SQLite or the disk refused; the session is as it was before.
        """
        await self._write(lambda connection: rows.delete(connection, self._row(connection)))

    async def salvage(self, relatives: Sequence[SessionMetadata]) -> RepairReport | None:
        """Keep of what is damaged what verifies, and set all of it aside; say what that was, if anything.

        A description is put together anew with the help of the other sessions of the store.

        Raises:
            SessionNotFoundError: there is nothing of a session here.
            SessionFencedError: another writer has the session now.
            SessionStorageError: SQLite or the disk refused; the history is as it was before.
        """
        return await self._write(lambda connection: self._salvage(connection, relatives))

    async def release(self) -> None:
        """End the epoch, and let go of the lock even if that fails.

        Raises:
            SessionStorageError: SQLite or the disk refused; the lock is let go all the same.
        """
        await self._run(self._release)

    async def _write(self, work: Callable[[Connection], T]) -> T:
        def write() -> T:
            with self._database.writing() as connection:
                rows.check_epoch(connection, self._session_id, self._epoch)
                return work(connection)

        return await self._run(write)

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await self._database.run(self._session_id, work)
        except SessionError as error:
            self._is_broken = self._is_broken or is_uncertain(error)
            raise

    def _row(self, connection: Connection) -> rows.Row:
        session_id = self._session_id
        return rows.find(connection, session_id) or rows.add(connection, session_id)

    def _append(self, connection: Connection, line: bytes, at: Position) -> None:
        row, path = self._row(connection), f"{self._database.path}#{self._session_id}"
        if row.size != at.size:
            raise SessionStorageError(
                f"{path}: it was changed by somebody else", session_id=self._session_id
            )
        rows.check_length(at.size + len(line), self._session_id, path)
        rows.add_line(connection, row, line, at)

    def _salvage(
        self, connection: Connection, relatives: Sequence[SessionMetadata]
    ) -> RepairReport | None:
        row = rows.find(connection, self._session_id)
        if row is None or (row.metadata is None and not row.size):
            raise unknown_error(self._session_id, self._database.path)
        path = f"{self._database.path}#{self._session_id}"
        return rows.salvage(connection, row, path, relatives)

    def _describe(self, connection: Connection, metadata: SessionMetadata) -> None:
        row = self._row(connection)
        row.described(f"{self._database.path}#{self._session_id}")  # it is ours
        rows.describe(connection, row, encode_metadata(metadata, row.metadata or b""))

    def _release(self) -> None:
        try:
            with self._database.writing() as connection:
                rows.give_back(connection, self._session_id, self._epoch)
        finally:
            unlock(self._lock, self._folder)
            with contextlib.suppress(OSError):  # somebody else holds it already
                os.rmdir(self._folder)


class SQLiteStore:
    """Keeps all sessions in one file, made at the first save; for this user alone (0600).

    What a save has returned for survives `kill -9`, and a loss of power on a disk that honours
    flushes: each append is a transaction of its own, synced (write-ahead log, `synchronous=FULL`).
    A session has one writer, in whatever process of this machine; readers need no lock. SQLite's
    locks don't hold on network file systems: keep the file on a disk of this machine.

    Beside the file lie, while it is open, two of SQLite's own (`-wal`, `-shm`), and a folder of locks
    (`-locks`). Everything runs in threads on one connection, which is opened when it is first
    needed. `aclose` closes it and leaves the one file; where nobody calls that, the end of the
    program does. It is usable from several runs of trio, also at the same time.

    Example:
        ```python
        async with SQLiteStore("sessions.db") as store, AgentRuntime(store=store) as runtime:
            ...
        ```
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Name the file; nothing is read or made yet."""
        self._path = os.path.abspath(path)
        self._database = Database(self._path)

    def __repr__(self) -> str:
        return f"SQLiteStore({self._path!r})"

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
        """Close the connection, and so tidy up beside the file; the next use opens another.

        Raises:
            SessionStorageError: SQLite or the disk refused; nothing is lost.
        """
        await self._database.run("", self._database.close)

    def statistics(self) -> StoreStatistics:
        """Return figures about the store's threads in this run of trio; call it from inside one."""
        return StoreStatistics.of(self._database.limiter())

    async def exists(self, session_id: str) -> bool:
        """Whether a session of this id is stored.

        Raises:
            SessionCorruptError: the file is no database, or damaged.
            SessionStorageError: it can't be read.
        """
        check_session_id(session_id)
        return await self._database.run(session_id, lambda: self._exists(session_id))

    async def read(self, session_id: str) -> StoredSession:
        """Read a session as it stands, changing nothing.

        Raises:
            SessionCorruptError: the session is damaged, or the file is no database, or damaged.
            SessionStorageError: it can't be read.
        """
        check_session_id(session_id)
        return await self._database.run(
            session_id, lambda: rows.read_session(self._database, session_id, START)
        )

    async def read_last(self, session_id: str, count: int) -> StoredPage:
        """Read the last messages of a session as it stands; of its lines no more than that takes.

        Raises:
            ValueError: `count` is less than 1.
            SessionCorruptError: the description is damaged, or the end of the history but for its
                last line; or the file is no database, or damaged.
            SessionStorageError: it can't be read.
        """
        check_count(count)
        check_session_id(session_id)
        return await self._database.run(
            session_id, lambda: rows.read_last(self._database, session_id, count)
        )

    async def list_all(self) -> list[SessionMetadata]:
        """Describe every stored session, the last changed first; histories are not read.

        A session that can't be listed is logged; `survey` says which they are.

        Raises:
            SessionCorruptError: the file is no database, or damaged.
            SessionStorageError: it can't be read.
        """
        return (await self.survey()).logged()

    async def survey(self) -> StoreSurvey:
        """Describe every stored session, and say which are damaged; histories are not read.

        Raises:
            SessionCorruptError: the file is no database, or damaged.
            SessionStorageError: it can't be read.
        """
        return await self._database.run("", self._survey)

    async def acquire(self, session_id: str) -> SQLiteWriter:
        """Become the one writer of this session, in this process and all others.

        Raises:
            SessionLockedError: somebody else is; it carries the process id.
            SessionCorruptError: the file is no database, or damaged.
            SessionStorageError: it can't be written.
        """
        folder = os.path.join(f"{self._path}-locks", check_session_id(session_id))
        try:
            fd, epoch = await self._database.run(
                session_id, lambda: self._acquire(session_id, folder)
            )
        except HeldError as error:
            raise locked_error(session_id, error.pid) from None
        return SQLiteWriter(session_id, self._database, epoch, fd, folder)

    async def salvage(self, session_id: str) -> RepairReport | None:
        """Make a damaged session usable again, with all that can be shown to be whole.

        The lines before the first damaged one stay. Of what follows, the lines that verify are written
        again behind a message that says that something is missing; and all of it, as it was, is moved
        into the table `torn`. A description that is damaged or missing is put together anew.

        Returns:
            What was set aside and where, what was kept and what was lost; None where nothing was damaged.

        Raises:
            SessionNotFoundError: there is no such session.
            SessionLockedError: another writer has it.
            SessionCorruptError: it is the database itself that is damaged.
            SessionStorageError: SQLite or the disk refused.
        """
        check_session_id(session_id)
        if not await self._database.run(session_id, lambda: self._find(session_id)):
            raise unknown_error(session_id, self)
        relatives = [each for each in await self.list_all() if each.session_id != session_id]
        writer = await self.acquire(session_id)
        try:
            return await writer.salvage(relatives)
        finally:
            with trio.CancelScope(shield=True):
                await writer.release()

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do this work in one of the store's threads; no thread is abandoned on cancellation."""
        return await trio.to_thread.run_sync(work, limiter=self._database.limiter())

    def folder(self, session_id: str) -> str:
        """Return "": there are no files.

        Raises:
            InvalidSessionIdError: the id is none.
        """
        check_session_id(session_id)
        return ""

    def _exists(self, session_id: str) -> bool:
        row = self._find(session_id)
        return row is not None and row.metadata is not None

    def _find(self, session_id: str) -> rows.Row | None:
        with self._database.reading() as connection:
            return None if connection is None else rows.find(connection, session_id)

    def _acquire(self, session_id: str, folder: str) -> tuple[int, int]:
        fd = lock(folder)
        try:
            with self._database.writing(create=True) as connection:
                return fd, rows.claim(connection, session_id)
        except BaseException:
            unlock(fd, folder)
            raise

    def _survey(self) -> StoreSurvey:
        with self._database.reading() as connection:
            found = [] if connection is None else rows.all_rows(connection)
        sessions, damaged = list[SessionMetadata](), list[SessionError]()
        for row in found:
            try:
                path = f"{self._path}#{check_session_id(row.session_id)}"
                if metadata := row.described(path):
                    sessions.append(metadata)
                else:
                    damaged.append(unknown_error(row.session_id, self, has_history=True))
            except SessionError as error:
                damaged.append(error)
        return StoreSurvey(newest_first(sessions), tuple(damaged))
