"""The tables of sessions in PostgreSQL, and the statements on them. Every function blocks.

`lines` holds the very lines that a file store has in `history.jsonl`, one row each. A row of
`sessions` also says who may write: the writer of the `epoch`, which rises with each taking, as long
as the presence of its `holder` lasts (see `postgres_presence`). Each write is one statement, or one
transaction, that checks the epoch itself.
"""

from collections.abc import Iterator, Sequence
from typing import Final, LiteralString, cast

from greenroom.core import SessionError, utc_now
from greenroom.session.description import SessionMetadata
from greenroom.session.history import Position
from greenroom.session.postgres_server import Connection, Server, transaction
from greenroom.session.stored_rows import Row

# From each version of the tables to the next, beginning with none. Never change a step.
SESSION_STEPS: Final[tuple[tuple[LiteralString, ...], ...]] = (
    (
        # `last_epoch`: what no epoch of a session that is gone exceeds.
        "CREATE TABLE about (version integer NOT NULL, last_epoch bigint NOT NULL)",
        "INSERT INTO about VALUES (0, 0)",
        """CREATE TABLE holders (
            id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            name text NOT NULL
        )""",
        """CREATE TABLE sessions (
            key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            session_id text COLLATE "C" NOT NULL UNIQUE,
            metadata bytea,
            size bigint NOT NULL DEFAULT 0,
            changed bigint NOT NULL DEFAULT 0,
            updated bigint NOT NULL DEFAULT 0,
            epoch bigint NOT NULL,
            holder integer
        )""",
        """CREATE INDEX sessions_by_change
            ON sessions (greatest(updated, changed), session_id)""",
        """CREATE TABLE lines (
            session bigint NOT NULL,
            number bigint NOT NULL,
            line bytea NOT NULL,
            PRIMARY KEY (session, number)
        )""",
        """CREATE TABLE torn (
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            session_id text COLLATE "C" NOT NULL,
            start bigint NOT NULL,
            lines bytea NOT NULL
        )""",
        "CREATE INDEX torn_by_session ON torn (session_id)",
        """CREATE TABLE files (
            session_id text COLLATE "C" NOT NULL,
            name text COLLATE "C" NOT NULL,
            data bytea NOT NULL,
            changed bigint NOT NULL,
            PRIMARY KEY (session_id, name)
        )""",
        "ALTER TABLE files ALTER COLUMN data SET STORAGE EXTERNAL",
    ),
)

ROOM = 10_000
"""How far an epoch lies above the last one where the clock stands or goes back."""


def check_tables(
    connection: Connection, server: Server, lock: int, about: str, steps: Sequence[Sequence[str]]
) -> None:
    """Make or upgrade tables, under one lock of the schema; all or nothing.

    The table `about` holds their version, the number of steps that were made.

    Raises:
        SessionError: they belong to a newer version of Greenroom.
        psycopg.Error: the server refused.
    """
    if _read_version(connection, server, about, len(steps)) == len(steps):
        return
    with transaction(connection):
        connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", [lock])
        # Another process may have been faster.
        version = _read_version(connection, server, about, len(steps))
        if version == 0:
            connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{server.schema}"'.encode())
        for statements in steps[version:]:
            for statement in statements:
                connection.execute(statement.encode())
        query = f"UPDATE {about} SET version = %s"  # noqa: S608 -- a name of ours
        connection.execute(query.encode(), [len(steps)])


def _read_version(connection: Connection, server: Server, about: str, known: int) -> int:
    # A search path may still be resolved as it was before another process made the schema.
    query = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = %s AND tablename = %s"
    if connection.execute(query, [server.schema, about]).fetchone() is None:
        return 0
    query = f'SELECT version FROM "{server.schema}".{about}'  # noqa: S608 -- it was checked
    found = connection.execute(query.encode()).fetchall()
    ((version,),) = cast("list[tuple[int]]", found)
    if version > known:
        raise SessionError(
            f"{server.place}: its tables are of version {version}; this version of Greenroom "
            f"knows up to {known}",
            hint="upgrade greenroom",
        )
    return version


_TAKE = """INSERT INTO sessions AS old (session_id, epoch, holder)
    SELECT %(id)s, CASE WHEN about.last_epoch < %(epoch)s THEN %(epoch)s
        ELSE about.last_epoch + %(room)s END, %(holder)s
    FROM about
    ON CONFLICT (session_id) DO UPDATE SET holder = excluded.holder,
        epoch = CASE WHEN old.epoch < excluded.epoch THEN excluded.epoch
            ELSE old.epoch + %(room)s END
    WHERE old.holder IS NULL
        OR (old.holder = excluded.holder AND old.epoch <> ALL(%(live)s::bigint[]))
        OR (old.holder <> excluded.holder
            AND pg_try_advisory_xact_lock_shared(%(lock)s, old.holder))
    RETURNING epoch"""


