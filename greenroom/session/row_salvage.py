"""What can be kept of a session in a database after damage."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

from greenroom.core import utc_now
from greenroom.session.description import SessionMetadata
from greenroom.session.entries import Entry
from greenroom.session.errors import SessionCorruptError
from greenroom.session.history import Position, RepairReport
from greenroom.session.salvage import restore_description, salvage_history
from greenroom.session.stored_rows import Row


class SessionRows(Protocol):
    """The rows of one session, in a transaction. Every method blocks."""

    @property
    def row(self) -> Row:
        """Its row, as it was at first."""

    def read_lines(self) -> bytes:
        """Return all lines."""

    def cut_lines(self, at: Position) -> str:
        """Set all lines from this place on aside; return where they are."""

    def add_line(self, line: bytes, at: Position) -> None:
        """Add a line at the end."""

    def set_changed(self, moment: datetime) -> None:
        """Set when it was changed."""

    def write_description(self, metadata: SessionMetadata) -> None:
        """Replace the description."""


def salvage_rows(
    rows: SessionRows, path: str, relatives: Sequence[SessionMetadata]
) -> RepairReport | None:
    """Set everything from the first damaged line on aside, and keep the lines that verify."""
    row = rows.row
    found = salvage_history(rows.read_lines(), session_id=row.session_id, path=path)
    restored = _restore_description(rows, path, found.entries, relatives)
    side = ""
    if found.end.size != row.size:
        side = rows.cut_lines(found.end)
        if found.line:
            rows.add_line(found.line, found.end)
    return found.report(path, side, restored=restored)


def _restore_description(
    rows: SessionRows, path: str, entries: Sequence[Entry], relatives: Sequence[SessionMetadata]
) -> tuple[str, ...]:
    """Reconstruct the description if it is damaged; return the fields that were lost."""
    row = rows.row
    try:
        if row.read_metadata(path) is not None:
            return ()
    except SessionCorruptError:
        pass
    try:
        moment = datetime.fromtimestamp(row.changed, UTC)
    except (TypeError, ValueError, OverflowError, OSError):
        moment = utc_now()
        rows.set_changed(moment)
    data = row.metadata or b""
    metadata, lost = restore_description(row.session_id, data, entries, relatives, moment)
    rows.write_description(metadata)
    return lost or ("updated_at",)
