"""One connection to a session database, used from threads; every method but `run` blocks.

Never open the database's file by other means than SQLite: when any descriptor of a file is closed,
POSIX drops all locks that the process has on it, those of SQLite included.
"""

import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import trio

from greenroom.core import SessionCorruptError, SessionError, SessionStorageError, new_id
from greenroom.fs import durable
from greenroom.session.session_folder import hint_for

# -- One transaction: all of it or nothing.


@contextmanager
def transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    """Commit when the block has been left, and roll back if it raises.

    Raises:
        sqlite3.Error: it could not be begun or committed; nothing was written.
    """
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite has ended it itself where the disk refused
            connection.execute("ROLLBACK")
        raise


# -- The tables of a session database, and how an older database comes to have them.
#
# `lines` holds the very lines that a file store has in `history.jsonl`, one row each, so any program
# that reads those can read these. `writers` has a row for each session that is being written, or was
# when its writer died; its `epoch` is never given twice in the life of the database.

APPLICATION = 0x47524E52
"""What marks a database as ours in its header: the letters GRNR."""

# From each version of the schema to the next; from nothing to the first. None is ever changed.
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
)


def create_tables(connection: sqlite3.Connection) -> None:
    """Make a blank file a session database.

    Raises:
        sqlite3.Error: it could not be written.
    """
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    _upgrade(connection)
    # Last, so that nothing is in the log: a failure to empty it on closing would not be told.
    connection.execute("PRAGMA journal_mode = WAL")


def upgrade_tables(connection: sqlite3.Connection, path: str) -> None:
    """See that this is a session database, and bring an older one up to date, all or nothing.

    Raises:
        SessionStorageError: it is a database of something else.
        SessionError: a newer version of Greenroom has made it.
        sqlite3.Error: it could not be read or written.
    """
    if _pragma(connection, "application_id") != APPLICATION:
        raise SessionStorageError(
            f"{path} holds no sessions: it is a database of something else",
            hint="nothing was changed; name another file",
        )
    version = _pragma(connection, "user_version")
    if version > len(_STEPS):
        raise SessionError(
            f"{path} is of schema {version}; this version reads up to {len(_STEPS)}",
            hint="upgrade greenroom",
        )
    if version < len(_STEPS):
        _upgrade(connection)


def _upgrade(connection: sqlite3.Connection) -> None:
    with transaction(connection, "BEGIN IMMEDIATE"):
        # Read under the lock: another process may have been faster.
        for statements in _STEPS[_pragma(connection, "user_version") :]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(_STEPS)}")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


T = TypeVar("T")

_THREADS = 8  # while one uses the connection, others decode what they have read
_PATIENCE = 5.0  # seconds that SQLite waits for another program's write; then it is an error
_LOG = 8 << 20  # bytes of log that stay once all of it is in the database

_UNREADABLE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
_FAILED_SYNCS = {sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC}
_HINTS = {
    sqlite3.SQLITE_FULL: "make room on the disk; what is unsaved is kept in memory",
    sqlite3.SQLITE_BUSY: "another program is writing the database; try again when it is done",
}
_HINT = "see to the file and its folder: SQLite writes there, also to read; nothing unsaved is lost"


