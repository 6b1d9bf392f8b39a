"""What a session is made of in a database: each function is one step inside a transaction."""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from greenroom.core import SessionCorruptError, SessionNotFoundError, SessionStorageError, clock
from greenroom.session.description import SessionMetadata, decode_metadata, encode_metadata
from greenroom.session.entries import Entry, decode_entries
from greenroom.session.history import History, Page, Position, RepairReport, read_on, read_page
from greenroom.session.recovery import recover, restore_description
from greenroom.session.sqlite_database import Database
from greenroom.session.store import StoredPage, StoredSession, fenced_error

_MOST = 1 << 30  # bytes to a history, as in a file: within what a machine can hold

# SQLite keeps the type with each value, so a damaged one may have become of another.
_SELECT = """SELECT session_id, key, CAST(metadata AS BLOB), CAST(size AS INTEGER),
    CAST(changed AS INTEGER) FROM sessions"""


class Row(NamedTuple):
    """A row of `sessions`: what there is of a session besides its lines."""

    session_id: str
    key: int
    metadata: bytes | None
    size: int
    changed: int

    def described(self, path: str) -> SessionMetadata | None:
        """Read the description; None where there is none yet.

        Raises:
            SessionCorruptError: it can't be read.
        """
        if self.metadata is None:
            return None
        try:
            found = decode_metadata(self.metadata, session_id=self.session_id, path=path)
        except SessionCorruptError as error:
            error.hint = _way_out(path)  # what it says is true of files
            raise
        try:
            return found.touched(datetime.fromtimestamp(self.changed, UTC))
        except (TypeError, ValueError, OverflowError, OSError) as error:
            text = f"{path}: {self.changed!r} is no time"
            raise SessionCorruptError(text, session_id=self.session_id, path=path) from error


def find(connection: sqlite3.Connection, session_id: str) -> Row | None:
    """Return a session's row, if it has one."""
    row = connection.execute(f"{_SELECT} WHERE session_id = ?", [session_id]).fetchone()
    return None if row is None else Row(*row)


def all_rows(connection: sqlite3.Connection) -> list[Row]:
    """Return the rows of all sessions, but of those that are being made; lines are not touched."""
    held = "SELECT 1 FROM writers WHERE writers.session_id = sessions.session_id"
    where = f"metadata IS NOT NULL OR (size > 0 AND NOT EXISTS ({held}))"
    return [Row(*row) for row in connection.execute(f"{_SELECT} WHERE {where}")]


def add(connection: sqlite3.Connection, session_id: str) -> Row:
    """Make a session's row."""
    done = connection.execute("INSERT INTO sessions (session_id) VALUES (?)", [session_id])
    assert done.lastrowid is not None
    return Row(session_id, done.lastrowid, None, 0, 0)


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
    with database.reading() as connection:
        if connection and (found := find(connection, session_id)):
            check_length(found.size - since.size, session_id, path)
            row, lines = found, _lines(connection, found.key, max(since.lines - 1, 0))
    # From here on the connection is free for others.
    if since.lines and not row.key:
        raise SessionNotFoundError(f"{path} was removed", session_id=session_id)
    return StoredSession(row.described(path), _verified(lines, row, path, since), path)


def read_last(database: Database, session_id: str, count: int) -> StoredPage:
    """Read the last messages of a session, and no more of its lines than that takes.

    Raises:
        SessionCorruptError: it is damaged there.
        sqlite3.Error: SQLite refused.
    """
    path = f"{database.path}#{session_id}"
    with database.reading() as connection:
        row = find(connection, session_id) if connection else None
        if connection is None or row is None:
            return StoredPage(None, Page())
        try:
            page = read_page(
                _lines_backwards(connection, row.key),
                row.size,
                count,
                session_id=session_id,
                path=path,
            )
            if page.repair and page.repair.line <= _last_number(connection, row.key):
                raise _damaged(path, session_id, page.repair.line)
        except SessionCorruptError as error:
            error.hint = _way_out(path)  # what it says is true of files
            raise
    return StoredPage(row.described(path), page)


def _verified(lines: list[bytes], row: Row, path: str, since: Position) -> History:
    """Decode these lines, the first of which is the one before the place `since`."""
    try:
        history = read_on(b"".join(lines), session_id=row.session_id, path=path, since=since)
    except SessionCorruptError as error:
        if error.line != since.lines:  # or it was replaced, and is as sound as before
            error.hint = _way_out(path)  # what it says is true of files
        raise
    size = history.end.size + len(history.torn)
    unread = max(since.lines - 1, 0) + len(lines) - history.end.lines
    if size == row.size and unread <= 1:
        return history
    lost = "" if size == row.size else f"{row.size} bytes were stored, and {size} are there"
    raise _damaged(path, row.session_id, history.end.lines + 1, lost)


def _damaged(path: str, session_id: str, line: int, problem: str = "") -> SessionCorruptError:
    """Return the error of a line that is damaged in the middle, or of what is lost.

    A file may end in several lines that were not synced; here each line was.
    """
    return SessionCorruptError(
        f"{path}:{line}: {problem or 'the line is damaged, and others follow it'}",
        session_id=session_id,
        path=path,
        line=line,
        hint=_way_out(path),
    )


def _way_out(path: str) -> str:
    file, _, session_id = path.rpartition("#")
    return (
        f"nothing was changed; `greenroom sessions repair {session_id} --sessions {file}` keeps every "
        "line that can be verified, and sets the rest aside"
    )


