"""What can be kept of a session in a database after damage."""

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime

from greenroom.core import utc_now
from greenroom.session.description import SessionMetadata
from greenroom.session.entries import Entry
from greenroom.session.errors import SessionCorruptError
from greenroom.session.history import (
    RepairReport,
)
from greenroom.session.salvage import restore_description, salvage_history
from greenroom.session.sqlite_database import (
    Row,
    add_line,
    cut_lines,
    select_lines,
    write_description,
)


def salvage_rows(
    connection: sqlite3.Connection, row: Row, path: str, relatives: Sequence[SessionMetadata]
) -> RepairReport | None:
    """Set everything from the first damaged line on aside, and keep the lines that verify."""
    data = b"".join(select_lines(connection, row.key, 0))
    found = salvage_history(data, session_id=row.session_id, path=path)
    restored = _restore_description(connection, row, path, found.entries, relatives)
    side = ""
    if found.end.size != row.size:
        number = cut_lines(connection, row, found.end)
        side = f"number {number} of the table torn"
        if found.line:
            add_line(connection, row, found.line, found.end)
    return found.report(path, side, restored=restored)


def _restore_description(
    connection: sqlite3.Connection,
    row: Row,
    path: str,
    entries: Sequence[Entry],
    relatives: Sequence[SessionMetadata],
) -> tuple[str, ...]:
    """Reconstruct the description if it is damaged; return the fields that were lost."""
    try:
        if row.read_metadata(path) is not None:
            return ()
    except SessionCorruptError:
        pass
    try:
        moment = datetime.fromtimestamp(row.changed, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        moment = utc_now()
        query = "UPDATE sessions SET changed = ? WHERE key = ?"
        connection.execute(query, [int(moment.timestamp()), row.key])
    data = row.metadata or b""
    metadata, lost = restore_description(row.session_id, data, entries, relatives, moment)
    write_description(connection, row, metadata)
    return lost or ("updated_at",)