def take_session(
    connection: Connection, session_id: str, epoch: int, holder: int, live: list[int], lock: int
) -> int | None:
    """Begin an epoch of a session, this one or a higher, if no present holder has it.

    What this holder itself has is free, unless it is of a `live` epoch: its release was lost.

    Returns:
        The epoch; None if another writer has the session.
    """
    values = {
        "id": session_id,
        "epoch": epoch,
        "holder": holder,
        "live": live,
        "lock": lock,
        "room": ROOM,
    }
    found = connection.execute(_TAKE, values).fetchone()
    return None if found is None else cast("int", found[0])


def renew_epoch(connection: Connection, session_id: str, known: list[int], epoch: int) -> bool:
    """Begin a new epoch of a session that has one of these; return whether it had.

    Whatever an older connection may still do comes before this, or never.
    """
    query = "UPDATE sessions SET epoch = %s WHERE session_id = %s AND epoch = ANY(%s::bigint[])"
    return connection.execute(query, [epoch, session_id, known]).rowcount == 1


_APPEND = """WITH session AS (
        UPDATE sessions SET size = size + %(length)s, changed = %(now)s
        WHERE session_id = %(id)s AND epoch = %(epoch)s AND size = %(size)s RETURNING key)
    INSERT INTO lines (session, number, line) SELECT key, %(number)s, %(line)s FROM session"""


def append_line(
    connection: Connection, session_id: str, epoch: int, line: bytes, at: Position
) -> bool:
    """Add a line, if the epoch is still this one, and the history ends there; say whether it did.

    It is one statement, so nothing can come between the checks and the line.
    """
    values = {
        "id": session_id,
        "epoch": epoch,
        "size": at.size,
        "number": at.lines,
        "line": line,
        "length": len(line),
        "now": int(utc_now().timestamp()),
    }
    return connection.execute(_APPEND, values).rowcount == 1


def holds_line(connection: Connection, session_id: str, line: bytes, at: Position) -> bool:
    """Whether a history ends with this line, at this place."""
    query = """SELECT size, line FROM sessions JOIN lines ON session = key
        WHERE session_id = %s AND number = %s"""
    found = connection.execute(query, [session_id, at.lines], binary=True).fetchone()
    return found == (at.size + len(line), line)


def find_holder(connection: Connection, session_id: str) -> tuple[int, str] | None:
    """Return the epoch of a session, and the name of who holds it, "" if unknown."""
    query = """SELECT epoch, coalesce(name, '') FROM sessions LEFT JOIN holders ON id = holder
        WHERE session_id = %s"""
    found = connection.execute(query, [session_id]).fetchone()
    return None if found is None else cast("tuple[int, str]", found)


_RELEASE = """WITH blank AS (
        DELETE FROM sessions WHERE session_id = %(id)s AND epoch = ANY(%(known)s::bigint[])
            AND metadata IS NULL AND size = 0 RETURNING epoch),
    noted AS (
        UPDATE about SET last_epoch = greatest(last_epoch, epoch) FROM blank)
    UPDATE sessions SET holder = NULL WHERE session_id = %(id)s
        AND epoch = ANY(%(known)s::bigint[]) AND (metadata IS NOT NULL OR size > 0)"""


def release_session(connection: Connection, session_id: str, known: list[int]) -> None:
    """End these epochs, and remove a session that was never stored."""
    connection.execute(_RELEASE, {"id": session_id, "known": known})


_DELETE = """WITH gone AS (
        DELETE FROM sessions WHERE session_id = %(id)s AND epoch = %(epoch)s
        RETURNING key, session_id, epoch),
    gone_lines AS (DELETE FROM lines USING gone WHERE session = key),
    gone_torn AS (DELETE FROM torn USING gone WHERE torn.session_id = gone.session_id),
    gone_files AS (DELETE FROM files USING gone WHERE files.session_id = gone.session_id),
    noted AS (UPDATE about SET last_epoch = greatest(last_epoch, epoch) FROM gone)
    SELECT 1 FROM gone"""


def delete_session_rows(connection: Connection, session_id: str, epoch: int) -> bool:
    """Remove a session and everything of it, if the epoch is still this one; say whether it was."""
    values = {"id": session_id, "epoch": epoch}
    return connection.execute(_DELETE, values).fetchone() is not None


def select_description(connection: Connection, session_id: str) -> Row | None:
    """Return a session's row, if it has one."""
    query = "SELECT session_id, key, metadata, size, changed FROM sessions WHERE session_id = %s"
    found = connection.execute(query, [session_id], binary=True).fetchone()
    return None if found is None else _row(found)


def _row(found: tuple[object, ...]) -> Row:
    return Row(*cast("tuple[str, int, bytes | None, int, int]", found))


