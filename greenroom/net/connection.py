"""One connection: where it leads, and one exchange after another on it."""

import math
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Literal, NamedTuple, Protocol, cast

import trio

from greenroom._version import __version__
from greenroom.core import ConfigurationError, NetworkTimeoutError
from greenroom.net.backend import httpx
from greenroom.net.body import ACCEPTED_ENCODING
from greenroom.net.errors import mapped_errors, too_slow_in_total
from greenroom.net.timeouts import Timeouts


class Route(NamedTuple):
    """Where a connection leads; a request takes only a connection of its own route.

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
    """The body of a request; the library's own is a generator, which a cancel leaves half read."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _Once(self._content)


class _Once:
    """An iterator of one piece, or of none where it is empty."""

    def __init__(self, content: bytes) -> None:
        self._rest = content

    def __aiter__(self) -> "_Once":
        return self

    async def __anext__(self) -> bytes:
        if not self._rest:
            raise StopAsyncIteration
        piece, self._rest = self._rest, b""
        return piece


class Connection:
    """A client of the HTTP library that may have one connection, and serves one exchange at a time.

    The library's own pool is of no use beyond that. For each request it walks twice through all
    connections and all waiting requests; with more than its number of idle connections open, busy
    ones included, it closes each as soon as it is idle; and a request that is cancelled right after
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
        self._has_heard = False  # since that request

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

        They are not awaited beyond the deadline, a moment of trio's clock. Where the other side
        closes a kept connection at once, and without a byte of an answer, it had given it up before
        the request came: then the request is sent again, this once, on a new connection.

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
        self._is_new = self._has_heard = False
        began = trio.current_time()
        with mapped_errors(url.host):
            try:
                return await self._attempt(request, url.host, timeout, deadline)
            except (httpx.ReadError, httpx.RemoteProtocolError):
                late = trio.current_time() - began > _AT_ONCE
                if self._is_new or self._has_heard or late:
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
                raise too_slow_in_total(host) from None
            raise _too_slow(host, timeout, is_connected=is_connected) from None

    def _follow(self, stream: "_Stream") -> None:
        """Take note of a new connection's socket, and of the first bytes that come on it."""
        self._is_new = True
        read = stream.read

        async def heard(max_bytes: int, timeout: float | None = None) -> bytes:
            data = await read(max_bytes, timeout)
            self._has_heard = self._has_heard or bool(data)
            return data

        stream.read = heard  # the library tells of an answer only when its headers are whole
        self._socket = stream.get_extra_info("socket")

    @property
    def is_reusable(self) -> bool:
        """Whether the last exchange was read to its end, and both sides let another one follow.

        The library has closed the socket otherwise. One that the other side closes while it is idle
        is replaced by the library when the next request is sent.
        """
        if self._answer is None or self._socket is None:
            return False
        return self._answer.is_closed and self._socket.fileno() >= 0

    async def aclose(self) -> None:
        """Close the connection, also when cancelled; an exchange that is under way breaks."""
        with trio.CancelScope(shield=True):  # closing a socket waits for nobody
            await self._library.aclose()
            if self._socket is not None:
                self._socket.close()  # the library loses one whose TLS handshake is cancelled


_AT_ONCE = 2.0
"""Seconds within which the news of a closed connection comes; later, the request may have counted."""

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


def _too_slow(host: str, timeout: Timeouts, *, is_connected: bool) -> NetworkTimeoutError:
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
