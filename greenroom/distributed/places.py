"""Which hosts there are, and which agent runs where: tables and statements. Every function blocks.

A host is there as long as its store is present (see `greenroom.session`): the number of that
presence stands in its row, and is the half of a lock that PostgreSQL takes away with the
connection. An agent belongs to the host in its row, in the `epoch` of it: each move begins a new
one, and whatever an earlier host says of the agent is refused. Statements that change both lock the
host's row first, so none waits for another in a circle.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, LiteralString, cast

from greenroom.core import SessionError, SessionLockedError
from greenroom.core._internal import serde
from greenroom.distributed.agent_types import AgentSpec, HostInfo, NoHostError
from greenroom.session._internal import Connection, free_sessions, transaction

ABOUT: Final = "cluster_about"
"""The table that holds the version of the others."""

STEPS: Final[tuple[tuple[LiteralString, ...], ...]] = (
    (
        "CREATE TABLE cluster_about (version integer NOT NULL)",
        "INSERT INTO cluster_about VALUES (0)",
        """CREATE TABLE hosts (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            name text NOT NULL,
            holder integer NOT NULL,
            state text NOT NULL,
            types text[] NOT NULL,
            capabilities text[] NOT NULL,
            agents integer NOT NULL DEFAULT 0,
            max_agents integer NOT NULL,
            pid integer NOT NULL,
            address text NOT NULL,
            grace double precision NOT NULL DEFAULT 0,
            seen timestamptz NOT NULL DEFAULT clock_timestamp()
        )""",
        """CREATE TABLE agents (
            session_id text COLLATE "C" PRIMARY KEY,
            token text NOT NULL,
            parent text,
            type text NOT NULL,
            capabilities text[] NOT NULL,
            spec bytea NOT NULL,
            host bigint,
            epoch bigint NOT NULL,
            state text NOT NULL,
            outcome bytea
        )""",
        "CREATE INDEX agents_by_host ON agents (host) WHERE state = 'live'",
        """CREATE TABLE inputs (
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            session_id text COLLATE "C" NOT NULL,
            input_id text COLLATE "C" NOT NULL,
            digest bytea NOT NULL,
            body bytea NOT NULL,
            status text NOT NULL DEFAULT 'waiting',
            epoch bigint,
            ends integer NOT NULL DEFAULT 0,
            asked boolean NOT NULL DEFAULT false,
            word text,
            result bytea,
            UNIQUE (session_id, input_id)
        )""",
        "CREATE INDEX inputs_waiting ON inputs (session_id, number) WHERE status = 'waiting'",
    ),
    (
        "ALTER TABLE cluster_about ADD COLUMN secret text",
        # Of strong random numbers.
        """UPDATE cluster_about
            SET secret = gen_random_uuid()::text || gen_random_uuid()::text""",
    ),
    (
        # Of its end, once it has one; before, of its beginning.
        "ALTER TABLE inputs ADD COLUMN changed timestamptz NOT NULL DEFAULT now()",
        "CREATE INDEX inputs_ended ON inputs (changed) WHERE status <> 'waiting'",
        "CREATE INDEX inputs_aside ON inputs (number) WHERE status = 'aside'",
    ),
    (
        """CREATE TABLE topics (
            name text COLLATE "C" PRIMARY KEY, last bigint NOT NULL DEFAULT 0)""",
        """CREATE TABLE topic_members (
            topic text COLLATE "C",
            session_id text COLLATE "C",
            PRIMARY KEY (topic, session_id)
        )""",
        """CREATE TABLE publications (
            topic text COLLATE "C",
            token text COLLATE "C",
            digest bytea NOT NULL,
            published bytea NOT NULL,
            changed timestamptz NOT NULL DEFAULT now(),
            PRIMARY KEY (topic, token)
        )""",
        "CREATE INDEX publications_changed ON publications (changed)",
        """CREATE TABLE boards (
            board text COLLATE "C",
            key text COLLATE "C",
            version bigint NOT NULL,
            value bytea NOT NULL,
            author text NOT NULL,
            token text NOT NULL,
            at timestamptz NOT NULL DEFAULT date_trunc('second', now()),
            PRIMARY KEY (board, key)
        )""",
    ),
)
"""From each version of the tables to the next. Never change a step."""

_MOST_TAKEN = 200  # agents of hosts that are gone, in one look


@dataclass(frozen=True)
class Rules:
    """What decides whether a host is there.

    Attributes:
        lock: the half of a presence's lock that stands for the schema.
        patience: seconds after which a host that has not looked counts as gone.
    """

    lock: int
    patience: float


@dataclass(frozen=True)
class Joining:
    """What a host says of itself."""

    name: str
    holder: int
    types: tuple[str, ...]
    capabilities: tuple[str, ...]
    max_agents: int
    pid: int
    address: str


@dataclass(frozen=True)
class Look:
    """What a host finds when it looks.

    Attributes:
        state: its own state.
        grace: seconds that its agents have to end, if it is draining.
        agents: the epoch of each agent that is its own.
        waiting: the sessions whose next input it has not taken yet.
        others: hosts that may take what it has left of agents whose host it has found to be gone.
    """

    state: str
    grace: float
    agents: dict[str, int]
    waiting: tuple[str, ...]
    others: "tuple[Target, ...]" = ()


@dataclass(frozen=True)
class Target:
    """A host to which requests go: under another number there is another host, or another life."""

    host: int
    address: str


# ------------------------------------------------------------------------------------ placement

_IS_THERE: Final = """state = 'live' AND seen > clock_timestamp() - make_interval(secs => %(late)s)
    AND NOT pg_try_advisory_xact_lock_shared(%(lock)s, holder)"""

# One statement, so that the host's row is locked for no longer than it takes: others wait for it.
_PLACE: Final = f"""WITH known AS (
        SELECT token, state, host FROM agents WHERE session_id = %(id)s FOR UPDATE),
    picked AS (
        SELECT id FROM hosts WHERE agents < max_agents AND %(type)s = ANY(types)
            AND capabilities @> %(capabilities)s::text[] AND {_IS_THERE}
            AND NOT EXISTS (SELECT 1 FROM known WHERE state = 'live')
        ORDER BY agents, id LIMIT 1 FOR UPDATE SKIP LOCKED),
    added AS (
        INSERT INTO agents AS old
            (session_id, token, parent, type, capabilities, spec, host, epoch, state)
        SELECT %(id)s, %(token)s, %(parent)s, %(type)s, %(capabilities)s, %(spec)s, id, 1, 'live'
            FROM picked
        ON CONFLICT (session_id) DO UPDATE SET token = excluded.token, parent = excluded.parent,
            type = excluded.type, capabilities = excluded.capabilities, spec = excluded.spec,
            host = excluded.host, epoch = old.epoch + 1, state = 'live', outcome = NULL
        WHERE old.state = 'ended' RETURNING host),
    counted AS (
        UPDATE hosts SET agents = agents + 1 FROM added WHERE id = added.host
        RETURNING id, address)
    SELECT (SELECT token FROM known), (SELECT state FROM known), (SELECT host FROM known),
        (SELECT count(*) FROM picked), (SELECT id FROM counted), (SELECT address FROM counted)
    """  # noqa: S608 -- it is ours

_PLACES: Final = (_PLACE.encode(), *2 * (_PLACE.replace("SKIP LOCKED", "").encode(),))
"""Attempts to place an agent: another placement may hold the only host that fits for long."""


def place_agent(
    connection: Connection,
    rules: Rules,
    session_id: str,
    parent: str | None,
    spec: AgentSpec,
    token: str,
) -> Target | None:
    """Put an agent on the least loaded host that can run it; the token makes it safe to repeat.

    Returns:
        The host; None if an attempt before did it.

    Raises:
        NoHostError: there is none.
        SessionLockedError: an agent of this session runs already.
    """
    values: dict[str, object] = {
        "id": session_id,
        "token": token,
        "parent": parent,
        "type": spec.type,
        "capabilities": list(spec.capabilities),
        "spec": serde.encode(spec),
        "lock": rules.lock,
        "late": rules.patience,
    }
    for query in _PLACES:
        row = connection.execute(query, values).fetchone()
        known, state, host, picked, number, address = cast(
            "tuple[str | None, str | None, int | None, int, int | None, str]", row
        )
        if known == token and state == "live":
            return None
        if state == "live":
            raise _in_use(session_id, host)
        if number is not None:
            return Target(number, address)
        if picked:
            raise _in_use(session_id, None)  # another program was faster
    raise _no_host(connection, rules, spec)


def _in_use(session_id: str, host: object) -> SessionLockedError:
    return SessionLockedError(
        f"an agent of the session {session_id!r} runs already",
        session_id=session_id,
        holder="" if host is None else f"host {host}",
        hint="`Cluster.get` finds it",
    )


def _no_host(connection: Connection, rules: Rules, spec: AgentSpec) -> NoHostError:
    """Say which of type, capabilities and room is missing."""
    hosts = [each for each in read_hosts(connection, rules) if each.state == "live"]
    with_type = [each for each in hosts if spec.type in each.types]
    wanted = set(spec.capabilities)
    fitting = [each for each in with_type if wanted <= set(each.capabilities)]
    if not with_type:
        known = ", ".join(sorted({name for each in hosts for name in each.types})) or "none"
        return NoHostError(
            f"no host runs agents of the type {spec.type!r}; types that hosts run: {known}",
            missing="type",
        )
    if not fitting:
        lacking = ", ".join(sorted(wanted.difference(*(each.capabilities for each in with_type))))
        lacking = lacking or f"{', '.join(sorted(wanted))} together"
        return NoHostError(
            f"no host with agents of the type {spec.type!r} offers {lacking}",
            missing="capabilities",
        )
    return NoHostError(
        f"the {len(fitting)} hosts that could run an agent of the type {spec.type!r} are full",
        missing="room",
        hint="start another host, or one with a higher max_agents",
    )


# ---------------------------------------------------------------------------------------- hosts

_HOSTS: Final = f"""SELECT id, name, CASE WHEN {_IS_THERE} THEN 'live' ELSE state END,
        capabilities, types, agents, max_agents, pid, address,
        pg_try_advisory_xact_lock_shared(%(lock)s, holder)
    FROM hosts WHERE state <> 'gone' ORDER BY id"""  # noqa: S608 -- it is ours


def read_hosts(connection: Connection, rules: Rules) -> tuple[HostInfo, ...]:
    """Return the hosts that are there, by their numbers."""
    rows = connection.execute(
        _HOSTS.encode(), {"lock": rules.lock, "late": rules.patience}
    ).fetchall()
    return tuple(
        serde.convert(dict(zip(HostInfo.__dataclass_fields__, row[:-1], strict=True)), HostInfo)
        for row in rows
        if not row[-1]
    )


def join_hosts(connection: Connection, host: Joining) -> int:
    """Add a host, unless an attempt before did; return its number."""
    connection.execute("DELETE FROM hosts WHERE state = 'gone' AND seen < now() - interval '1 day'")
    query = "SELECT id FROM hosts WHERE holder = %s AND state <> 'gone'"
    found = connection.execute(query, [host.holder]).fetchone()
    if found is None:
        query = """INSERT INTO hosts
            (name, holder, state, types, capabilities, max_agents, pid, address)
            VALUES (%s, %s, 'live', %s, %s, %s, %s, %s) RETURNING id"""
        values = [host.name, host.holder, list(host.types), list(host.capabilities)]
        found = connection.execute(
            query, [*values, host.max_agents, host.pid, host.address]
        ).fetchone()
    assert found is not None
    return cast("int", found[0])


def read_secret(connection: Connection) -> str:
    """Return the secret that the database keeps for hosts on one machine."""
    found = connection.execute("SELECT secret FROM cluster_about").fetchone()
    assert found is not None
    return str(found[0])


def drain_host(connection: Connection, host: int, grace: float) -> bool:
    """Let a host take no more agents, and give away those that it has; whether it is there."""
    query = """UPDATE hosts SET state = 'draining', grace = %s WHERE id = %s AND state <> 'gone'"""
    return connection.execute(query, [grace, host]).rowcount == 1


def leave_hosts(connection: Connection, host: int) -> None:
    """Remove a host that has ended by itself; others take what it still had."""
    with transaction(connection):
        query = "UPDATE hosts SET state = 'gone', agents = 0 WHERE id = %s"
        connection.execute(query, [host])
        query = "UPDATE agents SET host = NULL WHERE host = %s AND state = 'live'"
        connection.execute(query, [host])


def look(
    connection: Connection,
    rules: Rules,
    host: int,
    holder: int,
    *,
    sweeps: bool,
    takes: bool,
    leaves: Sequence[str] = (),
) -> Look | None:
    """Say that a host is there, and find what it has to do; None if others count it as gone.

    Args:
        connection: the connection.
        rules: what decides whether a host is there.
        host: its number.
        holder: the number of its store's presence now.
        sweeps: whether it looks for hosts that are gone.
        takes: whether it takes agents that no host has.
        leaves: the agents that it does not take now.

    Raises:
        SessionError: the tables are of a newer version.
    """
    with transaction(connection):
        query = """UPDATE hosts SET seen = clock_timestamp(), holder = %s
            WHERE id = %s AND state <> 'gone'
            RETURNING state, grace, types, capabilities, max_agents - agents,
                (SELECT version FROM cluster_about)"""
        found = connection.execute(query, [holder, host]).fetchone()
        if found is None:
            return None
        state, grace, types, capabilities, room, version = cast(
            "tuple[str, float, list[str], list[str], int, int]", found
        )
        if version > len(STEPS):  # they were upgraded since this host has connected
            raise SessionError(
                f"the tables of hosts are of version {version}; this version of Greenroom knows up "
                f"to {len(STEPS)}",
                hint="upgrade greenroom; hosts of the newer version take the agents over",
            )
        has_swept = sweeps and _sweep(connection, rules, host)
        if takes and state == "live":
            _take_agents(connection, rules, host, types, capabilities, room, leaves)
        others = _list_others(connection, rules, host) if has_swept else ()
        query = "SELECT session_id, epoch FROM agents WHERE host = %s AND state = 'live'"
        agents = cast("list[tuple[str, int]]", connection.execute(query, [host]).fetchall())
        query = """SELECT session_id FROM agents, LATERAL (SELECT epoch FROM inputs
                WHERE inputs.session_id = agents.session_id AND status = 'waiting'
                ORDER BY number LIMIT 1) AS next
            WHERE host = %s AND state = 'live' AND next.epoch IS DISTINCT FROM agents.epoch"""
        waiting = connection.execute(query, [host]).fetchall()
    return Look(state, grace, dict(agents), tuple(str(each[0]) for each in waiting), others)


def _sweep(connection: Connection, rules: Rules, own: int) -> bool:
    """Count hosts as gone that are not there, if any: their writes are refused from now on."""
    query = """UPDATE hosts SET state = 'gone', agents = 0 WHERE id IN (
            SELECT id FROM hosts WHERE state <> 'gone' AND id <> %s
                AND (seen < clock_timestamp() - make_interval(secs => %s)
                    OR pg_try_advisory_xact_lock_shared(%s, holder))
            FOR UPDATE SKIP LOCKED)
        RETURNING id, holder"""
    values = [own, rules.patience, rules.lock]
    dead = cast("list[tuple[int, int]]", connection.execute(query, values).fetchall())
    for host, holder in dead:
        free_sessions(connection, holder)
        # The agents' rows first, as everybody locks them.
        query = """WITH moved AS (UPDATE agents SET host = NULL
                WHERE host = %s AND state = 'live' RETURNING session_id, epoch)
            UPDATE inputs SET ends = ends + 1 FROM moved
            WHERE moved.session_id = inputs.session_id AND inputs.epoch = moved.epoch
                AND status = 'waiting' AND NOT (asked AND word IS NULL)"""
        connection.execute(query, [host])
    return bool(dead)


def _list_others(connection: Connection, rules: Rules, own: int) -> tuple[Target, ...]:
    """List the other hosts, if agents wait for one."""
    query = "SELECT 1 FROM agents WHERE host IS NULL AND state = 'live' LIMIT 1"
    if connection.execute(query).fetchone() is None:
        return ()
    hosts = read_hosts(connection, rules)
    return tuple(Target(each.id, each.address) for each in hosts if each.id != own)


def _take_agents(
    connection: Connection,
    rules: Rules,
    host: int,
    types: Sequence[str],
    capabilities: Sequence[str],
    room: int,
    leaves: Sequence[str],
) -> None:
    """Take a fair part of the agents that have no host, as far as there is room."""
    values = {"host": host, "types": types, "capabilities": capabilities, "leaves": list(leaves)}
    fitting: Final = """host IS NULL AND state = 'live' AND type = ANY(%(types)s)
        AND capabilities <@ %(capabilities)s::text[] AND session_id <> ALL(%(leaves)s::text[])"""
    query = f"SELECT count(*) FROM agents WHERE {fitting}"  # noqa: S608 -- it is ours
    ((homeless,),) = cast("list[tuple[int]]", connection.execute(query.encode(), values).fetchall())
    if not homeless or room <= 0:
        return
    # As many as all would have, so that nobody waits for a second look; but a fair part at least,
    # since hosts that have fewer may not be able to run these.
    loads = {each.id: each.agents for each in read_hosts(connection, rules) if each.state == "live"}
    hosts = max(len(loads), 1)
    level = math.ceil((homeless + sum(loads.values())) / hosts)
    share = max(level - loads.get(host, level), math.ceil(homeless / hosts))
    query = f"""UPDATE agents SET host = %(host)s, epoch = epoch + 1 WHERE session_id IN (
        SELECT session_id FROM agents WHERE {fitting} LIMIT %(most)s
        FOR UPDATE SKIP LOCKED)"""  # noqa: S608 -- it is ours
    most = min(share, room, _MOST_TAKEN)
    taken = connection.execute(query.encode(), {**values, "most": most}).rowcount
    query = "UPDATE hosts SET agents = agents + %s WHERE id = %s"
    connection.execute(query.encode(), [taken, host])
