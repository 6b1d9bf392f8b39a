"""Lists of the sessions in a session database: whole, or page by page. Every function blocks."""

from collections.abc import Iterable, Iterator

from greenroom.core import SessionError
from greenroom.core._internal import check_session_id
from greenroom.session.description import SessionMetadata
from greenroom.session.listing import PageOrder, SessionPage, newest_first
from greenroom.session.sqlite_database import NEWEST, Database
from greenroom.session.store import StoreSurvey
from greenroom.session.store_errors import unknown_error
from greenroom.session.stored_rows import Row

_AT_ONCE = 200  # rows of one transaction: writers wait no longer than that

# Of all sessions but those just being created.
_SELECT = f"""SELECT session_id, key, CAST(metadata AS BLOB), CAST(size AS INTEGER),
    CAST({NEWEST} AS INTEGER) FROM sessions
    WHERE (metadata IS NOT NULL OR (size > 0 AND NOT EXISTS (
        SELECT 1 FROM writers WHERE writers.session_id = sessions.session_id)))"""  # noqa: S608
_BEFORE = f"""{_SELECT} AND {NEWEST} <= ?1 AND ({NEWEST} < ?1 OR ?2 IS NULL OR session_id < ?2)
    ORDER BY {NEWEST} DESC, session_id DESC LIMIT {_AT_ONCE}"""


def survey(database: Database, store: object) -> StoreSurvey:
    """Describe every session, and say which are damaged.

    Raises:
        sqlite3.Error: SQLite refused.
    """
    with database.read_transaction() as connection:
        rows = [] if connection is None else _rows(connection.execute(_SELECT))
    sessions, damaged = list[SessionMetadata](), list[SessionError]()
    for row in rows:
        found = _describe(row, database, store)
        if isinstance(found, SessionError):
            damaged.append(found)
        else:
            sessions.append(found)
    return StoreSurvey(newest_first(sessions), tuple(damaged))


def list_page(
    database: Database,
    store: object,
    after: str | None = None,
    limit: int = 100,
    *,
    agent_type: str | None = None,
    archived: bool | None = None,
) -> tuple[SessionPage, tuple[SessionError, ...]]:
    """Return a page, and errors for the damaged sessions among those that it looked at.

    Raises:
        ValueError: the limit is not from 1 to 1,000, or `after` is not of an earlier page.
        sqlite3.Error: SQLite refused.
    """
    wanted = PageOrder(after, limit, agent_type, archived)
    kept, damaged, second = list[SessionMetadata](), list[SessionError](), wanted.latest
    for row in _newest_rows(database, wanted.latest):
        # A description may have parts of a second, so those of one second are sorted together.
        if len(kept) > limit and row.changed != second:
            break
        second = row.changed
        found = _describe(row, database, store)
        if isinstance(found, SessionError):
            damaged.append(found)
        elif wanted.accepts(found):
            kept.append(found)
    return wanted.pick(kept), tuple(damaged)


def _newest_rows(database: Database, latest: int) -> Iterator[Row]:
    """Yield the rows from this second on back, some in each transaction."""
    before: tuple[int, str | None] = latest, None
    while True:
        with database.read_transaction() as connection:
            rows = [] if connection is None else _rows(connection.execute(_BEFORE, before))
        yield from rows
        if len(rows) < _AT_ONCE:
            return
        before = rows[-1].changed, rows[-1].session_id


def _rows(found: Iterable[tuple[str, int, bytes | None, int, int]]) -> list[Row]:
    return [Row(*each) for each in found]


def _describe(row: Row, database: Database, store: object) -> SessionMetadata | SessionError:
    """Return a session's description, or why there is none."""
    try:
        path = f"{database.path}#{check_session_id(row.session_id)}"
        found = row.read_metadata(path)
    except SessionError as error:
        return error
    return found or unknown_error(row.session_id, store, has_history=True)
