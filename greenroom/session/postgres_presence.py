"""Whether a store is there: its presence is one lock of a connection, for all that it writes.

PostgreSQL takes the lock away when the connection ends, however it ends. One lock for each session
would exhaust the server's memory at some thousands. Every function blocks.
"""

import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import cast

import psycopg

from greenroom.session.postgres_server import Connection, Server, is_alive, transaction


class Presence:
    """The presence of one store, taken when it first writes, and again whenever it was lost."""

    def __init__(
        self, server: Server, name: Callable[[], str], lock: int, held: Collection[str]
    ) -> None:
        """Set what others are told, the first half of the lock, and the ids of held sessions."""
        self._server = server
        self._name = name
        self._lock = lock
        self._held = held
        self._guard = threading.Lock()
        self._connection: Connection | None = None
        self._id = 0
        self._former: list[int] = []  # presences that sessions may still be held under

    def ensure(self) -> int:
        """Return the number of the presence, renewed if the connection was lost.

        Raises:
            SessionStorageError: the server can't keep sessions.
            psycopg.Error: it can't be reached, or refused.
        """
        with self._guard:
            if self._connection is None or not is_alive(self._connection):
                self._renew()
            return self._id

    def end(self) -> None:
        """End the presence; whatever the store still holds is free when it returns."""
        with self._guard:
            if self._connection is not None and is_alive(self._connection):
                with suppress(psycopg.Error):  # then it is gone already
                    self._connection.execute("SELECT pg_advisory_unlock_all()")
        self.close()

    def close(self) -> None:
        """Close the connection, without a word to the server."""
        with self._guard:
            if self._connection is not None:
                self._connection.close()

    def leave_to_parent(self) -> None:
        """Begin without a presence in a forked child."""
        self._guard = threading.Lock()  # a thread that is not in this process may have had it
        self._connection, self._former = None, []

    def _renew(self) -> None:
        """Take a new presence, and what others have left meanwhile, in one transaction."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
        connection, keep = self._server.connect(), list(self._held)
        try:
            with transaction(connection):
                query = "INSERT INTO holders (name) VALUES (%s) RETURNING id"
                (found,) = connection.execute(query, [self._name()]).fetchall()
                new = cast("int", found[0])
                connection.execute("SELECT pg_advisory_lock(%s, %s)", [self._lock, new])
                if self._former:
                    query = """UPDATE sessions SET holder = %s
                        WHERE holder = ANY(%s) AND session_id = ANY(%s)"""
                    connection.execute(query, [new, self._former, keep])
                self._forget_others(connection, new)
                self._former.append(new)  # a commit that is cut off may have happened
        except BaseException:
            connection.close()
            raise
        self._connection, self._id, self._former = connection, new, [new]

    def _forget_others(self, connection: Connection, own: int) -> None:
        """Remove the names of some holders that are gone: any, since the oldest may all live."""
        query = """DELETE FROM holders WHERE id IN (SELECT id FROM holders
                WHERE id <> %s ORDER BY random() LIMIT 20 FOR UPDATE SKIP LOCKED)
            AND pg_try_advisory_xact_lock_shared(%s, id)"""
        connection.execute(query, [own, self._lock])
