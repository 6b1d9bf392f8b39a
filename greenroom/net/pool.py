"""The connections of one client: lent in the order of the requests, and kept for the next ones.

A request first takes a place; there are as many places as connections may be open. If none is free
it waits in the queue of a semaphore, which hands each free place to the request that has waited
longest. Joining the queue, leaving it and being served cost the same however many wait.

With its place, a request takes the idle connection of its route that was used last. If there is
none it makes one, and if there are too many then, the one that has been idle longest is closed. At
the end the connection is kept or closed first, and the place given back after that. So the next
request finds the connection, and no more than the limit are in use.
"""

from collections import deque
from importlib import import_module

import msgspec
import trio

from greenroom.core import ConfigurationError
from greenroom.net.connection import Connection, Route
from greenroom.net.direct_connection import DirectConnection
from greenroom.net.tls import tls_context
from greenroom.net.urls import proxy_for

_IDLE_SECONDS = 30.0
"""How long an idle connection is offered to the next request; many servers close it after 60."""


class HttpStatistics(msgspec.Struct, frozen=True):
    """A client at one moment.

    Attributes:
        connections: how many connections may be open at a time.
        busy: the requests that have a place: they connect, wait for an answer or read it.
        idle: the open connections that wait for the next request.
        waiting: the requests that wait for a place.
    """

    connections: int
    busy: int
    idle: int
    waiting: int


class ConnectionPool:
    """At most `limit` connections, those that are idle included."""

    def __init__(self, limit: int) -> None:
        """Open nothing yet.

        Raises:
            ConfigurationError: the limit is not a whole number of at least 1.
        """
        if not isinstance(limit, int) or limit < 1:
            raise ConfigurationError(
                f"connections must be a whole number of at least 1, not {limit!r}",
                hint="leave it out for the default",
            )
        self._limit = limit
        self._places = trio.Semaphore(limit, max_value=limit)
        self._busy: set[Connection] = set()
        self._idle: deque[Connection] = deque()  # the last used one at the right
        self._run: trio.lowlevel.TrioToken | None = None

    async def take(self, route: Route) -> Connection:
        """Wait for a place, however long that takes, and take a connection; then `give_back` it.

        Raises:
            ConfigurationError: the pool is in use in another run of trio, or a setting of the
                environment for proxies or certificates can't be used.
        """
        self._check_run()
        try:
            self._places.acquire_nowait()  # what follows waits for an answer
        except trio.WouldBlock:
            await self._places.acquire()
        connection = None
        try:
            connection = self._take_idle(route) or await _make(route)
            self._busy.add(connection)
            if self._idle:
                await self._close_stale()
        except BaseException:
            await self.give_back(connection)
            raise
        return connection

    async def aclose(self) -> None:
        """Close all connections, even when cancelled; exchanges that are under way break."""
        closing = [*self._idle, *self._busy]
        self._idle.clear()
        self._busy.clear()
        for connection in closing:
            await connection.aclose()

    def statistics(self) -> HttpStatistics:
        """Count connections in use, idle ones, and waiting requests."""
        return HttpStatistics(
            connections=self._limit,
            busy=self._limit - self._places.value,
            idle=len(self._idle),
            waiting=self._places.statistics().tasks_waiting,
        )

    def _check_run(self) -> None:
        """Refuse a second run of trio while another uses the pool: it can't wake its tasks."""
        run = trio.lowlevel.current_trio_token()
        if run is self._run:
            return
        if self._places.value < self._limit:
            if self._run is not None and not _is_over(self._run):
                raise ConfigurationError(
                    "this HTTP client is in use in another run of trio",
                    hint="make a client, or a provider, for each run and each thread",
                )
            # A Ctrl-C may strike anywhere, also between a connection and its way back.
            self._idle.extend(self._busy)
            self._busy.clear()
            self._places = trio.Semaphore(self._limit, max_value=self._limit)
        for connection in self._idle:  # since when they are idle, another clock has said
            connection.idle_since = float("-inf")
        self._run = run

    def _take_idle(self, route: Route) -> Connection | None:
        oldest = trio.current_time() - _IDLE_SECONDS
        for connection in reversed(self._idle):
            if connection.idle_since < oldest:
                break
            if connection.route == route:
                self._idle.remove(connection)
                return connection
        return None

    async def _close_stale(self) -> None:
        """Close connections that were idle too long, or are beyond the limit."""
        oldest = trio.current_time() - _IDLE_SECONDS
        while self._idle and (
            self._idle[0].idle_since < oldest or len(self._idle) + len(self._busy) > self._limit
        ):
            await self._idle.popleft().aclose()

    async def give_back(self, connection: Connection | None) -> None:
        """Free a place, and keep its connection, unless that has ended or the pool was closed."""
        try:
            if connection is None:
                return
            if connection.is_reusable and connection in self._busy:
                connection.idle_since = trio.current_time()
                self._idle.append(connection)
            else:
                await connection.aclose()
        finally:
            if connection is not None:
                self._busy.discard(connection)
            self._places.release()


def _is_over(run: trio.lowlevel.TrioToken) -> bool:
    """Whether a run of trio has ended."""
    try:
        run.run_sync_soon(bool)  # which does nothing
    except trio.RunFinishedError:
        return True
    return False


async def _make(route: Route) -> Connection:
    """Make a connection, through a proxy if the environment names one for this route by now."""
    proxy = proxy_for(route.scheme, route.host)
    if proxy is None and route.address is None and route.host.isascii():
        return DirectConnection(route)
    # The library takes long to load: other tasks go on meanwhile.
    await trio.to_thread.run_sync(import_module, "greenroom.net.httpx_connection")
    from greenroom.net.httpx_connection import HttpxConnection

    return HttpxConnection(route, await tls_context(), proxy)
