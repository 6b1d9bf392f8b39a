"""Sessions in one SQLite database."""

import logging
import os
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

import trio

from greenroom.core import SessionError, SessionNotFoundError, check_session_id
from greenroom.session.files.lock import HeldError, lock, unlock
from greenroom.session.history.lines import START
from greenroom.session.history.page import check_count
from greenroom.session.holder import locked_error
from greenroom.session.metadata import SessionMetadata
from greenroom.session.repair import RepairReport
from greenroom.session.sqlite import rows
from greenroom.session.sqlite.database import Database
from greenroom.session.sqlite.writer import SQLiteWriter
from greenroom.session.statistics import StoreStatistics
from greenroom.session.store import StoredPage, StoredSession

__all__ = ["SQLiteStore"]

T = TypeVar("T")

_log = logging.getLogger("greenroom.session")


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

        A description that can't be read is logged.

        Raises:
            SessionCorruptError: the file is no database, or damaged.
            SessionStorageError: it can't be read.
        """
        found = await self._database.run("", self._list)
        return sorted(found, key=lambda each: (each.updated_at, each.session_id), reverse=True)

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
        """Make a damaged session usable again, at the price of what follows the damage.

        The lines before the first damaged one stay; it and all after it are moved into the table
        `torn`, byte for byte.

        Returns:
            What was set aside and where, or None where nothing was damaged.

        Raises:
            SessionNotFoundError: there is no such session.
            SessionLockedError: somebody writes it.
            SessionCorruptError: it is the database itself that is damaged.
            SessionStorageError: SQLite or the disk refused.
        """
        if not await self.exists(session_id):
            raise SessionNotFoundError(
                f"there is no session {session_id!r} in {self!r}", session_id=session_id
            )
        writer = await self.acquire(session_id)
        try:
            return await writer.salvage()
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
        with self._database.reading() as connection:
            row = None if connection is None else rows.find(connection, session_id)
        return row is not None and row.metadata is not None

    def _acquire(self, session_id: str, folder: str) -> tuple[int, int]:
        fd = lock(folder)
        try:
            with self._database.writing(create=True) as connection:
                return fd, rows.claim(connection, session_id)
        except BaseException:
            unlock(fd, folder)
            raise

    def _list(self) -> list[SessionMetadata]:
        with self._database.reading() as connection:
            found = [] if connection is None else rows.all_described(connection)
        return [metadata for row in found if (metadata := self._describe(row)) is not None]

    def _describe(self, row: rows.Row) -> SessionMetadata | None:
        try:
            return row.described(f"{self._path}#{check_session_id(row.session_id)}")
        except SessionError as error:
            _log.warning("session %r is left out of the list: %s", row.session_id, error)
            return None
