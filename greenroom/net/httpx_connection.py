"""A connection by the library httpx: through a proxy, or to an address that was looked up before.

The only module that imports it, and makes its errors ours.
"""

import math
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Literal, Protocol, cast

import httpx
import trio

from greenroom.core import ConfigurationError, NetworkError
from greenroom.core._internal import NetworkTimeoutError
from greenroom.net.connection import AT_ONCE, OWN_HEADERS, Answer, Route, Timeouts
from greenroom.net.errors import (
    CUT,
    TRY_LATER,
    closed_error,
    connect_timeout_error,
    describe_failure,
    response_timeout_error,
    total_timeout_error,
)

# The first row that matches counts, so a subclass comes before its base.
_TABLE: tuple[tuple[type[Exception], type[NetworkError], str, str], ...] = (
    (httpx.TimeoutException, NetworkTimeoutError, "no answer in time", TRY_LATER),
    (httpx.ProxyError, NetworkError, "the proxy refused", "check HTTPS_PROXY and HTTP_PROXY"),
    (httpx.ConnectError, NetworkError, "no connection", TRY_LATER),
    (httpx.UnsupportedProtocol, NetworkError, "no URL that can be fetched", "use http or https"),
    (httpx.InvalidURL, NetworkError, "no URL that can be fetched", "check the URL"),
    (httpx.DecodingError, NetworkError, "the body's compression is broken", "try again"),
    (httpx.LocalProtocolError, NetworkError, "the request is not valid HTTP", "check the headers"),
    (httpx.RemoteProtocolError, NetworkError, "the answer broke off, or is not HTTP", CUT),
    (httpx.HTTPError, NetworkError, "the connection broke", CUT),
)


@contextmanager
def map_errors(host: str) -> Iterator[None]:
    """Turn the errors of the library and its sockets in the block into ours."""
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        kind, what, hint = next(row[1:] for row in _TABLE if isinstance(error, row[0]))
        raise describe_failure(error, host, what, hint, kind) from None
    except trio.ClosedResourceError:
        raise closed_error(host) from None


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


class _Body:
    """The body of an answer, as the library reads it."""

    def __init__(self, answer: httpx.Response, host: str) -> None:
        self._answer = answer
        self._host = host
        self._raw = answer.aiter_raw()
        self._has_begun = False

    async def read(self, deadline: float) -> bytes:
        self._has_begun = True
        with map_errors(self._host), trio.fail_at(deadline):
            return await anext(self._raw, b"")

    @property
    def is_complete(self) -> bool:
        return False  # the library says so with the next read

    async def aclose(self) -> None:
        # The library's generators are nested, and closing the outermost would leave the inner ones
        # to the garbage collector. A cancel strikes the innermost, and unwinds them all.
        if self._has_begun:
            with trio.CancelScope() as scope, suppress(httpx.HTTPError):
                scope.cancel()
                while await anext(self._raw, b""):
                    pass
        with map_errors(self._host):
            await self._answer.aclose()


class HttpxConnection:
    """A client of the library with at most one connection, for one exchange at a time.

    The library's own pool can't do more than that for us. For each request it walks twice through
    all connections and all waiting requests. When more connections are open than it keeps idle,
    busy ones included, it closes each as soon as it is idle. And a request cancelled right after
    connecting leaves a connection in it that is never used and never closed.

    Attributes:
        route: where it leads.
        idle_since: when the last exchange ended; its owner's to read and write.
    """

    def __init__(self, route: Route, context: ssl.SSLContext, proxy: str | None) -> None:
        """Connect nothing yet: the first request does, through the proxy if there is one.

        Raises:
            ConfigurationError: the proxy can't be used.
        """
        self.route = route
        self.idle_since = 0.0
        self._address = None if proxy else route.address
        self._library = _open(context, proxy)
        self._socket: trio.socket.SocketType | None = None
        self._answer: httpx.Response | None = None
        self._is_new = False  # the connection was made for the last request
        self._has_received = False  # since that request

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None,
        timeout: Timeouts,
        deadline: float = math.inf,
    ) -> Answer:
        """Send a request, as `Connection.send` says.

        Raises:
            NetworkTimeoutError: connecting, sending or the answer took too long.
            NetworkError: the other side can't be reached or broke off, or `aclose` was called.
        """
        self._answer = None
        host = self.route.host
        with map_errors(host):
            request = self._library.build_request(
                method, url, headers=headers, content=content, timeout=None
            )
            request.stream = _Content(content or b"")
            if self._address:
                _pin(request, self._address)
            self._is_new = self._has_received = False
            began = trio.current_time()
            try:
                answer = await self._attempt(request, host, timeout, deadline)
            except (httpx.ReadError, httpx.RemoteProtocolError):
                late = trio.current_time() - began > AT_ONCE
                if self._is_new or self._has_received or late:
                    raise
                answer = await self._attempt(request, host, timeout, deadline)
        return Answer(answer.status_code, answer.headers, _Body(answer, host))

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
            if is_connected:
                raise response_timeout_error(host, timeout.response) from None
            raise connect_timeout_error(host, timeout.connect) from None

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
        """Close the connection, even when cancelled; an exchange that is under way breaks."""
        with trio.CancelScope(shield=True):  # closing a socket does not wait
            await self._library.aclose()
            if self._socket is not None:
                self._socket.close()  # the library loses one whose TLS handshake is cancelled


_WAITS = ("http11.send_request_headers.started", "http11.receive_response_headers.started")


def _open(context: ssl.SSLContext, proxy: str | None) -> httpx.AsyncClient:
    """Open a client whose settings are all ours: nothing is read from the environment again."""
    try:
        return httpx.AsyncClient(
            verify=context,
            trust_env=False,
            proxy=proxy,
            headers=OWN_HEADERS,
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
