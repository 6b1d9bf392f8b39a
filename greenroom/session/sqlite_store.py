"""Sessions in one SQLite database: the store, and the one writer of a session in it."""

import contextlib
import os
from collections.abc import Callable, Sequence
from datetime import datetime
from io import BytesIO
from sqlite3 import Connection
from types import TracebackType
from typing import Self, TypeVar

from greenroom.core import SessionError, SessionNotFoundError, SessionStorageError
from greenroom.core._internal import check_session_id
from greenroom.fs._internal import FolderLockedError, lock, lock_as, unlock
from greenroom.session.description import SessionMetadata
from greenroom.session.errors import SessionCorruptError
from greenroom.session.files import SessionFile, no_file_error
from greenroom.session.folder_names import folder_name
from greenroom.session.history import START, Page, Position, RepairReport, check_count, read_page
from greenroom.session.holders import name_holder, new_store_id
from greenroom.session.listing import SessionPage
from greenroom.session.row_salvage import salvage_rows
from greenroom.session.sqlite_database import (
    Database,
    add_line,
    add_row,
    check_epoch,
    cut_lines,
    delete_rows,
    end_epoch,
    is_uncertain,
    select_end,
    select_last_number,
    select_lines,
    select_lines_backwards,
    select_row,
    take_epoch,
    write_description,
    write_version,
)
from greenroom.session.sqlite_files import list_files, put_file, read_file, remove_file
from greenroom.session.sqlite_lists import list_page, survey
from greenroom.session.sqlite_salvage import SQLiteRows
from greenroom.session.store import (
    StoredPage,
    StoredSession,
    StoreStatistics,
    StoreSurvey,
    release_after,
)
from greenroom.session.store_errors import locked_error, unknown_error
from greenroom.session.stored_rows import Row, check_size, damaged_error, repair_hint, verify_lines
from greenroom.threads._internal import FileThreads

_THREADS = 4


def read_session(database: Database, session_id: str, since: Position) -> StoredSession:
    """Read a session, its history from the place `since` on.

    Raises:
        SessionCorruptError: it is damaged, or what was before `since` is no longer there.
        SessionNotFoundError: the history was removed since then.
        SessionStorageError: the history is too long.
        sqlite3.Error: SQLite refused.
    """
    path = f"{database.path}#{session_id}"
    row, lines = Row(session_id, 0, None, 0, 0), list[bytes]()
    with database.read_transaction() as connection:
        if connection and (found := select_row(connection, session_id)):
            check_size(found.size - since.size, session_id, path)
            row, lines = found, select_lines(connection, found.key, max(since.lines - 1, 0))
    # The connection is free for others again.
    if since.lines and not row.key:
        raise SessionNotFoundError(f"{path} was removed", session_id=session_id)
    return StoredSession(row.read_metadata(path), verify_lines(lines, row, path, since), path)


def read_last_page(database: Database, session_id: str, limit: int) -> StoredPage:
    """Read the last messages of a session, without reading the lines before them.

    Raises:
        SessionCorruptError: it is damaged there.
        sqlite3.Error: SQLite refused.
    """
    path = f"{database.path}#{session_id}"
    with database.read_transaction() as connection:
        row = select_row(connection, session_id) if connection else None
        if connection is None or row is None:
            return StoredPage(None, Page())
        try:
            page = read_page(
                select_lines_backwards(connection, row.key),
                row.size,
                limit,
                session_id=session_id,
                path=path,
            )
            if page.repair and page.repair.line <= select_last_number(connection, row.key):
                raise damaged_error(path, session_id, page.repair.line)
        except SessionCorruptError as error:
            error.hint = repair_hint(path)  # the original hint is about files
            raise
    return StoredPage(row.read_metadata(path), page)


T = TypeVar("T")


