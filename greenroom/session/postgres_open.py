"""The way to a PostgreSQL server for what does not load psycopg before it is needed."""

import re
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from greenroom.core import ConfigurationError

if TYPE_CHECKING:
    from greenroom.session.postgres_server import Server

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def open_server(
    dsn: str | None,
    schema: str,
    connections: int,
    patience: float,
    *,
    about: str = "about",
    steps: Sequence[Sequence[str]] | None = None,
) -> "Server":
    """Return a server whose tables are made or upgraded at its first use; nothing is opened yet.

    Args:
        dsn: a connection string, or None for that of the environment.
        schema: where the tables are.
        connections: how many may work at once.
        patience: seconds to wait for a server that is away.
        about: the table that holds the version of the others.
        steps: the statements from each version to the next; by default those for sessions.

    Raises:
        ConfigurationError: no server is named, the string can't be read, what is sent could be read
            by others on the way, or psycopg is not installed.
        ValueError: the schema has another name, or there are no connections.
    """
    if not _SCHEMA.fullmatch(schema):
        raise ValueError(f"{schema!r} can't name a schema: use small letters, digits and '_'")
    if connections < 1 or patience < 0:
        raise ValueError("it takes at least one connection, and patience of 0 seconds or more")
    try:
        from greenroom.session.postgres_dsn import Address
        from greenroom.session.postgres_server import Server
        from greenroom.session.postgres_tables import SESSION_STEPS, check_tables
    except ImportError as error:
        raise ConfigurationError(
            "PostgreSQL needs psycopg, which is not installed",
            hint="pip install 'greenroom[postgres]'",
        ) from error
    server, lock = Server(Address.read(dsn), schema, connections, patience), lock_of(schema)
    wanted = SESSION_STEPS if steps is None else steps
    server.check_with(lambda connection: check_tables(connection, server, lock, about, wanted))
    return server


def lock_of(schema: str) -> int:
    """Return one half of each lock of a schema: those of others, and of programs, have another."""
    return zlib.crc32(f"greenroom {schema}".encode()) - (1 << 31)
