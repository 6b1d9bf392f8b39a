"""The files of sessions in PostgreSQL. Every function blocks, and may raise `psycopg.Error`."""

from datetime import UTC, datetime
from typing import cast

from greenroom.session.files import SessionFile
from greenroom.session.postgres_server import Connection


def put_file(connection: Connection, session_id: str, name: str, data: bytes, second: int) -> None:
    """Keep a file, in place of one of this name; durable when it returns."""
    query = """INSERT INTO files (session_id, name, data, changed) VALUES (%s, %s, %s, %s)
        ON CONFLICT (session_id, name) DO UPDATE
        SET data = excluded.data, changed = excluded.changed"""
    connection.execute(query, [session_id, name, data, second])


def read_file(connection: Connection, session_id: str, name: str) -> bytes | None:
    """Return a file's content, if there is one of this name."""
    query = "SELECT data FROM files WHERE session_id = %s AND name = %s"
    found = connection.execute(query, [session_id, name], binary=True).fetchone()
    return None if found is None else cast("bytes", found[0])


def list_files(connection: Connection, session_id: str) -> tuple[SessionFile, ...]:
    """Describe a session's files, by their names."""
    query = """SELECT name, length(data), changed FROM files WHERE session_id = %s
        ORDER BY name"""
    found = connection.execute(query, [session_id]).fetchall()
    rows = cast("list[tuple[str, int, int]]", found)
    return tuple(
        SessionFile(name, size, datetime.fromtimestamp(changed, UTC))
        for name, size, changed in rows
    )


def remove_file(connection: Connection, session_id: str, name: str) -> None:
    """Remove a file, if there is one of this name."""
    query = "DELETE FROM files WHERE session_id = %s AND name = %s"
    connection.execute(query, [session_id, name])
