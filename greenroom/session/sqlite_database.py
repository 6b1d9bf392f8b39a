"""A session database: its connection, its tables, and the steps inside a transaction.

Every function but `Database.run` blocks. Never open the database's file by other means than SQLite:
when any descriptor of a file is closed, POSIX drops all locks that the process has on it, including
those of SQLite.
"""

import math
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TypeVar

import msgspec

from greenroom.core import SessionError, SessionStorageError, utc_now
from greenroom.core._internal import InvalidJSONError, serde
from greenroom.fs import sqlite
from greenroom.session.description import SessionMetadata
from greenroom.session.errors import SessionCorruptError
from greenroom.session.history import Position
from greenroom.session.holders import begin_epoch
from greenroom.session.session_folder import hint_for
from greenroom.session.store_errors import fenced_error
from greenroom.session.stored_rows import Row
from greenroom.threads._internal import SharedThreads, ThreadFigures

# `lines` holds the very lines that a file store has in `history.jsonl`, one row each, so any
# program that reads those can read these. `writers` has a row for each session that is being
# written, or was when its writer died; no `epoch` is ever used twice in a database.

APPLICATION = 0x47524E52
"""The mark of our databases in the header: the letters GRNR."""

# From each version of the schema to the next, beginning with an empty one. Never change a step.
_STEPS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE sessions (
            key INTEGER PRIMARY KEY,
            session_id TEXT NOT NULL UNIQUE,
            metadata BLOB,
            size INTEGER NOT NULL DEFAULT 0,
            changed INTEGER NOT NULL DEFAULT 0
        )""",
        """CREATE TABLE lines (
            session INTEGER NOT NULL REFERENCES sessions(key),
            number INTEGER NOT NULL,
            line BLOB NOT NULL,
            PRIMARY KEY (session, number)
        )""",
        """CREATE TABLE torn (
            number INTEGER PRIMARY KEY,
            session_id TEXT NOT NULL,
            start INTEGER NOT NULL,
            lines BLOB NOT NULL
        )""",
        """CREATE TABLE writers (
            epoch INTEGER PRIMARY KEY AUTOINCREMENT,
            session_id TEXT NOT NULL UNIQUE,
            pid INTEGER NOT NULL
        )""",
    ),
    (
        """CREATE TABLE files (
            session_id TEXT NOT NULL,
            name TEXT NOT NULL,
            data BLOB NOT NULL,
            changed INTEGER NOT NULL,
            PRIMARY KEY (session_id, name)
        )""",
    ),
    (
        "ALTER TABLE sessions ADD COLUMN updated INTEGER NOT NULL DEFAULT 0",
        "UPDATE sessions SET updated = second_of(metadata) WHERE metadata IS NOT NULL",
        """CREATE INDEX sessions_by_change ON sessions (
            max(CAST(updated AS INTEGER), CAST(changed AS INTEGER)), session_id
        )""",
    ),
)

NEWEST = "max(CAST(updated AS INTEGER), CAST(changed AS INTEGER))"
"""By what lists are sorted: when a session was changed, in whole seconds; it has an index."""


def create_tables(connection: sqlite3.Connection) -> None:
    """Turn an empty file into a session database.

    Raises:
        sqlite3.Error: it could not be written.
    """
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    _upgrade(connection)


def upgrade_tables(connection: sqlite3.Connection, path: str) -> None:
    """Check that this is a session database, and upgrade an older one, all or nothing.

    Raises:
        SessionStorageError: it is a database of something else.
        SessionError: it belongs to a newer version of Greenroom.
        sqlite3.Error: it could not be read or written.
    """
    if sqlite.read_pragma(connection, "application_id") != APPLICATION:
        raise SessionStorageError(
            f"{path} holds no sessions: it is a database of something else",
            hint="nothing was changed; name another file",
        )
    version = sqlite.read_pragma(connection, "user_version")
    if version > len(_STEPS):
        raise SessionError(
            f"{path} is of schema {version}; this version reads up to {len(_STEPS)}",
            hint="upgrade greenroom",
        )
    if version < len(_STEPS):
        _upgrade(connection)


def _upgrade(connection: sqlite3.Connection) -> None:
    connection.create_function("second_of", 1, _second_of, deterministic=True)
    with sqlite.transaction(connection, "BEGIN IMMEDIATE"):
        # Read under the lock: another process may have been faster.
        for statements in _STEPS[sqlite.read_pragma(connection, "user_version") :]:
            for statement in statements:
                connection.execute(statement)
        write_version(connection)


def write_version(connection: sqlite3.Connection) -> None:
    """Write the schema's version, even where it is there already.

    A commit syncs the log only if it has written something, and SQLite leaves out the update of a
    row that changes nothing in it.
    """
    connection.execute(f"PRAGMA user_version = {len(_STEPS)}")


class _Changed(msgspec.Struct):
    updated_at: datetime


def _second_of(metadata: object) -> int:
    """Return when a description was last changed; 0 if that can't be read."""
    try:
        data = metadata.encode() if isinstance(metadata, str) else metadata
        return _floor(serde.decode(data, _Changed).updated_at) if isinstance(data, bytes) else 0
    except (InvalidJSONError, ValueError, OverflowError):
        return 0


