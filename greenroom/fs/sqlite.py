"""SQLite databases that are durable: connections, transactions, and files that are never half made.

Every function blocks. Never open the file of a database by other means than SQLite: when any
descriptor of a file is closed, POSIX drops all locks that the process has on it, including those of
SQLite.
"""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
