"""The streams to a server over HTTP: the SDK's, with bounds on what is read.

Its client is httpx2's. Responses are not compressed, so the limit holds for what they become as
well; the SDK itself follows no redirect that leaves the server, where headers would go along.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from math import inf

import httpx2
from mcp.client.streamable_http import streamable_http_client

from greenroom._version import __version__
from greenroom.interop.line_reader import MAX_MESSAGE, EscapeMender
from greenroom.interop.mcp.oauth import check_address, open_login
from greenroom.interop.mcp.server import MCPServer, RequestAuth
from greenroom.interop.mcp.transport import Streams

_TIMEOUT = httpx2.Timeout(30.0, read=None)  # a call's own time ends it; a stream may be silent


@asynccontextmanager
async def open_http(server: MCPServer) -> AsyncIterator[Streams]:
    """Yield the streams that lead to a server, whose requests begin with the first message."""
    headers = {
        "User-Agent": f"greenroom/{__version__}",
        **server.headers,
        "Accept-Encoding": "identity",
    }
    auth: httpx2.Auth | None = None if server.auth is None else _Auth(server.auth)
    checks: list[Callable[[httpx2.Request], Awaitable[None]]] = []
    if server.login is not None:
        auth = await open_login(server, server.login)
        checks = [partial(check_address, server.url)]
    client = httpx2.AsyncClient(
        headers=headers,
        auth=auth,
        timeout=_TIMEOUT,
        event_hooks={"request": checks, "response": [_bound]},
    )
    async with (
        client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=MAX_MESSAGE
        ) as streams,
    ):
        yield streams


async def _bound(response: httpx2.Response) -> None:
    """Bound the body of a response, unless it is a stream of events, which have bounds each.

    Lone surrogates in either are mended, since the SDK would refuse the message.
    """
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("the response is compressed, which was not asked for")
    has_events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    response.stream = _Body(response.stream, inf if has_events else MAX_MESSAGE)


class _Body(httpx2.AsyncByteStream):
    """A body with its texts mended, which fails once it is longer than it may be."""

    def __init__(self, inner: httpx2.SyncByteStream | httpx2.AsyncByteStream, limit: float) -> None:
        assert isinstance(inner, httpx2.AsyncByteStream)
        self._inner, self._limit = inner, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, mender = 0, EscapeMender()
        async for part in self._inner:
            size += len(part)
            if size > self._limit:
                raise httpx2.ReadError(f"the response is longer than {MAX_MESSAGE >> 20} MB")
            yield mender.feed(part)
        if mender.rest:
            yield mender.rest

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Auth(httpx2.Auth):
    """Headers that are made for each request."""

    requires_request_body = True

    def __init__(self, auth: RequestAuth) -> None:
        self._auth = auth

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        added = await self._auth(
            request.method, str(request.url), dict(request.headers), request.content
        )
        request.headers.update(dict(added))
        yield request
