"""The tables of a session database, and how an older database comes to have them.

`lines` holds the very lines that a file store has in `history.jsonl`, one row each, so any program
that reads those can read these. `writers` has a row for each session that is being written, or was
when its writer died; its `epoch` is never given twice in the life of the database.
"""

import sqlite3

from greenroom.core import SessionError, SessionStorageError
from greenroom.session.sqlite.transaction import transaction

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


def create(connection: sqlite3.Connection) -> None:
    """Make a blank file a session database.

    Raises:
        sqlite3.Error: it could not be written.
    """
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    _upgrade(connection)
    # Last, so that nothing is in the log: a failure to empty it on closing would not be told.
    connection.execute("PRAGMA journal_mode = WAL")


def upgrade(connection: sqlite3.Connection, path: str) -> None:
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
