"""One connection: where it leads, the exchanges on it, and the body of a response."""

import math
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, cast

import trio

from greenroom._version import __version__
from greenroom.core import ConfigurationError, NetworkError
from greenroom.core._internal import NetworkTimeoutError
from greenroom.net.backend import httpx, map_errors, network_error, total_timeout_error


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """Seconds to wait in each phase; `math.inf` waits for ever. All of them read trio's clock.

    Attributes:
        connect: for a new connection: name look-up, TCP, proxy, TLS. Waiting until the client has
            room for one does not count.
        response: for the request to go out, and again for the status line and the headers.
        read: for each next piece of the body.
        total: for all of it, from having room for a connection to the last piece of the body,
            including the time that the caller spends between pieces.
    """

    connect: float = 10.0
    response: float = 60.0
    read: float = 60.0
    total: float = math.inf


ACCEPTED_ENCODING = "gzip"
"""The one compression that we ask for, and undo."""

_PIECE = 65_536
_BREATH = 64
"""Pieces between two checkpoints: of small pieces, most are there already and wait for nothing."""


class ChunkIterator:
    """The body of one response, as pieces of at most 64 KiB in the order they came.

    It is an iterator object, not an async generator: left half read, it leaves nothing behind to be
    closed, since the response closes it.

    Attributes:
        timeout: seconds to wait for each next piece; it may be changed between two pieces.
    """

    def __init__(
        self,
        raw: AsyncIterator[bytes],
        host: str,
        encoding: str,
        timeout: float,
        deadline: float = math.inf,
    ) -> None:
        """Read from `raw`, undo the encoding, and wait at most `timeout` seconds for each piece.

        It waits for none beyond the deadline, a moment of trio's clock.

        Raises:
            NetworkError: we did not ask for this encoding.
        """
        if encoding not in ("", "identity", ACCEPTED_ENCODING):
            raise NetworkError(f"{host}: the body is compressed in a way we did not ask for")
        self._raw = raw
        self._host = host
        self.timeout = timeout
        self._deadline = deadline
        self._inflater = _Inflater() if encoding == ACCEPTED_ENCODING else None
        self._reads = 0
        self._has_begun = False
        self._is_exhausted = False
        self._is_closed = False

    def __aiter__(self) -> "ChunkIterator":
        """Return the iterator itself: a body can be read once."""
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece as soon as there is one; other tasks run in between.

        Raises:
            NetworkTimeoutError: no piece came in time.
            NetworkError: the connection broke before the end, or the compression is broken.
            trio.ClosedResourceError: the response has been left.
        """
        while True:
            if self._is_closed:
                raise trio.ClosedResourceError("the response has been closed")
            self._reads += 1
            # A few bytes may expand to any number of pieces, none of which waits for anything.
            if self._inflater or self._reads % _BREATH == 0:
                await trio.lowlevel.checkpoint()
            piece = self._inflate(b"") if self._inflater else b""
            if piece:
                return piece
            data = await self._next_raw()
            piece = self._inflate(data) if self._inflater else data
            if piece:
                return piece

    async def aclose(self) -> None:
        """Give up the rest of the body; the connection of a half-read body is closed."""
        self._is_closed = True
        if not self._has_begun or self._is_exhausted:
            return
        self._is_exhausted = True
        # The library's generators are nested, and closing the outermost would leave the inner ones
        # to the garbage collector. A cancel strikes the innermost, and unwinds them all.
        with trio.CancelScope() as scope, suppress(httpx.HTTPError, StopAsyncIteration):
            scope.cancel()
            while True:
                await self._raw.__anext__()

    async def _next_raw(self) -> bytes:
        if self._is_exhausted:
            raise StopAsyncIteration
        self._has_begun = True
        self._is_exhausted = True  # unless the read gives something
        limit = trio.current_time() + self.timeout
        try:
            with trio.CancelScope(deadline=min(limit, self._deadline)):
                data = await self._raw.__anext__()
                self._is_exhausted = False
                return data
        except httpx.HTTPError as error:
            raise network_error(error, self._host) from None
        except StopAsyncIteration:
            if self._inflater and not self._inflater.is_complete:
                raise NetworkError(f"{self._host}: the compressed body is cut short") from None
            raise
        if limit > self._deadline:
            raise total_timeout_error(self._host)
        raise NetworkTimeoutError(
            f"{self._host}: nothing came for {self.timeout:g} seconds",
            phase="read",
            hint="the other side stalls; try again",
        )

    def _inflate(self, data: bytes) -> bytes:
        assert self._inflater is not None
        try:
            return self._inflater.feed(data)
        except zlib.error as error:
            raise NetworkError(f"{self._host}: the body's compression is broken") from error


class _Inflater:
    """Undoes gzip in pieces of bounded size, however much a few bytes may expand to.

    A body is one gzip member or several (RFC 1952, section 2.2), and nothing else.
    """

    def __init__(self) -> None:
        self._member = _new_member()
        self._rest = b""  # what has come and was not read yet

    @property
    def is_complete(self) -> bool:
        return self._member.eof and not self._rest

    def feed(self, data: bytes) -> bytes:
        piece = self._read(self._rest + data)
        while not piece and self._member.eof and self._rest:
            piece = self._read(self._rest)
        return piece

    def _read(self, data: bytes) -> bytes:
        if self._member.eof and data:
            self._member = _new_member()
        piece = self._member.decompress(data, _PIECE)
        self._rest = self._member.unused_data or self._member.unconsumed_tail
        return piece


def _new_member() -> "zlib._Decompress":
    return zlib.decompressobj(zlib.MAX_WBITS | 16)


class Route(NamedTuple):
    """Where a connection leads; a request uses only connections of its own route.

    Attributes:
        proxy: the URL of the proxy, or None for a direct connection.
        scheme: http or https.
        host: the host of the URL.
        port: the port of the URL, or None where it names none.
        address: the IP address to connect to instead of looking the host up, or None.
    """

    proxy: str | None
    scheme: str
    host: str
    port: int | None
    address: str | None = None


class _Stream(Protocol):
    read: "Callable[[int, float | None], Awaitable[bytes]]"

    def get_extra_info(self, info: Literal["socket"]) -> trio.socket.SocketType: ...


class _Content(httpx.AsyncByteStream):
    """The body of a request in one piece, once for each iterator.

    The library's own is a generator, which a cancel leaves half read.
    """

    def __init__(self, content: bytes) -> None:
        self._rest = content

    def __aiter__(self) -> "_Content":
        return _Content(self._rest)

    async def __anext__(self) -> bytes:
        if not self._rest:
            raise StopAsyncIteration
        piece, self._rest = self._rest, b""
        return piece


class Connection:
    """A client of the HTTP library with at most one connection, for one exchange at a time.

    The library's own pool can't do more than that for us. For each request it walks twice through
    all connections and all waiting requests. When more connections are open than it keeps idle,
    busy ones included, it closes each as soon as it is idle. And a request cancelled right after
    connecting leaves a connection in it that is never used and never closed.

    Attributes:
        idle_since: when the last exchange ended; its owner's to read and write.
    """

    def __init__(self, route: Route, context: ssl.SSLContext) -> None:
        """Connect nothing yet: the first request does.

        Raises:
            ConfigurationError: the route's proxy can't be used.
        """
        self.route = route
        self.idle_since = 0.0
        self._library = _open(context, route.proxy)
        self._socket: trio.socket.SocketType | None = None
        self._answer: httpx.Response | None = None
        self._is_new = False  # the connection was made for the last request
        self._has_received = False  # since that request

    async def send(
        self,
        method: str,
        url: httpx.URL,
        headers: Mapping[str, str],
        content: bytes | None,
        timeout: Timeouts,
        deadline: float = math.inf,
    ) -> httpx.Response:
        """Send a request, and return the answer when its headers have come; the caller closes it.

        It waits for them no longer than the deadline, a moment of trio's clock. If the other side
        closes a kept connection at once and without a byte of an answer, it had given it up before
        the request came: then the request is sent again, once, on a new connection.

        Raises:
            NetworkTimeoutError: connecting, sending or the answer took too long.
            NetworkError: the other side can't be reached or broke off, or `aclose` was called.
        """
        self._answer = None
        request = self._library.build_request(
            method, url, headers=headers, content=content, timeout=None
        )
        request.stream = _Content(content or b"")
        if self.route.address:
            _pin(request, self.route.address)
        self._is_new = self._has_received = False
        began = trio.current_time()
        with map_errors(url.host):
            try:
                return await self._attempt(request, url.host, timeout, deadline)
            except (httpx.ReadError, httpx.RemoteProtocolError):
                late = trio.current_time() - began > _AT_ONCE
                if self._is_new or self._has_received or late:
                    raise
            return await self._attempt(request, url.host, timeout, deadline)

    async def _attempt(
        self, request: httpx.Request, host: str, timeout: Timeouts, deadline: float
    ) -> httpx.Response:
        is_connected = False

        async def follow(event: str, info: Mapping[str, object]) -> None:
            nonlocal is_connected
            if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
                self._follow(cast("_Stream", info["return_value"]))
            # To ask a proxy for a tunnel belongs to connecting.
            is_tunnel = getattr(info.get("request"), "method", b"") == b"CONNECT"
            if event in _WAITS and not is_tunnel:
                is_connected = True
                scope.deadline = min(trio.current_time() + timeout.response, deadline)

        request.extensions["trace"] = follow
        start = min(trio.current_time() + timeout.connect, deadline)
        try:
            with trio.fail_at(start) as scope:
                if self._library.is_closed:
                    raise trio.ClosedResourceError
                self._answer = await self._library.send(
                    request, stream=True, follow_redirects=False
                )
                return self._answer
        except trio.TooSlowError:
            if trio.current_time() >= deadline:
                raise total_timeout_error(host) from None
            raise _phase_timeout_error(host, timeout, is_connected=is_connected) from None

    def _follow(self, stream: "_Stream") -> None:
        """Note a new connection's socket, and when the first bytes arrive on it."""
        self._is_new = True
        read = stream.read

        async def note_bytes(max_bytes: int, timeout: float | None = None) -> bytes:
            data = await read(max_bytes, timeout)
            self._has_received = self._has_received or bool(data)
            return data

        stream.read = note_bytes  # the library tells of an answer only when its headers are whole
        self._socket = stream.get_extra_info("socket")

    @property
    def is_reusable(self) -> bool:
        """Whether the last exchange was read to its end, and both sides allow another one.

        Otherwise the library has closed the socket. If the other side closes an idle one, the
        library replaces it when the next request is sent.
        """
        if self._answer is None or self._socket is None:
            return False
        return self._answer.is_closed and self._socket.fileno() >= 0

    async def aclose(self) -> None:
        """Close the connection, also when cancelled; an exchange that is under way breaks."""
        with trio.CancelScope(shield=True):  # closing a socket does not wait
            await self._library.aclose()
            if self._socket is not None:
                self._socket.close()  # the library loses one whose TLS handshake is cancelled


