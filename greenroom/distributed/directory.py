"""Where each agent is, and how it ended: statements. Every function blocks.

An agent belongs to the host in its row, in the `epoch` of it: whatever an earlier host says of it
is refused. See `places` for the tables.
"""

from dataclasses import dataclass
from typing import Final, LiteralString

from greenroom.core._internal import serde
from greenroom.distributed.agent_types import AgentSpec
from greenroom.distributed.places import Target
from greenroom.session._internal import Connection, transaction


@dataclass(frozen=True)
class Place:
    """Where an agent is: what a host says who has it."""

    host: int
    session_id: str
    epoch: int


@dataclass(frozen=True)
class Placed:
    """An agent as the directory has it.

    Attributes:
        session_id: its session.
        type: the name of its type.
        spec: what it is like, as it is stored: a newer version may have written it.
        parent: the session that started it, or None.
        host: its host's number; None while it waits for one.
        epoch: how often it was placed.
        state: "live" or "ended".
        outcome: how it ended, as JSON.
        address: where its host answers; empty if it has none, or that does not.
        host_name: what its host is called; empty if it has none.
        queued: how many inputs wait.
        asked: the input about whose turn, which was cut off, a person is asked; or None.
        in_hand: the input that a host has taken, and whose turn has not ended; or None.
    """

    session_id: str
    type: str
    spec: bytes
    parent: str | None
    host: int | None
    epoch: int
    state: str
    outcome: bytes | None
    address: str
    host_name: str
    queued: int
    asked: str | None
    in_hand: str | None

    @property
    def target(self) -> Target | None:
        """Where its host answers; None if it has none, or that does not."""
        return Target(self.host, self.address) if self.host is not None and self.address else None

    def read_spec(self) -> AgentSpec:
        """Return what it is like.

        Raises:
            InvalidJSONError: this version can't read it.
        """
        return serde.decode(self.spec, AgentSpec)


_PLACED: Final = """SELECT session_id, type, spec, parent, host, epoch, agents.state, outcome,
        coalesce(address, ''), coalesce(name, ''),
        (SELECT count(*) FROM inputs
            WHERE inputs.session_id = agents.session_id AND status = 'waiting'),
        (SELECT input_id FROM inputs WHERE inputs.session_id = agents.session_id
            AND status = 'waiting' AND asked AND word IS NULL LIMIT 1),
        (SELECT input_id FROM inputs WHERE inputs.session_id = agents.session_id
            AND status = 'waiting' AND inputs.epoch IS NOT NULL ORDER BY number LIMIT 1)
    FROM agents LEFT JOIN hosts ON hosts.id = host """


def read_agent(connection: Connection, session_id: str) -> Placed | None:
    """Return where an agent is, or None if there never was one."""
    query = _PLACED + "WHERE session_id = %s"
    row = connection.execute(query, [session_id]).fetchone()
    return None if row is None else Placed(*row)  # type: ignore[arg-type]  # the table's types


def read_agents(connection: Connection, after: str, limit: int) -> tuple[Placed, ...]:
    """Return live agents by their ids, those behind this one."""
    query = (
        _PLACED
        + """WHERE agents.state = 'live' AND session_id > %s
        ORDER BY session_id LIMIT %s"""
    )
    rows = connection.execute(query, [after, limit]).fetchall()
    return tuple(Placed(*row) for row in rows)  # type: ignore[arg-type]  # the table's types


def release_agent(connection: Connection, place: Place) -> None:
    """Leave an agent to the other hosts; nothing happens if it is no longer ours."""
    _end_place(connection, place, "host = NULL", [])


def end_agent(connection: Connection, place: Place, outcome: bytes, unread: bytes) -> None:
    """Record that an agent has ended, and answer what it has not taken.

    Args:
        connection: the connection.
        place: the agent's.
        outcome: how it ended, as JSON.
        unread: the result of inputs that it never took, as JSON.
    """
    change: Final = "host = NULL, state = 'ended', outcome = %s"
    _end_place(connection, place, change, [outcome], unread)


def _end_place(
    connection: Connection,
    place: Place,
    change: LiteralString,
    values: list[object],
    unread: bytes | None = None,
) -> None:
    with transaction(connection):
        query = "UPDATE hosts SET agents = greatest(agents - 1, 0) WHERE id = %s"
        connection.execute(query, [place.host])
        query = f"""UPDATE agents SET {change}
            WHERE session_id = %s AND host = %s AND epoch = %s"""  # noqa: S608 -- it is ours
        found = connection.execute(
            query.encode(), [*values, place.session_id, place.host, place.epoch]
        )
        if not found.rowcount:  # it was taken away, and no longer counts there
            query = "UPDATE hosts SET agents = agents + 1 WHERE id = %s"
            connection.execute(query, [place.host])
        elif unread is not None:
            _answer_all(connection, place.session_id, unread)


def end_homeless(connection: Connection, session_id: str, outcome: bytes, unread: bytes) -> bool:
    """Record the end of an agent that no host has; False if one has it, or it has ended."""
    with transaction(connection):
        query = """UPDATE agents SET state = 'ended', outcome = %s
            WHERE session_id = %s AND host IS NULL AND state = 'live'"""
        if not connection.execute(query, [outcome, session_id]).rowcount:
            return False
        _answer_all(connection, session_id, unread)
    return True


def _answer_all(connection: Connection, session_id: str, result: bytes) -> None:
    query = """UPDATE inputs SET status = 'done', result = %s, changed = now()
        WHERE session_id = %s AND status = 'waiting'"""
    connection.execute(query, [result, session_id])