def _floor(moment: datetime) -> int:
    return math.floor(moment.timestamp())


T = TypeVar("T")

_THREADS = 8  # one uses the connection while others decode what they have read
_PATIENCE = 5.0  # seconds that SQLite waits for another program's write before it raises

_UNREADABLE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
_FAILED_SYNCS = {sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC}
_HINTS = {
    sqlite3.SQLITE_FULL: "make room on the disk; what is unsaved is kept in memory",
    sqlite3.SQLITE_BUSY: "another program is writing the database; try again when it is done",
}
_HINT = (
    "check the file and its folder, where SQLite needs to write even to read; what is unsaved is "
    "kept in memory"
)


class Database:
    """The connection to the database, opened on first use.

    One transaction at a time uses it; event loops in several threads may share it.
    """

    def __init__(self, path: str) -> None:
        """Set the file; nothing is opened or created yet."""
        self.path = path
        self._threads = SharedThreads("session database", _THREADS)
        self._turnstile = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None
        self._is_syncing = True  # whether each commit is synced, as the connection is set now
        self._is_doubtful = False  # whether a sync of the log failed, which says so only once
        self._finalizer: weakref.finalize[[], Database] | None = None
        sqlite.close_at_forks(self)

    async def run(self, session_id: str, work: Callable[[], T]) -> T:
        """Do blocking work in a thread, to its end even if cancelled.

        Raises:
            SessionCorruptError: the database is damaged.
            SessionStorageError: SQLite or the disk refused.
        """
        try:
            return await self._threads.run(work)
        except (sqlite3.Error, OSError) as error:
            raise self._translate(error, session_id) from error
        except SessionStorageError as error:  # ours, before the commit: it was rolled back
            error.nothing_written = True
            raise

    @contextmanager
    def read_transaction(self) -> Iterator[sqlite3.Connection | None]:
        """Read in one transaction; yields None if there is no database.

        Raises:
            SessionError: the file can't be used.
            sqlite3.Error: SQLite refused.
        """
        with self._turnstile:
            if self._connection is None and not os.path.exists(self.path):
                yield None
                return
            connection = self._current()
            with sqlite.transaction(connection, "BEGIN"):
                yield connection

    @contextmanager
    def write_transaction(
        self, *, create: bool = False, sync: bool = True
    ) -> Iterator[sqlite3.Connection]:
        """Write in one transaction: all or nothing, durable after the block.

        With `create`, a missing database is created. Without `sync`, a power cut may take it as a
        whole, until the next transaction that is synced: one sync covers all of the log.

        Raises:
            SessionError: the file can't be used.
            sqlite3.Error: SQLite refused; nothing was written.
            OSError: the file can't be created.
        """
        with self._turnstile:
            if create and self._connection is None and not os.path.exists(self.path):
                self._create()
            connection = self._current()
            if sync and self._is_doubtful:
                self._empty_log(connection)
            if sync is not self._is_syncing:
                sqlite.sync_commits(connection, every=sync)
                self._is_syncing = sync
            try:
                with sqlite.transaction(connection, "BEGIN IMMEDIATE"):
                    yield connection
            except sqlite3.Error as error:
                # Noted while nobody else may commit: another thread may be next.
                self._is_doubtful |= _is_failed_sync(error)
                raise

    def close(self) -> None:
        """Close the connection, if there is one; the next use opens another.

        Raises:
            sqlite3.Error: SQLite failed to clean up; nothing is lost.
        """
        with self._turnstile:
            self._close()

    @contextmanager
    def hold_closed(self) -> Iterator[None]:
        """Close the connection, and open none inside of the block."""
        with self._turnstile:
            with suppress(sqlite3.Error):  # it failed to clean up; nothing is lost
                self._close()
            yield

    def _current(self) -> sqlite3.Connection:
        """Return the connection, if its file is still the one at the path."""
        inode = _inode(self.path)
        if inode is None or (self._connection is not None and inode != self._inode):
            self._close()
            raise SessionStorageError(
                f"{self.path}: the database was moved or removed while it was in use",
                hint="put it back; what is unsaved is kept in memory",
            )
        if self._connection is None:
            self._open()
        assert self._connection is not None
        return self._connection

    def _empty_log(self, connection: sqlite3.Connection) -> None:
        """Move all of the log into the database, which has a sync of its own.

        After a sync of the log has failed, the next one says nothing of what that one lost: commits
        that were not synced may never reach the disk, and nothing behind them would be read.
        """
        busy, pages, moved = connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
        if busy or pages != moved:
            raise SessionStorageError(
                f"{self.path}: the disk failed to sync it, and another program reads it",
                hint="check the disk; what is unsaved is kept in memory",
            )
        self._is_doubtful = False

    def _open(self) -> None:
        connection = sqlite.connect(self.path, patience=_PATIENCE)
        try:
            upgrade_tables(connection, self.path)
        except BaseException as error:
            self._is_doubtful |= _is_failed_sync(error)
            connection.close()
            raise
        self._connection, self._inode = connection, _inode(self.path)
        self._is_syncing = True
        self._finalizer = weakref.finalize(self, connection.close)

    def _close(self) -> None:
        if self._connection is not None and self._finalizer is not None:
            self._connection = None
            self._finalizer()

    def _create(self) -> None:
        """Create the database under another name and link it into place, never half made."""
        if log := sqlite.find_stray_log(self.path):
            raise SessionStorageError(
                f"{log} belongs to a database that is gone",
                hint="put the database back; or if it is gone for good, remove its logs as well",
            )
        sqlite.create_database(self.path, create_tables, patience=_PATIENCE)

    def figures(self) -> ThreadFigures:
        """Return how much of this run's work is in threads, and how much waits."""
        return self._threads.figures()

    def _translate(self, error: sqlite3.Error | OSError, session_id: str) -> SessionError:
        """Turn an error of SQLite or the system into ours, with the file and a hint."""
        if isinstance(error, OSError):
            text = f"{error.filename or self.path}: {error.strerror or error}"
            return SessionStorageError(
                text, session_id=session_id, nothing_written=True, hint=hint_for(error)
            )
        # The primary code; 0 if the error is not from SQLite itself.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _UNREADABLE:
            return SessionCorruptError(
                f"{self.path}: {error}",
                session_id=session_id,
                path=self.path,
                hint="restore it from a backup, or salvage it with the command sqlite3 "
                f"{self.path} .recover; if it is not a database of sessions, name another file",
            )
        return SessionStorageError(
            f"{self.path}: {error}",
            session_id=session_id,
            nothing_written=not _is_failed_sync(error),
            hint=_HINTS.get(code, _HINT),
        )


