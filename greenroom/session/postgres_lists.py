"""Lists of the sessions in PostgreSQL: whole, or page by page. Every function blocks."""

from collections.abc import Iterator
from typing import LiteralString, cast

from greenroom.core import SessionError
from greenroom.core._internal import check_session_id
from greenroom.session.description import SessionMetadata
from greenroom.session.listing import PageOrder, SessionPage, newest_first
from greenroom.session.postgres_server import Connection
from greenroom.session.store import StoreSurvey
from greenroom.session.store_errors import unknown_error
from greenroom.session.stored_rows import Row

_AT_ONCE = 200  # rows of one statement, at most
_LATEST = 1 << 62

# Of all sessions but those just being created.
_SELECT: LiteralString = """SELECT session_id, metadata, greatest(updated, changed)
    FROM sessions WHERE (metadata IS NOT NULL OR (size > 0 AND holder IS NULL))"""
_BEFORE: LiteralString = (
    _SELECT
    + """ AND (greatest(updated, changed), session_id) < (%s, %s)
    ORDER BY greatest(updated, changed) DESC, session_id DESC LIMIT %s"""
)


def survey(connection: Connection, place: str) -> StoreSurvey:
    """Describe every session, and say which are damaged.

    Raises:
        psycopg.Error: the server refused.
    """
    sessions, damaged = list[SessionMetadata](), list[SessionError]()
    for row in _rows(connection.execute(_SELECT, binary=True).fetchall()):
        found = _describe(row, place)
        if isinstance(found, SessionError):
            damaged.append(found)
        else:
            sessions.append(found)
    return StoreSurvey(newest_first(sessions), tuple(damaged))


def list_page(
    connection: Connection, place: str, wanted: PageOrder
) -> tuple[SessionPage, tuple[SessionError, ...]]:
    """Return a page, and errors for the damaged sessions among those that it looked at.

    Raises:
        psycopg.Error: the server refused.
    """
    kept, damaged, second = list[SessionMetadata](), list[SessionError](), wanted.latest
    for row in _newest_rows(connection, wanted):
        # A description may have parts of a second, so those of one second are sorted together.
        if len(kept) > wanted.limit and row.changed != second:
            break
        second = row.changed
        found = _describe(row, place)
        if isinstance(found, SessionError):
            damaged.append(found)
        elif wanted.accepts(found):
            kept.append(found)
    return wanted.pick(kept), tuple(damaged)


def _newest_rows(connection: Connection, wanted: PageOrder) -> Iterator[Row]:
    """Yield the rows from the page's second on back, some with each statement."""
    count = min(wanted.limit + 2, _AT_ONCE)
    before: tuple[int, str] = min(wanted.latest, _LATEST) + 1, ""
    while True:
        rows = _rows(connection.execute(_BEFORE, [*before, count], binary=True).fetchall())
        yield from rows
        if len(rows) < count:
            return
        before = rows[-1].changed, rows[-1].session_id


def _rows(found: list[tuple[object, ...]]) -> list[Row]:
    rows = cast("list[tuple[str, bytes | None, int]]", found)
    # A list needs neither the key nor the size.
    return [Row(session_id, 0, metadata, 0, changed) for session_id, metadata, changed in rows]


def _describe(row: Row, place: str) -> SessionMetadata | SessionError:
    """Return a session's description, or why there is none."""
    try:
        found = row.read_metadata(f"{place}#{check_session_id(row.session_id)}")
    except SessionError as error:
        return error
    return found or unknown_error(row.session_id, place, has_history=True)
