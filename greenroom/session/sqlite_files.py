"""The files of sessions in a session database. Every function blocks."""

import os
from datetime import UTC, datetime

from greenroom.core import utc_now
from greenroom.session.files import SessionFile
from greenroom.session.sqlite_database import Database


def put_file(database: Database, session_id: str, name: str, data: bytes) -> None:
    """Keep a file, in place of one of this name; durable when it returns.

    Raises:
        sqlite3.Error: SQLite refused; nothing was changed.
    """
    values = [session_id, name, data, int(utc_now().timestamp())]
    query = "REPLACE INTO files (session_id, name, data, changed) VALUES (?, ?, ?, ?)"
    with database.write_transaction(create=True) as connection:
        connection.execute(query, values)


def read_file(database: Database, session_id: str, name: str) -> bytes | None:
    """Return a file's content, if there is one of this name.

    Raises:
        sqlite3.Error: SQLite refused.
    """
    query = "SELECT CAST(data AS BLOB) FROM files WHERE session_id = ? AND name = ?"
    with database.read_transaction() as connection:
        found = connection and connection.execute(query, [session_id, name]).fetchone()
        return bytes(found[0]) if found else None


def list_files(database: Database, session_id: str) -> tuple[SessionFile, ...]:
    """Describe a session's files, by their names.

    Raises:
        sqlite3.Error: SQLite refused.
    """
    query = (
        "SELECT name, length(data), CAST(changed AS INTEGER) FROM files "
        "WHERE session_id = ? ORDER BY name"
    )
    with database.read_transaction() as connection:
        rows = connection.execute(query, [session_id]).fetchall() if connection else []
    return tuple(
        SessionFile(name, size, datetime.fromtimestamp(changed, UTC))
        for name, size, changed in rows
    )


def remove_file(database: Database, session_id: str, name: str) -> None:
    """Remove a file, if there is one of this name.

    Raises:
        sqlite3.Error: SQLite refused.
    """
    if os.path.exists(database.path):
        query = "DELETE FROM files WHERE session_id = ? AND name = ?"
        with database.write_transaction() as connection:
            connection.execute(query, [session_id, name])
