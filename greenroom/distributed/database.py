"""The database of a cluster, as its parts use it."""

from collections.abc import Callable
from typing import TypeVar

from greenroom.distributed import places
from greenroom.session import PostgresStore
from greenroom.session._internal import Connection, lock_of, open_server

T = TypeVar("T")

_CONNECTIONS = 4


class Database:
    """The tables of a cluster; and stores of its sessions, in the same schema."""

    def __init__(self, dsn: str | None, schema: str, patience: float) -> None:
        """Set where it is; nothing is opened yet.

        Raises:
            ConfigurationError: as `PostgresStore`.
            ValueError: as `PostgresStore`.
        """
        self._server = open_server(
            dsn, schema, _CONNECTIONS, patience, about=places.ABOUT, steps=places.STEPS
        )
        self._dsn, self.schema = dsn, schema
        self.rules = places.Rules(lock_of(schema), patience)
        """What decides whether a host is there."""
        self.close = self._server.close
        """Closes the connections that are idle."""

    def __repr__(self) -> str:
        return f"{str(self._server.address)!r}, schema={self.schema!r}"

    def make_store(self) -> PostgresStore:
        """Return a store of the sessions, with a presence of its own."""
        return PostgresStore(self._dsn, schema=self.schema, patience=self.rules.patience)

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Do blocking work on a connection, and again while the database is away.

        Raises:
            SessionStorageError: the database refused, or was away for longer than patience lasts.
        """
        return await self._server.run("", work)

    async def aclose(self) -> None:
        """Close the connections; the next use opens others."""
        await self._server.in_thread(self.close)