class SQLiteWriter:
    """Writes one session during its epoch; made by `SQLiteStore.acquire`.

    A file lock shows whether the holder is alive. The epoch decides who may write: it is checked in
    the same transaction that writes.
    """

    def __init__(
        self, session_id: str, database: Database, epoch: int, lock: int, folder: str
    ) -> None:
        """Take over a held lock on this folder, and an epoch that has begun."""
        self._session_id = session_id
        self._database = database
        self._path = f"{database.path}#{session_id}"
        self.epoch = epoch
        """The number of this right, see `SessionWriter.epoch`."""
        self._lock = lock
        self._folder = folder
        self._is_broken = False

    @property
    def is_broken(self) -> bool:
        """Whether a sync failed: it is uncertain what is stored, and nothing more is written."""
        return self._is_broken

    async def read(self, since: Position) -> StoredSession:
        """Read the session, its history from `since` on.

        Raises:
            SessionCorruptError: it is damaged, or what came before `since` is not there.
            SessionNotFoundError: there was a history before `since`, and it is gone.
            SessionStorageError: SQLite or the disk refused.
        """
        return await self._run(lambda: read_session(self._database, self._session_id, since))

    async def append(self, line: bytes, at: Position, *, flush: bool = True) -> None:
        """Add a line to the history, which must end at this place; see `SessionWriter.append`.

        Raises:
            SessionFencedError: another writer has the session now.
            SessionStorageError: SQLite or the disk refused; the history is as it was before.
        """
        await self._run(lambda: self._append(line, at, flush))

    async def write_metadata(self, metadata: SessionMetadata) -> None:
        """Replace the description, all or nothing; durable when it returns.

        Raises:
            SessionCorruptError: the old description is invalid, or another session's; it was not
                replaced.
            SessionFencedError: another writer has the session now.
            SessionStorageError: SQLite or the disk refused.
        """
        await self._write(lambda connection: self._describe(connection, metadata))

    async def set_aside(self, at: Position) -> str:
        """Move everything after this place into the table `torn`; return where it is there.

        Raises:
            SessionFencedError: another writer has the session now.
            SessionStorageError: SQLite or the disk refused; the history is as it was before.
        """
        number = await self._write(
            lambda connection: cut_lines(connection, self._row(connection), at)
        )
        return f"{self._database.path}: number {number} of the table torn"

    async def set_changed(self, moment: datetime) -> None:
        """Set when the history was changed.

        Raises:
            SessionFencedError: another writer has the session now.
            SessionStorageError: SQLite or the disk refused.
        """
        await self._write(
            lambda connection: SQLiteRows(connection, self._row(connection)).set_changed(moment)
        )

    async def delete(self) -> None:
        """Remove the session, and what was set aside from it, in one transaction.

        Raises:
            SessionFencedError: another writer has the session now.
            SessionStorageError: SQLite or the disk refused; the session is as it was before.
        """
        await self._write(lambda connection: delete_rows(connection, self._row(connection)))

    async def salvage(self, relatives: Sequence[SessionMetadata]) -> RepairReport | None:
        """Set everything from the first damaged line on aside, and keep the lines that verify.

        The other sessions of the store help to reconstruct a damaged description. Returns None if
        nothing was damaged.

        Raises:
            SessionNotFoundError: the session is not stored.
            SessionFencedError: another writer has the session now.
            SessionStorageError: SQLite or the disk refused; the history is as it was before.
        """
        return await self._write(lambda connection: self._salvage(connection, relatives))

    async def release(self) -> None:
        """End the epoch, and release the lock even if that fails.

        Raises:
            SessionStorageError: SQLite or the disk refused; the lock is released nevertheless.
        """
        await self._run(self._release)

    async def _write(self, work: Callable[[Connection], T]) -> T:
        def write() -> T:
            with self._database.write_transaction() as connection:
                check_epoch(connection, self._session_id, self.epoch)
                return work(connection)

        return await self._run(write)

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await self._database.run(self._session_id, work)
        except SessionError as error:
            self._is_broken = self._is_broken or is_uncertain(error)
            raise

    def _row(self, connection: Connection) -> Row:
        session_id = self._session_id
        return select_row(connection, session_id) or add_row(connection, session_id)

    def _append(self, line: bytes, at: Position, flush: bool) -> None:
        with self._database.write_transaction(sync=flush) as connection:
            key, size = select_end(connection, self._session_id, self.epoch)
            if size != at.size:
                text = f"{self._path}: it was changed by another writer"
                raise SessionStorageError(text, session_id=self._session_id)
            if not line:
                write_version(connection)
                return
            check_size(at.size + len(line), self._session_id, self._path)
            add_line(connection, key, line, at)

    def _salvage(
        self, connection: Connection, relatives: Sequence[SessionMetadata]
    ) -> RepairReport | None:
        row = select_row(connection, self._session_id)
        if row is None or (row.metadata is None and not row.size):
            raise unknown_error(self._session_id, self._database.path)
        return salvage_rows(SQLiteRows(connection, row), self._path, relatives)

    def _describe(self, connection: Connection, metadata: SessionMetadata) -> None:
        row = self._row(connection)
        row.read_metadata(self._path)  # checks that it is ours
        write_description(connection, row, metadata, row.metadata or b"")

    def _release(self) -> None:
        try:
            with self._database.write_transaction() as connection:
                end_epoch(connection, self._session_id, self.epoch)
        finally:
            unlock(self._lock, self._folder)
            with contextlib.suppress(OSError):  # another writer holds it already
                os.rmdir(self._folder)