def is_uncertain(error: SessionError) -> bool:
    """Whether a sync failed, so that nobody knows what the disk holds.

    After a failed write we do know: SQLite rolls the whole transaction back.
    """
    return _is_failed_sync(error.__cause__)


def _is_failed_sync(error: BaseException | None) -> bool:
    return getattr(error, "sqlite_errorcode", 0) in _FAILED_SYNCS


def _inode(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


# SQLite stores a type with each value, so damage may change it.
_SELECT = """SELECT session_id, key, CAST(metadata AS BLOB), CAST(size AS INTEGER),
    CAST(changed AS INTEGER) FROM sessions"""


def select_row(connection: sqlite3.Connection, session_id: str) -> Row | None:
    """Return a session's row, if it has one."""
    row = connection.execute(f"{_SELECT} WHERE session_id = ?", [session_id]).fetchone()
    return None if row is None else Row(*row)


def add_row(connection: sqlite3.Connection, session_id: str) -> Row:
    """Insert a session's row."""
    done = connection.execute("INSERT INTO sessions (session_id) VALUES (?)", [session_id])
    assert done.lastrowid is not None
    return Row(session_id, done.lastrowid, None, 0, 0)


def take_epoch(connection: sqlite3.Connection, session_id: str) -> int:
    """Begin a new epoch for this process, which ends the older ones."""
    query = "SELECT seq FROM sqlite_sequence WHERE name = 'writers'"
    (last,) = connection.execute(query).fetchone() or (0,)
    epoch = begin_epoch(last)
    values = [epoch, session_id, os.getpid()]
    query = "REPLACE INTO writers (epoch, session_id, pid) VALUES (?, ?, ?)"
    connection.execute(query, values)
    return epoch


def check_epoch(connection: sqlite3.Connection, session_id: str, epoch: int) -> None:
    """Check that this is still the session's epoch.

    Raises:
        SessionFencedError: another epoch has begun.
    """
    query = "SELECT epoch, pid FROM writers WHERE session_id = ?"
    current, pid = connection.execute(query, [session_id]).fetchone() or (None, None)
    if current != epoch:
        raise fenced_error(session_id, pid)


def select_end(connection: sqlite3.Connection, session_id: str, epoch: int) -> tuple[int, int]:
    """Return the key of a session's row and the size of its history, if this is still its epoch.

    Raises:
        SessionFencedError: another epoch has begun.
    """
    query = """SELECT epoch, pid, key, CAST(size AS INTEGER)
        FROM writers LEFT JOIN sessions USING (session_id) WHERE session_id = ?"""
    current, pid, key, size = connection.execute(query, [session_id]).fetchone() or [None] * 4
    if current != epoch:
        raise fenced_error(session_id, pid)
    return (add_row(connection, session_id).key, 0) if key is None else (key, size)


def end_epoch(connection: sqlite3.Connection, session_id: str, epoch: int) -> None:
    """End this epoch if it is current, and remove a session that was never stored."""
    values = [epoch, session_id]
    done = connection.execute("DELETE FROM writers WHERE epoch = ? AND session_id = ?", values)
    if done.rowcount:
        blank = "DELETE FROM sessions WHERE session_id = ? AND metadata IS NULL AND size = 0"
        connection.execute(blank, [session_id])


def add_line(connection: sqlite3.Connection, key: int, line: bytes, at: Position) -> None:
    """Add a line at the end of the history of the session with this key."""
    values = [key, at.lines, line]
    connection.execute("INSERT INTO lines (session, number, line) VALUES (?, ?, ?)", values)
    connection.execute(
        "UPDATE sessions SET size = ?, changed = ? WHERE key = ?",
        [at.size + len(line), int(utc_now().timestamp()), key],
    )


def write_description(
    connection: sqlite3.Connection, row: Row, metadata: SessionMetadata, previous: bytes = b""
) -> None:
    """Replace the description, keeping keys of the previous one that this version doesn't know."""
    values = [metadata.encode(previous), _floor(metadata.updated_at), row.key]
    connection.execute("UPDATE sessions SET metadata = ?, updated = ? WHERE key = ?", values)


def cut_lines(connection: sqlite3.Connection, row: Row, at: Position) -> int:
    """Move the lines from this place on into the table `torn`; return their number there."""
    torn = b"".join(select_lines(connection, row.key, at.lines))
    query = "INSERT INTO torn (session_id, start, lines) VALUES (?, ?, ?)"
    done = connection.execute(query, [row.session_id, at.size, torn])
    connection.execute("DELETE FROM lines WHERE session = ? AND number >= ?", [row.key, at.lines])
    connection.execute("UPDATE sessions SET size = ? WHERE key = ?", [at.size, row.key])
    assert done.lastrowid is not None
    return done.lastrowid


def delete_rows(connection: sqlite3.Connection, row: Row) -> None:
    """Remove a session, what was set aside from it, and the right to write it."""
    connection.execute("DELETE FROM lines WHERE session = ?", [row.key])
    connection.execute("DELETE FROM sessions WHERE key = ?", [row.key])
    connection.execute("DELETE FROM torn WHERE session_id = ?", [row.session_id])
    connection.execute("DELETE FROM files WHERE session_id = ?", [row.session_id])
    connection.execute("DELETE FROM writers WHERE session_id = ?", [row.session_id])


def select_lines(connection: sqlite3.Connection, key: int, first: int) -> list[bytes]:
    """Return the lines of a session from this number on."""
    query = "SELECT CAST(line AS BLOB) FROM lines WHERE session = ? AND number >= ? ORDER BY number"
    return [line for (line,) in connection.execute(query, [key, first])]


def select_lines_backwards(connection: sqlite3.Connection, key: int) -> Iterator[bytes]:
    """Yield the lines of a session, the last one first."""
    query = "SELECT CAST(line AS BLOB) FROM lines WHERE session = ? ORDER BY number DESC"
    for (line,) in connection.execute(query, [key]):
        yield line


def select_last_number(connection: sqlite3.Connection, key: int) -> int:
    """Return the number of the last line of a session."""
    query = "SELECT max(number) FROM lines WHERE session = ?"
    (number,) = connection.execute(query, [key]).fetchone()
    return int(number)
