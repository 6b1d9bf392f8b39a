"""What was sent to agents on hosts, and what came of it: statements. Every function blocks.

An input is stored before its sender has a receipt. The host of the newest epoch takes one at a
time, and marks it as done when its turn has ended and is saved, with the result. So whatever dies,
an input that is not done is taken again; whether its turn had begun, the conversation says.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from greenroom.core import ContentBlock
from greenroom.core._internal import serde
from greenroom.distributed.directory import Place
from greenroom.session._internal import Connection, transaction

MOST_WAITING = 1_000
"""How many inputs of an agent may wait."""

KEPT = 7 * 86_400.0
"""Seconds for which an input and its result are kept once it is answered, or set aside."""

_MOST_FORGOTTEN = 10_000  # inputs in one statement
LONGEST = 16 << 20
"""Bytes of what an input says."""

Stored = Literal["new", "same", "other", "full", "ended", "unknown"]
"""What became of an input: taken, known already, known with other content, or refused."""


@dataclass(frozen=True)
class Letter:
    """What an input says, as it is stored."""

    content: str | tuple[ContentBlock, ...]
    sender: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Taken:
    """An input that a host has taken.

    Attributes:
        number: its place in the mailbox.
        input_id: its id.
        body: what it says, as it is stored.
        ends: how often a host has ended while it had it.
        word: what a person said about going on with its turn: "allow", "deny" or None.
    """

    number: int
    input_id: str
    body: bytes
    ends: int
    word: str | None

    def read(self) -> Letter:
        """Return what it says.

        Raises:
            InvalidJSONError: this version can't read it.
        """
        return serde.decode(self.body, Letter)


# Locked, so that nothing is stored for an agent that ends at the same moment.
_STORE: Final = """INSERT INTO inputs (session_id, input_id, digest, body)
    SELECT session_id, %(input)s, %(digest)s, %(body)s FROM agents
    WHERE session_id = %(id)s AND state = 'live' AND (SELECT count(*) FROM inputs
        WHERE session_id = %(id)s AND status = 'waiting') < %(most)s
    FOR SHARE
    ON CONFLICT (session_id, input_id) DO NOTHING"""


def store_input(connection: Connection, session_id: str, input_id: str, body: bytes) -> Stored:
    """Store an input; the same again changes nothing, so it may be repeated."""
    digest = hashlib.sha256(body).digest()
    values = {
        "id": session_id,
        "input": input_id,
        "digest": digest,
        "body": body,
        "most": MOST_WAITING,
    }
    if connection.execute(_STORE, values).rowcount:
        return "new"
    query = "SELECT digest FROM inputs WHERE session_id = %(id)s AND input_id = %(input)s"
    if found := connection.execute(query, values, binary=True).fetchone():
        return "same" if found[0] == digest else "other"
    query = "SELECT state FROM agents WHERE session_id = %(id)s"
    found = connection.execute(query, values).fetchone()
    if found is None:
        return "unknown"
    return "ended" if found[0] == "ended" else "full"


_OWN: Final = """SELECT 1 FROM agents
    WHERE session_id = %(id)s AND host = %(host)s AND epoch = %(epoch)s FOR SHARE"""


def _values(place: Place) -> dict[str, object]:
    return {"id": place.session_id, "host": place.host, "epoch": place.epoch}


def take_input(connection: Connection, place: Place) -> Taken | Literal["lost"] | None:
    """Take the oldest input that waits; None if there is none, "lost" if the agent is elsewhere."""
    values = _values(place)
    with transaction(connection):
        if connection.execute(_OWN, values).fetchone() is None:
            return "lost"
        query = """UPDATE inputs SET epoch = %(epoch)s WHERE number = (
                SELECT number FROM inputs WHERE session_id = %(id)s AND status = 'waiting'
                ORDER BY number LIMIT 1) AND status = 'waiting'
            RETURNING number, input_id, body, ends, word"""
        row = connection.execute(query, values).fetchone()
    if row is None:
        return None
    return Taken(*cast("tuple[int, str, bytes, int, str | None]", row))


def finish_input(connection: Connection, place: Place, number: int, result: bytes) -> bool:
    """Mark an input as done, with its result; False if the agent is elsewhere now."""
    return _close(connection, place, number, "done", result)


def withdraw_input(connection: Connection, session_id: str, input_id: str, result: bytes) -> bool:
    """Give an input this result that no host has taken yet; False if one has, or it is done."""
    query = """UPDATE inputs SET status = 'done', result = %s, changed = now()
        WHERE session_id = %s AND input_id = %s AND status = 'waiting'
            AND epoch IS NULL AND NOT asked"""
    return connection.execute(query, [result, session_id, input_id]).rowcount == 1


def set_aside(connection: Connection, place: Place, number: int, result: bytes) -> bool:
    """Set an input aside that no turn shall begin with again; False if the agent is elsewhere."""
    return _close(connection, place, number, "aside", result)


def _close(connection: Connection, place: Place, number: int, status: str, result: bytes) -> bool:
    values = {**_values(place), "number": number}
    with transaction(connection):
        if connection.execute(_OWN, values).fetchone() is None:
            return False
        query = """UPDATE inputs SET status = %(status)s, result = %(result)s, asked = false,
                changed = now()
            WHERE number = %(number)s AND status = 'waiting'"""
        connection.execute(query, {**values, "status": status, "result": result})
    return True


def ask_about(connection: Connection, place: Place, number: int) -> bool:
    """Note that a person has to say whether a turn goes on; False if the agent is elsewhere."""
    values = {**_values(place), "number": number}
    with transaction(connection):
        if connection.execute(_OWN, values).fetchone() is None:
            return False
        connection.execute("UPDATE inputs SET asked = true WHERE number = %(number)s", values)
    return True


def count_end(connection: Connection, place: Place) -> None:
    """Note that a host could not read what it has taken, which counts as its end."""
    query = """UPDATE inputs SET ends = ends + 1 FROM agents
        WHERE agents.session_id = %(id)s AND agents.host = %(host)s AND agents.epoch = %(epoch)s
            AND inputs.session_id = %(id)s AND inputs.epoch = %(epoch)s AND status = 'waiting'"""
    connection.execute(query, _values(place))


def forget_inputs(connection: Connection) -> None:
    """Remove inputs and publications that ended, or were made, longer ago than they are kept."""
    query = """DELETE FROM inputs WHERE number IN (SELECT number FROM inputs
        WHERE status <> 'waiting' AND changed < now() - make_interval(secs => %s)
        ORDER BY changed LIMIT %s FOR UPDATE SKIP LOCKED)"""
    connection.execute(query, [KEPT, _MOST_FORGOTTEN])
    query = """DELETE FROM publications WHERE (topic, token) IN (
        SELECT topic, token FROM publications WHERE changed < now() - make_interval(secs => %s)
        ORDER BY changed LIMIT %s FOR UPDATE SKIP LOCKED)"""
    connection.execute(query, [KEPT, _MOST_FORGOTTEN])


def give_word(connection: Connection, session_id: str, input_id: str, word: str) -> bool:
    """Note what a person said about a turn; the first word counts, and is taken like an input."""
    query = """UPDATE inputs SET word = %s, epoch = NULL
        WHERE session_id = %s AND input_id = %s AND status = 'waiting' AND asked AND word IS NULL"""
    return connection.execute(query, [word, session_id, input_id]).rowcount == 1


@dataclass(frozen=True)
class Answered:
    """What is on record of an input: "waiting", "done" or "aside", and the result as JSON."""

    status: str
    result: bytes | None


def read_answer(connection: Connection, session_id: str, input_id: str) -> Answered | None:
    """Return what came of an input, or None if it was never stored."""
    query = "SELECT status, result FROM inputs WHERE session_id = %s AND input_id = %s"
    row = connection.execute(query, [session_id, input_id]).fetchone()
    return None if row is None else Answered(*cast("tuple[str, bytes | None]", row))


def read_aside(connection: Connection, limit: int) -> tuple[tuple[str, str], ...]:
    """Return session and id of inputs that were set aside, the newest first."""
    query = """SELECT session_id, input_id FROM inputs WHERE status = 'aside'
        ORDER BY number DESC LIMIT %s"""
    rows = connection.execute(query, [limit]).fetchall()
    return tuple((str(session), str(input_id)) for session, input_id in rows)
