"""SQLite databases that are durable: connections, transactions, and files that are never half made.

Every function blocks. Never open the file of a database by other means than SQLite: when any
descriptor of a file is closed, POSIX drops all locks that the process has on it, including those of
SQLite.

A forked process does not inherit these locks, though SQLite, which counts them in memory, believes
that it has them. What it wrote, also by a new connection to the same file, would be lost once the
parent closes its own. So no connection is open while the process forks: see `close_at_forks`.
"""

import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol
from urllib.parse import quote

from greenroom.core._internal import new_id
from greenroom.fs import durable

_LOG = 8 << 20  # bytes of log that stay once all of it is in the database


def connect(path: str, *, patience: float) -> sqlite3.Connection:
    """Open an existing database, or ":memory:", whose commits are durable when they return.

    Args:
        path: the file.
        patience: seconds that SQLite waits for another process's write before it raises an error.

    Raises:
        sqlite3.Error: the file is missing, or SQLite can't open it.
    """
    # As a URI, with which SQLite does not create a missing file.
    address = path if path == ":memory:" else f"file:{quote(os.fsencode(path))}?mode=rw"
    connection = sqlite3.connect(
        address, timeout=patience, isolation_level=None, check_same_thread=False, uri=True
    )
    try:
        # Damaged text is no reason to fail: a checksum or comparison will find it.
        connection.text_factory = lambda data: data.decode(errors="replace")
        # On macOS only a full sync is durable.
        for setting in ("synchronous = FULL", "fullfsync = ON", "checkpoint_fullfsync = ON"):
            connection.execute(f"PRAGMA {setting}")
        # One huge write should not leave a huge log for as long as the program runs.
        connection.execute(f"PRAGMA journal_size_limit = {_LOG}")
    except BaseException:
        connection.close()
        raise
    return connection


def sync_commits(connection: sqlite3.Connection, *, every: bool) -> None:
    """Make each commit durable when it returns, or with the next one that is.

    Raises:
        sqlite3.Error: it could not be set.
    """
    # A cached statement would not be compiled again, and to compile it is what sets it.
    connection.executescript(f"PRAGMA synchronous = {'FULL' if every else 'NORMAL'}")


@contextmanager
def transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    """Commit at the end of the block, or roll back if it raises.

    Raises:
        sqlite3.Error: it could not be begun or committed; nothing was written.
    """
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite has ended it already if the disk refused
            connection.execute("ROLLBACK")
        raise


def find_stray_log(path: str) -> str | None:
    """Return a log without its database, which SQLite would take for the log of a new one."""
    for log in (f"{path}-wal", f"{path}-shm"):
        # The log of another process that was faster has its database beside it.
        if os.path.exists(log) and not os.path.exists(path):
            return log
    return None


def create_database(
    path: str, create_tables: Callable[[sqlite3.Connection], None], *, patience: float
) -> None:
    """Create a database under another name, then link it into place; another process may be first.

    Raises:
        sqlite3.Error: it could not be written.
        OSError: the file could not be created.
    """
    folder = os.path.dirname(path)
    durable.make_folder(folder)
    aside = os.path.join(folder, f".{new_id('database')}")
    os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        with contextlib.closing(connect(aside, patience=patience)) as connection:
            create_tables(connection)
            # Last, so that the log is empty: closing the connection would not report a failure to
            # empty it.
            connection.execute("PRAGMA journal_mode = WAL")
        with contextlib.suppress(FileExistsError):  # another process was faster
            os.link(aside, path)
        durable.sync_folder(folder)
    finally:
        for end in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(aside + end)


def read_pragma(connection: sqlite3.Connection, name: str) -> int:
    """Return the value of a pragma that is a number, such as "user_version"."""
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


class ClosesAtForks(Protocol):
    """What has a connection, and can do without it for a while."""

    def hold_closed(self) -> AbstractContextManager[None]:
        """Close the connection, and let nobody open another inside of the block."""


_closing: weakref.WeakSet[ClosesAtForks] = weakref.WeakSet()
_forking = threading.Lock()  # held while the set is looked at or changed, and by who forks
_closed = ExitStack()


def close_at_forks(database: ClosesAtForks) -> None:
    """Close this database's connection whenever the process forks; the next use opens another."""
    with _forking:
        _closing.add(database)


def _before_fork() -> None:
    _forking.acquire()
    for each in tuple(_closing):
        _closed.enter_context(each.hold_closed())


def _after_fork() -> None:
    _closed.close()
    _forking.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
