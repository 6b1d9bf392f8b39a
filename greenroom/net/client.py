"""The HTTP client: one exchange at a time as a block, connections kept between them."""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

import trio

from greenroom._version import __version__
from greenroom.core import ConfigurationError, NetworkError, NetworkTimeoutError
from greenroom.net.backend import httpx
from greenroom.net.body import ACCEPTED_ENCODING, ChunkIterator
from greenroom.net.errors import mapped_errors
from greenroom.net.proxies import proxy_for
from greenroom.net.response import HttpResponse
from greenroom.net.timeouts import Timeouts
from greenroom.net.tls import tls_context

__all__ = ["HttpClient"]

_DEFAULT_TIMEOUTS = Timeouts()

_MAX_CONNECTIONS = 100
_MAX_IDLE = 20
_IDLE_SECONDS = 30.0


class HttpClient:
    """Speaks HTTP/1.1 to any host, and keeps connections for the next request.

    It opens nothing before the first request, and can be opened again after it has been closed. The
    proxy and TLS variables of the environment hold: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`,
    `NO_PROXY`, `SSL_CERT_FILE`, `SSL_CERT_DIR`. Redirects are not followed, and nothing is retried:
    that is for the caller to decide. At most 100 connections are open at a time; a request beyond
    waits for one.

    Example:
        >>> async def main():
        ...     async with HttpClient() as client:
        ...         async with client.stream("GET", "http://127.0.0.1:9/") as response:
        ...             return await response.read()
        >>> trio.run(main)
        Traceback (most recent call last):
        greenroom.core.errors.NetworkError: 127.0.0.1: the connection was refused (is the ...
    """

    def __init__(self) -> None:
        """Make a client; that costs nothing."""
        self._backends: dict[str | None, httpx.AsyncClient] = {}

    async def __aenter__(self) -> Self:
        """Return the client; connections open as they are needed."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close all connections."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections, also when cancelled."""
        backends = list(self._backends.values())
        self._backends.clear()
        with trio.CancelScope(shield=True):  # closing a socket waits for nobody
            for backend in backends:
                await backend.aclose()

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        timeout: Timeouts = _DEFAULT_TIMEOUTS,
        address: str | None = None,
    ) -> AsyncIterator[HttpResponse]:
        """Send a request; use it as `async with client.stream(…) as response:`.

        The block begins when the headers have come, whatever the status. On leaving it, a body that
        was read to its end gives its connection back; otherwise the connection is closed.

        Args:
            method: the HTTP method.
            url: an absolute URL, http or https.
            headers: header fields by name; printable ASCII.
            content: the body, or None.
            timeout: seconds to wait in each phase.
            address: an IP address to connect to instead of looking the host up; name, certificate
                and `Host` header stay the URL's. Through a proxy it has no effect.

        Raises:
            NetworkTimeoutError: a phase took longer than `timeout` allows.
            NetworkError: the other side can't be reached or broke off; it names the host.
            ConfigurationError: a header holds what no header can, or a proxy or certificate
                setting can't be used. No message holds a header's value.
        """
        target = _parse(url)
        fields = _checked(headers or {})
        proxy = proxy_for(target.scheme, target.host)
        backend = await self._backend(proxy)
        request = backend.build_request(
            method, target, headers=fields, content=content, timeout=_phases(timeout)
        )
        if address and proxy is None:
            _pin(request, address)
        answer = await _send(backend, request, target.host, timeout)
        try:
            encoding = answer.headers.get("content-encoding", "").strip().lower()
            chunks = ChunkIterator(answer.aiter_raw(), target.host, encoding, timeout.read)
            try:
                yield HttpResponse(answer.status_code, answer.headers, url, chunks)
            finally:
                await chunks.aclose()
        finally:
            with mapped_errors(target.host):
                await answer.aclose()

    async def _backend(self, proxy: str | None) -> httpx.AsyncClient:
        """Return the library's client for this proxy; there are two or three in a process."""
        if proxy not in self._backends:
            context = await tls_context()
            if proxy not in self._backends:  # another task may have been faster
                self._backends[proxy] = _open(context, proxy)
        return self._backends[proxy]


def _parse(url: str) -> httpx.URL:
    try:
        target = httpx.URL(url)
    except httpx.InvalidURL:
        target = httpx.URL("")
    if target.scheme not in ("http", "https") or not target.host:
        raise NetworkError(
            "this is no URL that can be fetched", hint="write http://host/… or https://host/…"
        )
    return target


def _checked(headers: Mapping[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise ConfigurationError(
                f"the value of the header {name} holds a character that no header can",
                hint="a key that was copied with a line break?",
            )
    return dict(headers)


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
            limits=httpx.Limits(
                max_connections=_MAX_CONNECTIONS,
                max_keepalive_connections=_MAX_IDLE,
                keepalive_expiry=_IDLE_SECONDS,
            ),
        )
    except (ValueError, ImportError, httpx.InvalidURL):
        # The library's message would quote the URL, and with it the proxy's password.
        raise ConfigurationError(
            "the proxy that the environment names can't be used",
            hint="write HTTPS_PROXY=http://host:port; socks5:// needs the package socksio",
        ) from None


def _phases(timeout: Timeouts) -> httpx.Timeout:
    """Tell the library about connecting only; we wait for the rest ourselves, phase by phase."""
    return httpx.Timeout(None, connect=timeout.connect, pool=timeout.connect)


def _pin(request: httpx.Request, address: str) -> None:
    """Connect to this address; the `Host` header is already set, and TLS checks the name.

    The pool knows connections by address, so this one must not serve another name later.
    """
    request.headers["Connection"] = "close"
    request.extensions["sni_hostname"] = request.url.host
    request.url = request.url.copy_with(host=address)


async def _send(
    backend: httpx.AsyncClient, request: httpx.Request, host: str, timeout: Timeouts
) -> httpx.Response:
    async def begin_waiting(event: str, told: Mapping[str, object]) -> None:
        # To ask a proxy for a tunnel belongs to connecting.
        is_tunnel = getattr(told.get("request"), "method", b"") == b"CONNECT"
        if event == "http11.receive_response_headers.started" and not is_tunnel:
            scope.deadline = trio.current_time() + timeout.response

    request.extensions["trace"] = begin_waiting
    try:
        with (
            mapped_errors(host),
            trio.fail_after(2 * timeout.connect + timeout.response) as scope,
        ):
            return await backend.send(request, stream=True, follow_redirects=False)
    except trio.TooSlowError:
        raise NetworkTimeoutError(
            f"{host}: no answer within {timeout.response:g} seconds",
            hint="the other side is slow or stuck; try again",
        ) from None
