"""A connection of our own: to the host itself, with nothing between, for what models answer.

A reply is thousands of small pieces. The library takes three generators, two cancel scopes and some
hundred calls for each; here a piece that has come already costs one system call, and a cancel scope
is opened only to wait.
"""

import math
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol
from urllib.parse import urlsplit

import trio

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
from greenroom.net.http1 import AnswerReader, Head, ProtocolError, RequestWriter
from greenroom.net.tls import tls_context
from greenroom.net.urls import DEFAULT_PORTS, target_of, write_authority

_PIECE = 65_536
_BROKEN = (OSError, trio.BrokenResourceError)


class DirectConnection:
    """At most one connection to a host, for one exchange at a time.

    Attributes:
        route: where it leads.
        idle_since: when the last exchange ended; its owner's to read and write.
    """

    def __init__(self, route: Route) -> None:
        """Connect nothing yet: the first request does."""
        self.route = route
        authority = write_authority(route.scheme, route.host, route.port)
        self._writer = RequestWriter({"Host": authority, **OWN_HEADERS})
        self.idle_since = 0.0
        self._wire: _Wire | None = None
        self._reader = AnswerReader("GET")
        self._connecting: trio.CancelScope | None = None
        self._is_closed = False

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
            ConfigurationError: the certificates that the environment names can't be loaded.
            NetworkError: the other side can't be reached or broke off, or `aclose` was called.
        """
        host = self.route.host
        target = target_of(urlsplit(url))  # the client has checked it
        try:
            request = self._writer.write(method, target, headers, content)
        except ProtocolError as error:
            hint = "check the headers"
            raise describe_failure(error, host, "the request is not valid HTTP", hint) from None
        await trio.lowlevel.checkpoint_if_cancelled()
        is_kept = self._wire is not None and not self._wire.is_stale()
        if not is_kept:
            await self._drop()
        self._reader = AnswerReader(method)
        began = trio.current_time()
        try:
            try:
                head = await self._exchange(request, timeout, deadline)
            except (*_BROKEN, ProtocolError):
                late = trio.current_time() - began > AT_ONCE
                if not is_kept or self._reader.has_begun or late:
                    raise
                await self._drop()
                self._reader = AnswerReader(method)
                head = await self._exchange(request, timeout, deadline)
        except (*_BROKEN, trio.ClosedResourceError, ProtocolError) as error:
            raise _describe(error, host) from None
        return Answer(head.status, head.headers, _Body(self, self._reader))

    @trio.lowlevel.enable_ki_protection  # a scope that is entered is left
    async def read_body(self, deadline: float) -> bytes:
        """Return the next piece of the body; nothing at its end.

        Raises:
            trio.TooSlowError: none came until the deadline, a moment of trio's clock.
            NetworkError: the connection broke before the end.
        """
        reader = self._reader
        try:
            while not (piece := reader.read_body()) and not reader.is_complete:
                reader.feed(await self._open_wire.receive(deadline))
        except (*_BROKEN, trio.ClosedResourceError, ProtocolError) as error:
            raise _describe(error, self.route.host) from None
        return piece

    @property
    def is_reusable(self) -> bool:
        """Whether the last exchange was read to its end, and both sides allow another one."""
        return self._wire is not None and self._reader.allows_another

    async def aclose(self) -> None:
        """Close the connection, even when cancelled; an exchange that is under way breaks."""
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        await self._drop()

    async def _drop(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            with trio.CancelScope(shield=True):  # closing a socket does not wait
                await wire.aclose()

    @property
    def _open_wire(self) -> "_Wire":
        if self._wire is None:
            raise trio.ClosedResourceError("the connection was closed")
        return self._wire

    async def _exchange(self, request: bytes, timeout: Timeouts, deadline: float) -> Head:
        """Send a request, and wait for the head of its answer."""
        if self._wire is None:
            await self._connect(timeout, deadline)
        wire, reader = self._open_wire, self._reader
        refusal: OSError | trio.BrokenResourceError | None = None
        try:
            try:
                await wire.send(request, min(trio.current_time() + timeout.response, deadline))
            except _BROKEN as error:
                refusal = error  # it may have answered before it took all, and closed
            limit = min(trio.current_time() + timeout.response, deadline)
            while True:
                data = await wire.receive(limit)
                if refusal and not data:
                    raise refusal
                reader.feed(data)
                if (head := reader.read_head()) is not None:
                    return head
        except trio.TooSlowError:
            if trio.current_time() >= deadline:
                raise total_timeout_error(self.route.host) from None
            raise response_timeout_error(self.route.host, timeout.response) from None

    async def _connect(self, timeout: Timeouts, deadline: float) -> None:
        if self._is_closed:
            raise trio.ClosedResourceError("the connection was closed")
        route = self.route
        port = route.port or DEFAULT_PORTS[route.scheme]
        context = await tls_context() if route.scheme == "https" else None
        limit = min(trio.current_time() + timeout.connect, deadline)
        try:
            with trio.CancelScope(deadline=limit) as self._connecting:
                stream = await trio.open_tcp_stream(route.host, port)
                if context is None:
                    self._wire = _PlainWire(stream)
                else:
                    self._wire = await _TLSWire.open(stream, context, route.host)
        except (*_BROKEN, UnicodeError) as error:
            raise describe_failure(error, route.host, "no connection", TRY_LATER) from None
        if self._is_closed:  # meanwhile
            await self._drop()
            raise trio.ClosedResourceError("the connection was closed")
        if self._wire is None:
            if trio.current_time() >= deadline:
                raise total_timeout_error(route.host)
            raise connect_timeout_error(route.host, timeout.connect)


class _Body:
    """The body of the answer that a connection reads."""

    def __init__(self, connection: DirectConnection, reader: AnswerReader) -> None:
        self.read = connection.read_body
        self._reader = reader

    @property
    def is_complete(self) -> bool:
        return self._reader.is_complete

    async def aclose(self) -> None:
        """Do nothing: a connection whose answer was not read to its end is not used again."""


def _describe(error: BaseException, host: str) -> Exception:
    if isinstance(error, trio.ClosedResourceError):
        return closed_error(host)
    if isinstance(error, ProtocolError):
        return describe_failure(error, host, "the answer broke off, or is not HTTP", CUT)
    return describe_failure(error, host, "the connection broke", CUT)


class _Wire(Protocol):
    """Bytes there and back. Each wait ends at a deadline, with a `trio.TooSlowError`."""

    async def send(self, data: bytes, deadline: float) -> None: ...
    async def receive(self, deadline: float) -> bytes: ...
    def is_stale(self) -> bool:
        """Whether the other side has closed an idle connection, or sent what nobody asked for."""

    async def aclose(self) -> None: ...


class _PlainWire:
    """A socket. What it can do at once is done without the scheduler."""

    def __init__(self, stream: trio.SocketStream) -> None:
        # trio's own go through the scheduler with each call, even if there is nothing to wait for.
        self._socket = socket.socket(fileno=stream.socket.detach())
        self._socket.setblocking(False)

    async def send(self, data: bytes, deadline: float) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                await self._wait(trio.lowlevel.wait_writable, deadline)

    async def receive(self, deadline: float) -> bytes:
        while True:
            try:
                return self._socket.recv(_PIECE)
            except BlockingIOError:
                await self._wait(trio.lowlevel.wait_readable, deadline)

    async def _wait(
        self, wait: Callable[[socket.socket], Awaitable[None]], deadline: float
    ) -> None:
        with trio.CancelScope(deadline=deadline) as scope:
            await wait(self._socket)
        if scope.cancelled_caught:
            raise trio.TooSlowError

    def is_stale(self) -> bool:
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    async def aclose(self) -> None:
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


class _TLSWire:
    """A TLS connection over a socket."""

    def __init__(self, stream: "trio.SSLStream[trio.SocketStream]") -> None:
        self._stream = stream

    @classmethod
    async def open(
        cls, transport: trio.SocketStream, context: ssl.SSLContext, host: str
    ) -> "_TLSWire":
        stream = trio.SSLStream(transport, context, server_hostname=host, https_compatible=True)
        try:
            await stream.do_handshake()
        except BaseException:
            await trio.aclose_forcefully(transport)
            raise
        return cls(stream)

    async def send(self, data: bytes, deadline: float) -> None:
        with trio.fail_at(deadline):
            await self._stream.send_all(data)

    async def receive(self, deadline: float) -> bytes:
        with trio.fail_at(deadline):
            return bytes(await self._stream.receive_some(_PIECE))

    def is_stale(self) -> bool:
        return self._stream.transport_stream.socket.is_readable()

    async def aclose(self) -> None:
        await trio.aclose_forcefully(self._stream)