_AT_ONCE = 2.0
"""Seconds within which a closed connection shows; later, the request may have had effect."""

_WAITS = ("http11.send_request_headers.started", "http11.receive_response_headers.started")


def _open(context: ssl.SSLContext, proxy: str | None) -> httpx.AsyncClient:
    """Open a client whose settings are all ours: nothing is read from the environment again."""
    try:
        return httpx.AsyncClient(
            verify=context,
            trust_env=False,
            proxy=proxy,
            headers={
                "Accept-Encoding": ACCEPTED_ENCODING,
                "User-Agent": f"greenroom/{__version__}",
            },
            # How long an idle connection is kept is the pool's to say.
            limits=httpx.Limits(max_connections=1, keepalive_expiry=None),
        )
    except (ValueError, ImportError, httpx.InvalidURL):
        # The library's message would quote the URL, and with it the proxy's password.
        raise ConfigurationError(
            "the proxy that the environment names can't be used",
            hint="write HTTPS_PROXY=http://host:port; socks5:// needs the package socksio",
        ) from None


def _pin(request: httpx.Request, address: str) -> None:
    """Connect to this address; the `Host` header is already set, and TLS checks the name."""
    request.headers["Connection"] = "close"
    request.extensions["sni_hostname"] = request.url.host
    request.url = request.url.copy_with(host=address)


def _phase_timeout_error(
    host: str, timeout: Timeouts, *, is_connected: bool
) -> NetworkTimeoutError:
    if is_connected:
        return NetworkTimeoutError(
            f"{host}: no answer within {timeout.response:g} seconds",
            phase="response",
            hint="the other side is slow or stuck; try again",
        )
    return NetworkTimeoutError(
        f"{host}: no connection within {timeout.connect:g} seconds",
        phase="connect",
        hint="check the network and the proxy settings, or try again",
    )
