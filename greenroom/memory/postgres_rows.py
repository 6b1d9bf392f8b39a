"""Entries of a memory in PostgreSQL: tables and statements. Every function blocks.

The words of an entry are ours, as stems, so that a question finds what it finds in SQLite; the
index and its operators are those of PostgreSQL's full-text search.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from greenroom.core._internal import serde
from greenroom.memory.memory_protocol import Entry
from greenroom.memory.rows import About
from greenroom.memory.stems import stem
from greenroom.memory.word_index import content_words, words

if TYPE_CHECKING:
    from greenroom.session._internal import Connection

ABOUT: Final = "memory_about"
"""The table that holds the version of the others."""

STEPS: Final = (
    (
        "CREATE TABLE memory_about (version integer NOT NULL)",
        "INSERT INTO memory_about VALUES (0)",
        # Texts are bytes, since PostgreSQL's own can't hold every character.
        """CREATE TABLE memories (
            key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id text COLLATE "C" NOT NULL UNIQUE,
            text bytea NOT NULL,
            about bytea NOT NULL,
            terms tsvector NOT NULL,
            created bigint NOT NULL,
            used bigint NOT NULL
        )""",
        "CREATE INDEX memories_by_term ON memories USING gin (terms)",
        "CREATE INDEX memories_by_use ON memories (used, key)",
    ),
)
"""From each version of the tables to the next. Never change a step."""

_MOST_TERMS = 64  # of a question

_ENOUGH = 10_000
"""A term in as many entries is common; more are not counted."""


_NEXT_USE = "greatest(%s::bigint, 1 + (SELECT coalesce(max(used), 0) FROM memories))"
"""The time of a use, later than all others even if another machine's clock is ahead."""


class Question(NamedTuple):
    """What to look for: the terms, from when on, and how fast age counts."""

    terms: tuple[str, ...]
    oldest: int
    now: int
    half_life: float | None


def ask(text: str, oldest: int, now: int, half_life: float | None) -> Question:
    """Make a question of a text; it may have no term at all."""
    terms = dict.fromkeys(stem(word) for word in content_words(text))
    return Question(tuple(terms)[:_MOST_TERMS], oldest, now, half_life)


def add(connection: "Connection", entry_id: str, text: str, about: bytes, second: int) -> None:
    """Write an entry, unless it was written already."""
    terms = list(dict.fromkeys(stem(word) for word in words(text)))
    query = f"""INSERT INTO memories (id, text, about, terms, created, used)
        VALUES (%s, %s, %s, array_to_tsvector(%s::text[]), %s, {_NEXT_USE})
        ON CONFLICT (id) DO NOTHING"""  # noqa: S608 -- ours
    connection.execute(query.encode(), [entry_id, text.encode(), about, terms, second, second])


def mark_used(connection: "Connection", ids: Sequence[str], second: int) -> None:
    """Note that these entries were recalled, so that others are removed first."""
    query = f"UPDATE memories SET used = {_NEXT_USE} WHERE id = ANY(%s)"  # noqa: S608 -- ours
    connection.execute(query.encode(), [second, list(ids)])


def remove_old(connection: "Connection", oldest: int) -> int:
    """Remove what was made before; return how many."""
    return connection.execute("DELETE FROM memories WHERE created < %s", [oldest]).rowcount


def evict(connection: "Connection", most: int) -> int:
    """Remove the least recently used entries beyond so many; return how many."""
    query = """DELETE FROM memories WHERE key IN (
        SELECT key FROM memories ORDER BY used DESC, key DESC OFFSET %s)"""
    return connection.execute(query, [most]).rowcount


def find_ids(connection: "Connection") -> Iterator[tuple[str, bytes]]:
    """Yield the id of each entry, with what it is compared by."""
    with connection.cursor("ids", binary=True) as cursor:
        cursor.execute("SELECT id, about FROM memories")
        yield from cast("Iterator[tuple[str, bytes]]", cursor)


def remove(connection: "Connection", ids: Sequence[str]) -> None:
    """Remove these entries."""
    connection.execute("DELETE FROM memories WHERE id = ANY(%s)", [list(ids)])


def exists(connection: "Connection", entry_id: str) -> bool:
    """Whether there is an entry of this id."""
    query = "SELECT 1 FROM memories WHERE id = %s"
    return connection.execute(query, [entry_id]).fetchone() is not None


# A term weighs more, the fewer entries have it; the score is the share of the question's weight.
_FIND = f"""WITH asked AS (
        SELECT term::tsquery AS term, ln(1 + (SELECT count(*) FROM memories) / (0.5 + (
            SELECT count(*) FROM (
                SELECT 1 FROM memories WHERE terms @@ term::tsquery LIMIT {_ENOUGH}) AS holding)))
            AS weight
        FROM unnest(%(terms)s::text[]) AS term),
    found AS (
        SELECT key, id, text, about, created,
            (SELECT sum(weight) FROM asked WHERE terms @@ term)
                / (SELECT sum(weight) FROM asked) AS share
        FROM memories WHERE terms @@ %(any)s::tsquery AND created >= %(oldest)s)
    SELECT id, text, about, created, (share * (0.5 + power(2.0::float8,
        -least(greatest(%(now)s - created, 0) / %(half_life)s::float8, 1000)) / 2))::float8 AS score
    FROM found ORDER BY score DESC, key DESC"""  # noqa: S608 -- a number of ours


def find(connection: "Connection", question: Question) -> Iterator[tuple[bytes, Entry, float]]:
    """Yield the entries that fit, the best first: what they are compared by, entry and score.

    It has to be read in a transaction.
    """
    if not question.terms:
        return
    terms = [_quote(each) for each in question.terms]
    values = {
        "terms": terms,
        "any": " | ".join(terms),
        "oldest": question.oldest,
        "now": question.now,
        "half_life": question.half_life or 1e18,
    }
    with connection.cursor("found", binary=True) as cursor:
        cursor.itersize = 100
        cursor.execute(_FIND.encode(), values)
        for row in cursor:
            entry_id, text, about, created, score = cast(
                "tuple[str, bytes, bytes, int, float]", row
            )
            yield about, _entry(entry_id, text, about, created), min(max(score, 0.0), 1.0)


def find_newest(connection: "Connection", oldest: int) -> Iterator[tuple[bytes, Entry]]:
    """Yield all entries, the newest first. It has to be read in a transaction."""
    query = """SELECT id, text, about, created FROM memories WHERE created >= %s
        ORDER BY key DESC"""
    with connection.cursor("newest", binary=True) as cursor:
        cursor.itersize = 100
        cursor.execute(query, [oldest])
        for row in cursor:
            entry_id, text, about, created = cast("tuple[str, bytes, bytes, int]", row)
            yield about, _entry(entry_id, text, about, created)


def _entry(entry_id: str, text: bytes, about: bytes, created: int) -> Entry:
    beside = serde.decode(about, About)
    return Entry(
        id=entry_id,
        text=text.decode(),
        origin=beside.origin,
        session_id=beside.session_id,
        turn=beside.turn,
        created_at=datetime.fromtimestamp(created, UTC),
        metadata=beside.metadata,
    )


def _quote(term: str) -> str:
    """Write a term of a question so that no sign of it means anything."""
    doubled = term.replace("\\", "\\\\").replace("'", "''")
    return f"'{doubled}'"