_READ = """SELECT -1, key, metadata, size, changed FROM sessions WHERE session_id = %(id)s
    UNION ALL
    SELECT number, 0, line, 0, 0 FROM lines WHERE number >= %(first)s
        AND session = (SELECT key FROM sessions WHERE session_id = %(id)s)
    ORDER BY 1"""


def select_session(
    connection: Connection, session_id: str, first: int
) -> tuple[Row | None, list[bytes]]:
    """Return a session's row and its lines from this number on, as they were at one moment."""
    found = connection.execute(_READ, {"id": session_id, "first": first}, binary=True).fetchall()
    if not found:
        return None, []
    (_, *row), *lines = found
    return _row((session_id, *row)), [cast("bytes", line[2]) for line in lines]


def select_lines_backwards(connection: Connection, key: int) -> Iterator[bytes]:
    """Yield the lines of a session, the last one first, some at a time."""
    query = """SELECT number, line FROM lines WHERE session = %s AND number < %s
        ORDER BY number DESC LIMIT 100"""
    before = 1 << 62
    while found := connection.execute(query, [key, before], binary=True).fetchall():
        yield from (cast("bytes", line) for _, line in found)
        before = cast("int", found[-1][0])


def select_last_number(connection: Connection, key: int) -> int:
    """Return the number of the last line of a session; -1 if it has none."""
    query = "SELECT coalesce(max(number), -1) FROM lines WHERE session = %s"
    (found,) = connection.execute(query, [key]).fetchall()
    return cast("int", found[0])


def write_description(
    connection: Connection,
    session_id: str,
    epoch: int,
    metadata: SessionMetadata,
    previous: bytes = b"",
) -> bytes | None:
    """Replace the description if the epoch is still this one; return it as stored, else None.

    Keys of the previous one that this version doesn't know are kept.
    """
    data = metadata.encode(previous)
    updated = int(metadata.updated_at.timestamp() // 1)
    query = """UPDATE sessions SET metadata = %s, updated = %s
        WHERE session_id = %s AND epoch = %s"""
    done = connection.execute(query, [data, updated, session_id, epoch])
    return data if done.rowcount == 1 else None


def lock_row(connection: Connection, session_id: str, epoch: int) -> Row | None:
    """Lock a session's row until the end of the transaction, if the epoch is still this one."""
    query = """SELECT session_id, key, metadata, size, changed FROM sessions
        WHERE session_id = %s AND epoch = %s FOR UPDATE"""
    found = connection.execute(query, [session_id, epoch], binary=True).fetchone()
    return None if found is None else _row(found)


def cut_lines(connection: Connection, row: Row, at: Position) -> int:
    """Move the lines from this place on into the table `torn`; return their number there."""
    query = """INSERT INTO torn (session_id, start, lines)
        SELECT %s, %s, coalesce(string_agg(line, ''::bytea ORDER BY number), ''::bytea)
        FROM lines WHERE session = %s AND number >= %s RETURNING number"""
    values = [row.session_id, at.size, row.key, at.lines]
    (found,) = connection.execute(query, values).fetchall()
    connection.execute("DELETE FROM lines WHERE session = %s AND number >= %s", values[2:])
    connection.execute("UPDATE sessions SET size = %s WHERE key = %s", [at.size, row.key])
    return cast("int", found[0])


def find_cut(connection: Connection, session_id: str, at: Position) -> int | None:
    """Return the number in `torn` of the last lines that were cut off at this place, if any."""
    query = "SELECT max(number) FROM torn WHERE session_id = %s AND start = %s"
    (found,) = connection.execute(query, [session_id, at.size]).fetchall()
    return cast("int | None", found[0])


def add_line(connection: Connection, row: Row, line: bytes, at: Position) -> None:
    """Add a line in a transaction that has locked the row."""
    query = "INSERT INTO lines (session, number, line) VALUES (%s, %s, %s)"
    connection.execute(query, [row.key, at.lines, line])
    query = "UPDATE sessions SET size = %s, changed = %s WHERE key = %s"
    values = [at.size + len(line), int(utc_now().timestamp()), row.key]
    connection.execute(query, values)


def set_changed(connection: Connection, row: Row, second: int) -> None:
    """Set when a session was changed, in a transaction that has locked the row."""
    connection.execute("UPDATE sessions SET changed = %s WHERE key = %s", [second, row.key])


def evict_holder(connection: Connection, name: str) -> int:
    """Free the sessions of a holder, and refuse what it still writes; return how many."""
    query = """UPDATE sessions SET holder = NULL, epoch = epoch + %s
        WHERE holder IN (SELECT id FROM holders WHERE name = %s)"""
    return connection.execute(query, [ROOM, name]).rowcount


def free_sessions(connection: Connection, holder: int) -> None:
    """Free the sessions of one presence, and refuse what is still written under it."""
    query = "UPDATE sessions SET holder = NULL, epoch = epoch + %s WHERE holder = %s"
    connection.execute(query, [ROOM, holder])
