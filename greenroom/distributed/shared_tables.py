"""Topics and blackboards of a cluster: statements. Every function blocks.

The row of a topic is locked while something is published, so all members have publications in one
order; they come as inputs, which are stored in the same transaction. A publication and a write bear
a token, by which one that is repeated, since its outcome was not known, is found to be done.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from greenroom.core._internal import serde
from greenroom.distributed.mailbox import MOST_WAITING
from greenroom.flow import StaleWriteError
from greenroom.flow._internal import BlackboardFullError
from greenroom.session._internal import Connection, transaction


@dataclass(frozen=True)
class Publication:
    """Something that is published.

    Attributes:
        topic: the topic.
        token: its id, the same for each attempt.
        digest: the hash of what it says.
        author: the session of the agent that publishes it, which does not get it; or None.
        to: the only session, or type of agents, that gets it; empty for all.
    """

    topic: str
    token: str
    digest: bytes
    author: str | None
    to: str


@dataclass(frozen=True)
class Published:
    """What became of a publication: its number, who has it, and why others have not."""

    number: int
    delivered: tuple[str, ...]
    missed: dict[str, str]


def join_topic(connection: Connection, topic: str, session_id: str) -> None:
    """Make an agent a member."""
    connection.execute("INSERT INTO topics (name) VALUES (%s) ON CONFLICT DO NOTHING", [topic])
    query = "INSERT INTO topic_members (topic, session_id) VALUES (%s, %s) ON CONFLICT DO NOTHING"
    connection.execute(query, [topic, session_id])


def leave_topic(connection: Connection, topic: str, session_id: str) -> bool:
    """Remove a member; whether it was one."""
    query = "DELETE FROM topic_members WHERE topic = %s AND session_id = %s"
    return connection.execute(query, [topic, session_id]).rowcount == 1


def read_members(connection: Connection, topic: str) -> tuple[str, ...]:
    """Return the members, by the ids of their sessions."""
    query = "SELECT session_id FROM topic_members WHERE topic = %s ORDER BY session_id"
    return tuple(str(each[0]) for each in connection.execute(query, [topic]).fetchall())


def publish(
    connection: Connection, publication: Publication, bodies: Sequence[bytes]
) -> Published | None:
    """Store a publication for all members; None if its id names another one.

    Args:
        connection: the connection.
        publication: what is published.
        bodies: what the members get, around the number, which is known only then.
    """
    connection.execute(
        "INSERT INTO topics (name) VALUES (%s) ON CONFLICT DO NOTHING", [publication.topic]
    )
    with transaction(connection):
        query = "UPDATE topics SET last = last WHERE name = %s RETURNING last"
        ((last,),) = cast(
            "list[tuple[int]]", connection.execute(query, [publication.topic]).fetchall()
        )
        query = "SELECT digest, published FROM publications WHERE topic = %s AND token = %s"
        values = [publication.topic, publication.token]
        if found := connection.execute(query, values, binary=True).fetchone():
            digest, known = cast("tuple[bytes, bytes]", found)
            return serde.decode(known, Published) if digest == publication.digest else None
        published = _find_members(connection, publication, last + 1)
        _store(connection, publication, published, str(published.number).encode().join(bodies))
    return published


def _find_members(connection: Connection, publication: Publication, number: int) -> Published:
    # Locked, so that nothing is stored for an agent that ends at the same moment.
    query = """SELECT session_id, agents.state, agents.type, (SELECT count(*) FROM inputs
            WHERE inputs.session_id = agents.session_id AND status = 'waiting')
        FROM agents JOIN topic_members USING (session_id) WHERE topic = %s
        ORDER BY session_id FOR SHARE OF agents"""
    rows = cast(
        "list[tuple[str, str, str, int]]",
        connection.execute(query, [publication.topic]).fetchall(),
    )
    delivered, missed = list[str](), dict[str, str]()
    for session_id, state, kind, waiting in rows:
        if session_id == publication.author or publication.to not in ("", session_id, kind):
            continue
        if state != "live":
            missed[session_id] = "ended"
        elif waiting >= MOST_WAITING:
            missed[session_id] = "full"
        else:
            delivered.append(session_id)
    return Published(number, tuple(delivered), missed)


def _store(
    connection: Connection, publication: Publication, published: Published, body: bytes
) -> None:
    topic, number = publication.topic, published.number
    query = """INSERT INTO inputs (session_id, input_id, digest, body)
        SELECT unnest(%s::text[]), %s, %s, %s ON CONFLICT DO NOTHING"""
    values = [list(published.delivered), f"{topic}:{number}", publication.digest, body]
    connection.execute(query, values)
    ended = [each for each, why in published.missed.items() if why == "ended"]
    query = "DELETE FROM topic_members WHERE topic = %s AND session_id = ANY(%s)"
    connection.execute(query, [topic, ended])
    query = """INSERT INTO publications (topic, token, digest, published)
        VALUES (%s, %s, %s, %s)"""
    values = [topic, publication.token, publication.digest, serde.encode(published)]
    connection.execute(query, values)
    connection.execute("UPDATE topics SET last = %s WHERE name = %s", [number, topic])


# ---------------------------------------------------------------------------------- blackboards

MOST_KEYS = 1_000
"""How many keys a blackboard has at most."""


@dataclass(frozen=True)
class Value:
    """A value on a blackboard, with its key, its version, its author and when it was written."""

    key: str
    version: int
    value: bytes
    author: str
    at: object


def write_value(connection: Connection, board: str, value: Value, token: str) -> tuple[int, object]:
    """Write a value over its version; return its new version, and when it was written.

    Raises:
        StaleWriteError: the key has another version.
        BlackboardFullError: the key is new, and the board has too many.
    """
    values = {
        "board": board,
        "key": value.key,
        "version": value.version,
        "value": value.value,
        "author": value.author,
        "token": token,
        "most": MOST_KEYS,
    }
    if value.version:
        query = """UPDATE boards SET version = version + 1, value = %(value)s,
                author = %(author)s, token = %(token)s, at = date_trunc('second', now())
            WHERE board = %(board)s AND key = %(key)s AND version = %(version)s
            RETURNING version, at"""
    else:
        query = """INSERT INTO boards (board, key, version, value, author, token)
            SELECT %(board)s, %(key)s, 1, %(value)s, %(author)s, %(token)s
            WHERE (SELECT count(*) FROM boards WHERE board = %(board)s) < %(most)s
            ON CONFLICT DO NOTHING RETURNING version, at"""
    row = connection.execute(query, values).fetchone()
    if row is None:
        query = """SELECT version, at, token FROM boards
            WHERE board = %(board)s AND key = %(key)s"""
        found = connection.execute(query, values).fetchone()
        if found is None and not value.version:
            raise BlackboardFullError(
                f"the blackboard is full: it has {MOST_KEYS:,} keys, and {value.key!r} is new"
            )
        if found is None or found[2] != token:  # else an attempt before has written it
            raise _stale(value, 0 if found is None else cast("int", found[0]))
        row = found[:2]
    return cast("tuple[int, object]", row)


def _stale(value: Value, now: int) -> StaleWriteError:
    return StaleWriteError(
        f"{value.key!r} was written over version {value.version}, but has version {now}",
        key=value.key,
        version=now,
    )


def read_values(connection: Connection, board: str, key: str | None) -> tuple[Value, ...]:
    """Return the values of a blackboard by their keys, or that of one."""
    query = """SELECT key, version, value, author, at FROM boards
        WHERE board = %s AND (%s::text IS NULL OR key = %s) ORDER BY key"""
    rows = connection.execute(query, [board, key, key]).fetchall()
    return tuple(Value(*row) for row in rows)  # type: ignore[arg-type]  # the table's types