def salvage(
    connection: sqlite3.Connection, row: Row, path: str, relatives: Sequence[SessionMetadata]
) -> RepairReport | None:
    """Keep of what is damaged what verifies, and set all of it aside; say what that was, if anything."""
    data = b"".join(_lines(connection, row.key, 0))
    found = recover(data, session_id=row.session_id, path=path)
    entries = (*found.entries, *decode_entries(found.line)) if found.line else found.entries
    lost = _restore_description(connection, row, path, entries, relatives)
    end, side = found.end, ""
    if end.size != row.size:
        number = cut(connection, row, end)
        side = f"number {number} of the table torn"
        if found.line:
            add_line(connection, row, found.line, end)
    if not (side or lost):
        return None
    size, messages = len(found.damaged), found.messages
    return RepairReport(path, end.lines + 1, end.size, size, side, messages, restored=lost)


def _restore_description(
    connection: sqlite3.Connection,
    row: Row,
    path: str,
    entries: Sequence[Entry],
    relatives: Sequence[SessionMetadata],
) -> tuple[str, ...]:
    """Describe the session anew where that is needed; return the fields that were lost."""
    try:
        if row.described(path) is not None:
            return ()
    except SessionCorruptError:
        pass
    try:
        moment = datetime.fromtimestamp(row.changed, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        moment = clock.now()
        query = "UPDATE sessions SET changed = ? WHERE key = ?"
        connection.execute(query, [int(moment.timestamp()), row.key])
    data = row.metadata or b""
    metadata, lost = restore_description(row.session_id, data, entries, relatives, moment)
    describe(connection, row, encode_metadata(metadata))
    return lost or ("updated_at",)


def claim(connection: sqlite3.Connection, session_id: str) -> int:
    """Begin an epoch of this process; from here on those before it are refused."""
    values = [session_id, os.getpid()]
    done = connection.execute("REPLACE INTO writers (session_id, pid) VALUES (?, ?)", values)
    assert done.lastrowid is not None
    return done.lastrowid


def check_epoch(connection: sqlite3.Connection, session_id: str, epoch: int) -> None:
    """See that this is still the session's epoch.

    Raises:
        SessionFencedError: it is not.
    """
    query = "SELECT epoch, pid FROM writers WHERE session_id = ?"
    current, pid = connection.execute(query, [session_id]).fetchone() or (None, None)
    if current != epoch:
        raise fenced_error(session_id, pid)


def give_back(connection: sqlite3.Connection, session_id: str, epoch: int) -> None:
    """End this epoch, if it lasts, and leave nothing of a session that was never stored."""
    values = [epoch, session_id]
    done = connection.execute("DELETE FROM writers WHERE epoch = ? AND session_id = ?", values)
    if done.rowcount:
        blank = "DELETE FROM sessions WHERE session_id = ? AND metadata IS NULL AND size = 0"
        connection.execute(blank, [session_id])


def check_length(size: int, session_id: str, path: str) -> None:
    """See that so many bytes of a history can be read at once.

    Raises:
        SessionStorageError: they can't.
    """
    if size > _MOST:
        raise SessionStorageError(
            f"{path}: the history is too long",
            session_id=session_id,
            hint="it may have 1 GiB: go on in a new session",
        )


def add_line(connection: sqlite3.Connection, row: Row, line: bytes, at: Position) -> None:
    """Add a line at the end of a history."""
    values = [row.key, at.lines, line]
    connection.execute("INSERT INTO lines (session, number, line) VALUES (?, ?, ?)", values)
    connection.execute(
        "UPDATE sessions SET size = ?, changed = ? WHERE key = ?",
        [at.size + len(line), int(clock.now().timestamp()), row.key],
    )


def describe(connection: sqlite3.Connection, row: Row, metadata: bytes) -> None:
    """Replace the description."""
    connection.execute("UPDATE sessions SET metadata = ? WHERE key = ?", [metadata, row.key])


def cut(connection: sqlite3.Connection, row: Row, at: Position) -> int:
    """Move the lines from this place on into the table `torn`; return their number there."""
    torn = b"".join(_lines(connection, row.key, at.lines))
    query = "INSERT INTO torn (session_id, start, lines) VALUES (?, ?, ?)"
    done = connection.execute(query, [row.session_id, at.size, torn])
    connection.execute("DELETE FROM lines WHERE session = ? AND number >= ?", [row.key, at.lines])
    connection.execute("UPDATE sessions SET size = ? WHERE key = ?", [at.size, row.key])
    assert done.lastrowid is not None
    return done.lastrowid


def delete(connection: sqlite3.Connection, row: Row) -> None:
    """Remove a session, what was set aside of it, and the right to write it."""
    connection.execute("DELETE FROM lines WHERE session = ?", [row.key])
    connection.execute("DELETE FROM sessions WHERE key = ?", [row.key])
    connection.execute("DELETE FROM torn WHERE session_id = ?", [row.session_id])
    connection.execute("DELETE FROM writers WHERE session_id = ?", [row.session_id])


def _lines(connection: sqlite3.Connection, key: int, first: int) -> list[bytes]:
    query = "SELECT CAST(line AS BLOB) FROM lines WHERE session = ? AND number >= ? ORDER BY number"
    return [line for (line,) in connection.execute(query, [key, first])]


def _lines_backwards(connection: sqlite3.Connection, key: int) -> Iterator[bytes]:
    query = "SELECT CAST(line AS BLOB) FROM lines WHERE session = ? ORDER BY number DESC"
    for (line,) in connection.execute(query, [key]):
        yield line


def _last_number(connection: sqlite3.Connection, key: int) -> int:
    query = "SELECT max(number) FROM lines WHERE session = ?"
    (number,) = connection.execute(query, [key]).fetchone()
    return int(number)
