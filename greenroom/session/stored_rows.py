"""Sessions as rows of a database: what the stores in SQLite and in PostgreSQL have in common."""

import shlex
from datetime import UTC, datetime
from typing import NamedTuple

from greenroom.core import SessionStorageError
from greenroom.session.description import SessionMetadata
from greenroom.session.errors import SessionCorruptError
from greenroom.session.history import History, Position, read_history

_MOST = 1 << 30  # bytes of a history, as in a file: within what a machine can hold


class Row(NamedTuple):
    """A row of `sessions`: everything about a session but its lines."""

    session_id: str
    key: int
    metadata: bytes | None
    size: int
    changed: int

    def read_metadata(self, path: str) -> SessionMetadata | None:
        """Read the description; None if there is none yet.

        Raises:
            SessionCorruptError: it can't be read.
        """
        if self.metadata is None:
            return None
        try:
            found = SessionMetadata.decode(self.metadata, session_id=self.session_id, path=path)
        except SessionCorruptError as error:
            error.hint = repair_hint(path)  # the original hint is about files
            raise
        try:
            if self.changed <= found.updated_at.timestamp():  # so it is for most of a list
                return found
            return found.with_updated_at(datetime.fromtimestamp(self.changed, UTC))
        except (TypeError, ValueError, OverflowError, OSError) as error:
            text = f"{path}: {self.changed!r} is not a time"
            raise SessionCorruptError(text, session_id=self.session_id, path=path) from error


def repair_hint(path: str) -> str:
    """Return how to make a damaged session usable again."""
    place, _, session_id = path.rpartition("#")
    command = f"`greenroom sessions repair {shlex.quote(session_id)} --sessions "
    if place.startswith("postgresql:"):  # a name for people, which is not a connection string
        command = f"`await store.salvage({session_id!r})`, or with GREENROOM_DSN set {command}"
        place = "postgresql"
    return (
        f"nothing was changed; {command}{shlex.quote(place)}` keeps every line that can be "
        "verified, and sets the rest aside"
    )


def check_size(size: int, session_id: str, path: str) -> None:
    """Check that this many bytes of a history can be read at once.

    Raises:
        SessionStorageError: they are too many.
    """
    if size > _MOST:
        raise SessionStorageError(
            f"{path}: the history is too long",
            session_id=session_id,
            hint="the limit is 1 GiB: continue in a new session",
        )


def verify_lines(lines: list[bytes], row: Row, path: str, since: Position) -> History:
    """Decode these lines, which begin with the one before the place `since`."""
    try:
        history = read_history(b"".join(lines), session_id=row.session_id, path=path, since=since)
    except SessionCorruptError as error:
        if error.line != since.lines:  # else the history was replaced, and is not damaged
            error.hint = repair_hint(path)  # the original hint is about files
        raise
    size = history.end.size + len(history.torn)
    unread = max(since.lines - 1, 0) + len(lines) - history.end.lines
    if size == row.size and unread <= 1:
        return history
    lost = "" if size == row.size else f"{row.size} bytes were stored, and {size} are there"
    raise damaged_error(path, row.session_id, history.end.lines + 1, lost)


def damaged_error(path: str, session_id: str, line: int, problem: str = "") -> SessionCorruptError:
    """Return the error for a damaged line in the middle, or for lost lines.

    A file may end in several unsynced lines; in a database each line is synced.
    """
    return SessionCorruptError(
        f"{path}:{line}: {problem or 'the line is damaged, and others follow it'}",
        session_id=session_id,
        path=path,
        line=line,
        hint=repair_hint(path),
    )
