"""The one writer of a session in a database."""

import contextlib
import os
from collections.abc import Callable, Sequence
from sqlite3 import Connection
from typing import TypeVar

from greenroom.core import SessionError, SessionStorageError
from greenroom.session.files.lock import unlock
from greenroom.session.history.lines import Position
from greenroom.session.holder import unknown_error
from greenroom.session.metadata import SessionMetadata, encode_metadata
from greenroom.session.repair import RepairReport
from greenroom.session.sqlite import rows
from greenroom.session.sqlite.database import Database, is_uncertain
from greenroom.session.store import StoredSession

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