class SQLiteStore:
    """Keeps all sessions in one file, which only this user can access (0600).

    What `save` has acknowledged survives `kill -9`, and a loss of power if the disk honours
    flushes: each save is its own transaction in a write-ahead log, and synced. One with
    `flush=False` is synced with the next one of any session that flushes. A
    session has one writer among all processes of this machine; readers need no lock. SQLite's locks
    don't work on network file systems, so keep the file on a local disk.

    The first save creates the file. While it is open, SQLite keeps two more files beside it
    (`-wal`, `-shm`), and the store a folder of locks (`-locks`). Everything runs in threads on one
    connection, which is opened on first use. `aclose` closes it and leaves only the one file; so
    does the end of the program. Several runs of trio may use the store, even at the same time.

    Example:
        ```python
        async with SQLiteStore("sessions.db") as store, AgentRuntime(store=store) as runtime:
            ...
        ```
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Set the file; nothing is read or created yet."""
        self._path = os.path.abspath(path)
        self._place = os.path.realpath(path)  # links resolved
        self._database = Database(self._path)
        self._threads = FileThreads("session work", _THREADS)  # of work beside the database
        self._id = new_store_id()

    @property
    def holder(self) -> str:
        """The name under which it holds sessions: HOST/PID/STORE."""
        return name_holder(self._id)

    def __repr__(self) -> str:
        return f"SQLiteStore({self._path!r})"

    def __eq__(self, other: object) -> bool:
        """Whether both keep the same sessions: stores of one file are equal."""
        return isinstance(other, SQLiteStore) and self._place == other._place

    def __hash__(self) -> int:
        return hash(self._place)

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
        """Close the connection, which removes SQLite's other files; the next use opens another.

        Raises:
            SessionStorageError: SQLite or the disk refused; nothing is lost.
        """
        await self._database.run("", self._database.close)

    def statistics(self) -> StoreStatistics:
        """Return figures about the store's threads in this run of trio."""
        on_database, others = self._database.figures(), self._threads.limiter.statistics()
        return StoreStatistics(
            working=on_database.working + others.borrowed_tokens,
            waiting=on_database.waiting + others.tasks_waiting,
            threads=on_database.threads + int(others.total_tokens),
        )

    async def exists(self, session_id: str) -> bool:
        """Whether a session with this id is stored.

        Raises:
            SessionCorruptError: the file is not a database, or damaged.
            SessionStorageError: it can't be read.
        """
        check_session_id(session_id)
        return await self._database.run(session_id, lambda: self._exists(session_id))

    async def read(self, session_id: str) -> StoredSession:
        """Read a session, changing nothing.

        Raises:
            SessionCorruptError: the session or the file is damaged, or it is not a database.
            SessionStorageError: it can't be read.
        """
        check_session_id(session_id)
        return await self._database.run(
            session_id, lambda: read_session(self._database, session_id, START)
        )

    async def read_last(self, session_id: str, limit: int) -> StoredPage:
        """Read the last messages of a session, without reading what precedes them.

        Raises:
            ValueError: `limit` is less than 1.
            SessionCorruptError: the description is damaged, or the end of the history before its
                last line; or the file is damaged or not a database.
            SessionStorageError: it can't be read.
        """
        check_count(limit)
        check_session_id(session_id)
        return await self._database.run(
            session_id, lambda: read_last_page(self._database, session_id, limit)
        )

    async def list_all(self) -> list[SessionMetadata]:
        """Describe every stored session, the last changed first, without reading histories.

        A session that can't be listed is logged; `survey` returns the reasons.

        Raises:
            SessionCorruptError: the file is not a database, or damaged.
            SessionStorageError: it can't be read.
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

        An index finds where the page begins, and only the descriptions up to its end are decoded:
        a page of 100 of 10,000 sessions takes a millisecond or two. A page of few among many, of a
        rare type for instance, decodes those between them too.

        Raises:
            ValueError: the limit is not from 1 to 1,000, or `after` is not of an earlier page.
            SessionCorruptError: the file is not a database, or damaged.
            SessionStorageError: the store can't be read.
        """
        page, damaged = await self._database.run(
            "",
            lambda: list_page(
                self._database, self, after, limit, agent_type=agent_type, archived=archived
            ),
        )
        StoreSurvey((), damaged).log_damaged()
        return page

    async def survey(self) -> StoreSurvey:
        """Describe every stored session, and say which are damaged, without reading histories.

        Raises:
            SessionCorruptError: the file is not a database, or damaged.
            SessionStorageError: it can't be read.
        """
        return await self._database.run("", lambda: survey(self._database, self))

    async def acquire(self, session_id: str) -> SQLiteWriter:
        """Become the only writer of this session, in this process and all others.

        Raises:
            SessionLockedError: there is another writer; the error has its process id and name.
            SessionCorruptError: the file is not a database, or damaged.
            SessionStorageError: it can't be written.
        """
        folder = os.path.join(f"{self._place}-locks", folder_name(session_id))
        try:
            fd, epoch = await self._database.run(
                session_id, lambda: self._acquire(session_id, folder)
            )
        except FolderLockedError as error:
            raise locked_error(session_id, error.pid, error.holder) from None
        return SQLiteWriter(session_id, self._database, epoch, fd, folder)

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
            SessionCorruptError: the database itself is damaged.
            SessionStorageError: SQLite or the disk refused.
        """
        check_session_id(session_id)
        if not await self._database.run(session_id, lambda: self._find(session_id)):
            raise unknown_error(session_id, self)
        relatives = [each for each in await self.list_all() if each.session_id != session_id]
        async with release_after(await self.acquire(session_id)) as writer:
            return await writer.salvage(relatives)

    async def put_file(self, session_id: str, name: str, data: bytes) -> None:
        """Keep a file of a session, whole or not at all; see `KeepsFiles`.

        Raises:
            ValueError: the name leads elsewhere.
            SessionError: the file is longer than 16 MB.
            SessionStorageError: the disk refused.
        """
        check_session_id(session_id)
        SessionFile.check(session_id, name, data)
        await self._database.run(
            session_id, lambda: put_file(self._database, session_id, name, data)
        )

    async def open_file(self, session_id: str, name: str) -> BytesIO:
        """Return the content of a session's file.

        Raises:
            ValueError: the name is not allowed.
            SessionNotFoundError: the session does not have this file.
            SessionStorageError: it can't be read.
        """
        check_session_id(session_id)
        SessionFile.check_name(name)
        data = await self._database.run(
            session_id, lambda: read_file(self._database, session_id, name)
        )
        if data is None:
            raise no_file_error(session_id, name)
        return BytesIO(data)

    async def list_files(self, session_id: str) -> tuple[SessionFile, ...]:
        """Describe a session's files, by their names.

        Raises:
            SessionStorageError: they can't be read.
        """
        check_session_id(session_id)
        return await self._database.run(session_id, lambda: list_files(self._database, session_id))

    async def remove_file(self, session_id: str, name: str) -> None:
        """Remove a file of a session, if there is one of this name.

        Raises:
            ValueError: the name is not allowed.
            SessionStorageError: the disk refused.
        """
        check_session_id(session_id)
        SessionFile.check_name(name)
        await self._database.run(session_id, lambda: remove_file(self._database, session_id, name))

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do this work in one of the store's threads; no thread is abandoned on cancellation."""
        return await self._threads.run(work)

    def folder(self, session_id: str) -> str:
        """Return "": there are no files.

        Raises:
            InvalidSessionIdError: the id is not valid.
        """
        check_session_id(session_id)
        return ""

    def paths(self) -> tuple[str, ...]:
        """Return the real paths of the database, of SQLite's other files, and of the locks.

        Never open the database by other means than SQLite: closing it again would drop all locks.
        """
        folder, name = os.path.split(self._path)
        own = os.path.join(os.path.realpath(folder), name)
        ends = ("", "-wal", "-shm", "-journal", "-locks")
        return tuple(f"{path}{end}" for path in {own, os.path.realpath(own)} for end in ends)

    def _exists(self, session_id: str) -> bool:
        row = self._find(session_id)
        return row is not None and row.metadata is not None

    def _find(self, session_id: str) -> Row | None:
        with self._database.read_transaction() as connection:
            return None if connection is None else select_row(connection, session_id)

    def _acquire(self, session_id: str, folder: str) -> tuple[int, int]:
        with lock_as(self.holder):
            fd = lock(folder)
        try:
            with self._database.write_transaction(create=True) as connection:
                return fd, take_epoch(connection, session_id)
        except BaseException:
            unlock(fd, folder)
            raise
