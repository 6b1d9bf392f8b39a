"""The HTTP client: each exchange is a block, and connections are kept between exchanges."""

from base64 import b64encode
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol, Self
from urllib.parse import unquote

import trio

from greenroom.core import ConfigurationError, NetworkError
from greenroom.core._internal import cache_short
from greenroom.net.body import ChunkIterator
from greenroom.net.connection import Route, Timeouts
from greenroom.net.pool import ConnectionPool, HttpStatistics
from greenroom.net.urls import split_url

DEFAULT_BODY_LIMIT = 1 << 20
"""The most bytes of a body that `read` returns by default."""


class HttpResponse:
    """The answer to one request, inside the block of `HttpClient.stream`.

    Attributes:
        status: the HTTP status.
        headers: by name, in any case; the values of a repeated header are joined by commas.
        url: the URL that was asked for.
    """

    def __init__(
        self, status: int, headers: Mapping[str, str], url: str, chunks: ChunkIterator
    ) -> None:
        """Only `HttpClient.stream` makes responses."""
        self.status = status
        self.headers = headers
        self.url = url
        self._chunks = chunks

    def __repr__(self) -> str:
        return f"<HttpResponse {self.status}>"

    def chunks(self) -> ChunkIterator:
        """Return the iterator of the decompressed body: one for each response, read once."""
        return self._chunks

    async def read(self, limit: int = DEFAULT_BODY_LIMIT) -> bytes:
        """Return the body, or the first `limit` bytes of it; the rest is never fetched.

        Raises:
            NetworkTimeoutError: no piece came in time.
            NetworkError: the connection broke before the end.
        """
        body = bytearray()
        async for chunk in self._chunks:
            body += chunk
            if len(body) >= limit:
                break
        return bytes(body[:limit])


_DEFAULT_TIMEOUTS = Timeouts()

# Each is an open file, of which macOS allows a process 256 and Linux 1,024 where nothing is set.
_CONNECTIONS = 100


class HttpClient:
    """Speaks HTTP/1.1 to any host, and keeps connections for the next request.

    It opens nothing before the first request, and can be opened again after it has been closed. The
    proxy and TLS variables of the environment apply when a connection is made: `HTTPS_PROXY`,
    `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`, `SSL_CERT_FILE`, `SSL_CERT_DIR`. Redirects are not
    followed, and nothing is retried: the caller decides about that. There is one exception: if a
    server closes a kept connection just when a request is sent on it, without a byte of an answer,
    the request is sent on a new one.

    At most `connections` are open at a time. Further requests wait, first come, first served: as
    long as it takes, without a time-out but the cancel scopes around them, and however many they
    are. A block holds its connection until it is left, so tasks that ask for a second one inside
    the block can, if there are enough of them, wait for each other.

    A client serves one run of trio at a time, and may be made outside of one.

    Args:
        connections: how many connections may be open at a time, to all hosts together, with those
            that are kept for the next request. Each is an open file of the process.

    Example:
        >>> import trio
        >>> async def main():
        ...     async with HttpClient() as client:
        ...         async with client.stream("GET", "http://127.0.0.1:9/") as response:
        ...             return await response.read()
        >>> trio.run(main)
        Traceback (most recent call last):
        greenroom.core.errors.NetworkError: 127.0.0.1: the connection was refused (is the ...
    """

    def __init__(self, *, connections: int = _CONNECTIONS) -> None:
        """Make a client; that costs nothing.

        Raises:
            ConfigurationError: `connections` is not a whole number of at least 1.
        """
        self._pool = ConnectionPool(connections)

    async def __aenter__(self) -> Self:
        """Return the client; connections open as they are needed."""
        return self

    async def __aexit__(self, *_exit: object) -> None:
        """Close all connections."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections, even when cancelled; requests that are under way break."""
        await self._pool.aclose()

    def statistics(self) -> HttpStatistics:
        """Return how many connections are busy and idle, and how many requests wait for one."""
        return self._pool.statistics()

    def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        timeout: Timeouts = _DEFAULT_TIMEOUTS,
        address: str | None = None,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Send a request; use it as `async with client.stream(…) as response:`.

        The block begins when the headers have come, whatever the status. On leaving it, a body that
        was read to its end gives its connection back; otherwise the connection is closed.

        Args:
            method: the HTTP method.
            url: an absolute URL, http or https.
            headers: header fields by name; printable ASCII.
            content: the body, or None.
            timeout: seconds to wait in each phase; none begins before there is a connection for
                this request, or room for a new one.
            address: an IP address to connect to instead of looking the host up; name, certificate
                and `Host` header stay the URL's. Through a proxy it has no effect.

        Raises:
            NetworkTimeoutError: a phase took longer than `timeout` allows.
            NetworkError: the other side can't be reached or broke off; it names the host.
            ConfigurationError: a header holds what no header can, a proxy or certificate setting
                can't be used, or the client is in use in another run of trio. No message holds a
                header's value.
        """
        return _Exchange(self._pool, method, url, headers or {}, content, timeout, address)


class _Exchange:
    """The block of one request; a class, since a generator would cost as much as the pool does."""

    def __init__(
        self,
        pool: ConnectionPool,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None,
        timeout: Timeouts,
        address: str | None,
    ) -> None:
        self._pool = pool
        self._request = method, url, headers, content
        self._timeout = timeout
        self._address = address

    @trio.lowlevel.enable_ki_protection  # a connection that is lent comes back
    async def __aenter__(self) -> HttpResponse:
        method, url, headers, content = self._request
        route, fields = _find_route(url, self._address), _check_headers(headers)
        if "@" in url:
            url, fields = _move_password(url, fields)
        self._connection = connection = await self._pool.take(route)
        try:
            timeout, deadline = self._timeout, trio.current_time() + self._timeout.total
            answer = await connection.send(method, url, fields, content, timeout, deadline)
            encoding = answer.headers.get("content-encoding", "").strip().lower()
            try:
                self._chunks = ChunkIterator(
                    answer.body, route.host, encoding, timeout.read, deadline
                )
            except NetworkError:
                await answer.body.aclose()
                raise
        except BaseException:
            await self._pool.give_back(connection)
            raise
        return HttpResponse(answer.status, answer.headers, url, self._chunks)

    @trio.lowlevel.enable_ki_protection
    async def __aexit__(self, *_error: object) -> None:
        try:
            await self._chunks.aclose()
        finally:
            await self._pool.give_back(self._connection)


@cache_short(256)
def _find_route(url: str, address: str | None) -> Route:
    parts = split_url(url)
    return Route(parts.scheme, parts.hostname or "", parts.port, address)


def _move_password(url: str, headers: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Return the URL without its user's name and password, and the headers with them (RFC 7617)."""
    parts = split_url(url)
    if "@" not in parts.netloc:
        return url, headers
    userinfo, _, netloc = parts.netloc.rpartition("@")
    given = any(name.lower() == "authorization" for name in headers)
    basic = b64encode(unquote(userinfo).encode()).decode()
    fields = headers if given else {**headers, "Authorization": f"Basic {basic}"}
    return parts._replace(netloc=netloc).geturl(), fields


def _check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise ConfigurationError(
                f"the value of the header {name} holds a character that no header can",
                hint="a key that was copied with a line break?",
            )
    return dict(headers)


class HttpTransport(Protocol):
    """Sends requests: an `HttpClient`, or a replacement for one, such as a recording."""

    def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        timeout: Timeouts = ...,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Send a request; the block begins when the headers of the answer have come.

        Raises:
            NetworkError: the other side can't be reached or broke off.
        """

    async def aclose(self) -> None:
        """Close all connections."""