class Database:
    """Opens the database when it is first needed, and closes it when nobody needs it any more.

    One transaction at a time goes through the connection; loops in several threads may share it.
    """

    def __init__(self, path: str) -> None:
        """Name the file; nothing is opened or made yet."""
        self.path = path
        # A limiter belongs to one run of trio, and this object need not.
        self._limiter = trio.lowlevel.RunVar[trio.CapacityLimiter]("session database")
        self._turnstile = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None
        self._finalizer: weakref.finalize[[], Database] | None = None

    async def run(self, session_id: str, work: Callable[[], T]) -> T:
        """Do blocking work in a thread, to its end even if it is cancelled.

        Raises:
            SessionCorruptError: the database is damaged.
            SessionStorageError: SQLite or the disk refused.
        """
        try:
            return await trio.to_thread.run_sync(work, limiter=self.limiter())
        except (sqlite3.Error, OSError) as error:
            raise self._translated(error, session_id) from error
        except SessionStorageError as error:  # ours, before the commit: all of it was taken back
            error.nothing_written = True
            raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """Read in one transaction; gives None where there is no database.

        Raises:
            SessionError: the file can't be used.
            sqlite3.Error: SQLite refused.
        """
        with self._turnstile:
            if self._connection is None and not os.path.exists(self.path):
                yield None
                return
            connection = self._current()
            with transaction(connection, "BEGIN"):
                yield connection

    @contextmanager
    def writing(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        """Write in one transaction: all or nothing, durable when the block has been left.

        Where there is no database, it makes one if it may.

        Raises:
            SessionError: the file can't be used.
            sqlite3.Error: SQLite refused; nothing was written.
            OSError: the file can't be made.
        """
        with self._turnstile:
            if create and self._connection is None and not os.path.exists(self.path):
                self._create()
            connection = self._current()
            with transaction(connection, "BEGIN IMMEDIATE"):
                yield connection

    def close(self) -> None:
        """Close the connection, if there is one; the next use opens another.

        Raises:
            sqlite3.Error: what SQLite then tidies up failed; nothing is lost.
        """
        with self._turnstile:
            self._close()

    def _current(self) -> sqlite3.Connection:
        """Return the connection, as long as its file is the one that stands there."""
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

    def _open(self) -> None:
        connection = _connect(self.path)
        try:
            upgrade_tables(connection, self.path)
        except BaseException:
            connection.close()
            raise
        self._connection, self._inode = connection, _inode(self.path)
        self._finalizer = weakref.finalize(self, connection.close)

    def _close(self) -> None:
        if self._connection is not None and self._finalizer is not None:
            self._connection = None
            self._finalizer()

    def _create(self) -> None:
        """Make the database aside and link it into its place, so that no half of one is ever there."""
        for log in (f"{self.path}-wal", f"{self.path}-shm"):
            # SQLite would take it for the log of the new database. The log of another process that was
            # faster has its database beside it.
            if os.path.exists(log) and not os.path.exists(self.path):
                raise SessionStorageError(
                    f"{log} belongs to a database that is not there any more",
                    hint="put the database back; or if it is gone for good, remove these two as well",
                )
        folder, name = os.path.split(self.path)
        durable.make_folder(folder)
        aside = os.path.join(folder, f".{name}.{new_id('new')}")
        os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            with contextlib.closing(_connect(aside)) as connection:
                create_tables(connection)
            with contextlib.suppress(FileExistsError):  # another process was faster
                os.link(aside, self.path)
            durable.sync_folder(folder)
        finally:
            for end in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(aside + end)

    def limiter(self) -> trio.CapacityLimiter:
        """Return what bounds the threads of this run of trio."""
        try:
            return self._limiter.get()
        except LookupError:
            limiter = trio.CapacityLimiter(_THREADS)
            self._limiter.set(limiter)
            return limiter

    def _translated(self, error: sqlite3.Error | OSError, session_id: str) -> SessionError:
        """Say which file, what happened, and what to do."""
        if isinstance(error, OSError):
            text = f"{error.filename or self.path}: {error.strerror or error}"
            return SessionStorageError(
                text, session_id=session_id, nothing_written=True, hint=hint_for(error)
            )
        # The primary code; 0 where it is not SQLite that complains.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _UNREADABLE:
            return SessionCorruptError(
                f"{self.path}: {error}",
                session_id=session_id,
                path=self.path,
                hint="restore it from a backup, or salvage it with the command sqlite3 "
                f"{self.path} .recover; if it is no database of sessions, name another file",
            )
        return SessionStorageError(
            f"{self.path}: {error}",
            session_id=session_id,
            nothing_written=not _is_failed_sync(error),
            hint=_HINTS.get(code, _HINT),
        )


def is_uncertain(error: SessionError) -> bool:
    """Whether a sync failed, so that nobody can tell what the disk holds.

    A write that fails is another matter: SQLite takes the whole transaction back.
    """
    return _is_failed_sync(error.__cause__)


def _is_failed_sync(error: BaseException | None) -> bool:
    return getattr(error, "sqlite_errorcode", 0) in _FAILED_SYNCS


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
    )
    try:
        _set_up(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _set_up(connection: sqlite3.Connection) -> None:
    # Damaged text is no reason to refuse: whoever compares it will find it wrong.
    connection.text_factory = lambda data: data.decode(errors="replace")
    # A commit is durable when it returns; on macOS only a full sync is one.
    for setting in ("synchronous = FULL", "fullfsync = ON", "checkpoint_fullfsync = ON"):
        connection.execute(f"PRAGMA {setting}")
    # One huge line should not leave a huge log for as long as the program runs.
    connection.execute(f"PRAGMA journal_size_limit = {_LOG}")


def _inode(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
