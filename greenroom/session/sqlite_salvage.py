"""The rows of a session in a SQLite database, for what can be kept of them after damage."""

import sqlite3
from dataclasses import dataclass
from datetime import datetime

from greenroom.session.description import SessionMetadata
from greenroom.session.history import Position
from greenroom.session.sqlite_database import add_line, cut_lines, select_lines, write_description
from greenroom.session.stored_rows import Row


@dataclass(frozen=True)
class SQLiteRows:
    """The rows of one session, in a transaction of this connection; see `SessionRows`."""

    connection: sqlite3.Connection
    row: Row

    def read_lines(self) -> bytes:
        """Return all lines."""
        return b"".join(select_lines(self.connection, self.row.key, 0))

    def cut_lines(self, at: Position) -> str:
        """Set all lines from this place on aside; return where they are."""
        return f"number {cut_lines(self.connection, self.row, at)} of the table torn"

    def add_line(self, line: bytes, at: Position) -> None:
        """Add a line at the end."""
        add_line(self.connection, self.row.key, line, at)

    def set_changed(self, moment: datetime) -> None:
        """Set when it was changed."""
        query = "UPDATE sessions SET changed = ? WHERE key = ?"
        self.connection.execute(query, [int(moment.timestamp()), self.row.key])

    def write_description(self, metadata: SessionMetadata) -> None:
        """Replace the description."""
        write_description(self.connection, self.row, metadata)
