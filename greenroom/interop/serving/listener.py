"""HTTP on a socket: hypercorn's reading and writing of it, within bounds of our own.

hypercorn shields each write from every cancel, so no time-out of an application reaches a client
that has stopped reading: the bound is in the stream below it. It waits forever in a request whose
body nobody reads: so what an application leaves is read to its end before the reply is over, or the
connection is cut.

The connections outlive a cancel of `serve_app` by its grace: requests in hand are answered, streams
are ended by the application's `on_close`, and what is left at the end of the grace is cut.
"""

import logging
import os
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from greenroom.core import ConfigurationError
from greenroom.core._internal import log_error, quantity
from greenroom.interop.serving.asgi import App, Event, Receive, Scope, Send
from greenroom.interop.serving.limits import ServerLimits

if TYPE_CHECKING:
    from hypercorn.config import Config
    from hypercorn.trio.worker_context import WorkerContext

logger = logging.getLogger("greenroom.serving")

_PIECE = 1 << 16  # bytes that a client must take within the time-out of a write
_HTTP_2 = b"PRI"  # no method that we answer begins so
_LINGER = 2.0  # seconds in which the rest of a refused body is read, so that its reply arrives
_SPARE = 200  # connections that may be open besides those of streams


class BoundedStream(trio.abc.HalfCloseableStream):
    """A socket whose writes end: if the client takes nothing for a while, it is closed.

    Attributes:
        socket: the socket, whose addresses the server reads.
    """

    def __init__(
        self, transport: trio.SocketStream, timeout: float, tls: ssl.SSLContext | None = None
    ) -> None:
        """Bound the writes of a stream, each 64 KB of them; with a context, it is encrypted."""
        self._stream: trio.SocketStream | trio.SSLStream[trio.SocketStream] = transport
        if tls is not None:
            self._stream = trio.SSLStream(transport, tls, server_side=True, https_compatible=True)
        self._timeout = timeout
        self._start = b""
        self.socket = transport.socket

    async def greet(self) -> bool:
        """Do what comes before the first request; whether the client did its part in time."""
        if isinstance(self._stream, trio.SocketStream):
            return True
        with trio.move_on_after(self._timeout):
            try:
                await self._stream.do_handshake()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return False  # it speaks no TLS, or does not trust us
            return True
        return False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send it, or close the stream.

        Raises:
            BrokenResourceError: the client is gone, or takes nothing.
        """
        view = memoryview(data)
        for start in range(0, len(view) or 1, _PIECE):
            with trio.move_on_after(self._timeout) as scope:
                await self._stream.send_all(view[start : start + _PIECE])
            if scope.cancelled_caught:
                await self.cut()
                raise trio.BrokenResourceError(
                    f"the client took nothing for {quantity(self._timeout, 'second')}"
                )

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until a write may go through."""
        await self._stream.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        """Say that nothing more comes; with TLS the end of the connection says it."""
        if isinstance(self._stream, trio.SocketStream):
            await self._stream.send_eof()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Wait for what the client sends; one that begins with HTTP/2 is cut off."""
        data = await self._stream.receive_some(max_bytes)
        if len(self._start) < len(_HTTP_2):
            self._start += data[: len(_HTTP_2) - len(self._start)]
            if self._start == _HTTP_2:
                await self.cut()
                return b""
        return data

    async def aclose(self) -> None:
        """Close it; with TLS the client is told, for as long as it takes what is sent."""
        with trio.move_on_after(self._timeout):
            await self._stream.aclose()

    async def cut(self) -> None:
        """Close it at once, whoever reads or writes."""
        await trio.aclose_forcefully(self._stream)


class _Connections:
    """The connections of a server that are open."""

    def __init__(self, app: App, limits: ServerLimits, tls: ssl.SSLContext | None) -> None:
        self._app = app
        self._limits = limits
        self._tls = tls
        self._config, self._context = _make_config(limits)
        self._streams = set[BoundedStream]()
        self.are_gone = trio.Event()
        self.is_closing = False

    async def handle(self, stream: trio.SocketStream) -> None:
        """Serve one connection; its failure is nobody else's."""
        bounded = BoundedStream(stream, self._limits.write_timeout, self._tls)
        if len(self._streams) >= self._limits.streams + _SPARE or self.is_closing:
            await bounded.cut()
            return
        self._streams.add(bounded)
        try:
            if await bounded.greet():
                await self._serve(bounded)
        except Exception as error:  # noqa: BLE001 (a connection that fails, logged)
            log_error(logger, "a connection failed", error)
        finally:
            self._streams.discard(bounded)
            with trio.CancelScope(shield=True):
                await bounded.cut()
            if self.is_closing and not self._streams:
                self.are_gone.set()

    async def _serve(self, stream: BoundedStream) -> None:
        from hypercorn.trio.tcp_server import TCPServer
        from hypercorn.typing import ConnectionState
        from hypercorn.utils import wrap_app

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            exchange = _Exchange(stream, receive, send)
            if scope["type"] == "http":
                scope["scheme"] = "http" if self._tls is None else "https"
                await self._app(scope, exchange.receive, exchange.send)
            else:
                await stream.cut()
            await exchange.end()

        server = TCPServer(
            wrap_app(app, 0, "asgi"),  # type: ignore[arg-type]  # our types of ASGI are simpler
            self._config,
            self._context,
            ConnectionState({}),
            stream,  # type: ignore[arg-type]  # it uses no more of a stream than this has
        )
        await server.run()

    async def close(self) -> None:
        """Take no more requests: what waits for one is closed."""
        self.is_closing = True
        await self._context.terminated.set()
        if not self._streams:
            self.are_gone.set()

    async def cut(self) -> None:
        """Cut what is still open."""
        for stream in tuple(self._streams):
            await stream.cut()


class _Exchange:
    """A request and its reply: whatever of the body is unread is read before the reply's end."""

    def __init__(self, stream: BoundedStream, receive: Receive, send: Send) -> None:
        self._stream = stream
        self._receive = receive
        self._send = send
        self._is_read = False

    async def receive(self) -> Event:
        event = await self._receive()
        if event["type"] != "http.request" or not event.get("more_body", False):
            self._is_read = True
        return event

    async def send(self, event: Event) -> None:
        is_last = event["type"] == "http.response.body" and not event.get("more_body", False)
        if is_last and not self._is_read:
            await self._send({**event, "more_body": True})
            await self.end()
            event = {"type": "http.response.body", "body": b""}
        await self._send(event)

    async def end(self) -> None:
        """Read what is left of the body; a client that goes on sending is cut off."""
        with trio.move_on_after(_LINGER):
            await self._drain()
        if not self._is_read:
            await self._stream.cut()
            await self._drain()

    async def _drain(self) -> None:
        while not self._is_read:
            await self.receive()


async def serve_app(
    app: App,
    host: str,
    port: int,
    *,
    limits: ServerLimits,
    grace: float,
    tls: ssl.SSLContext | None = None,
    on_open: Callable[[str], str] = str,
    on_close: Callable[[], None] = lambda: None,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve an application until this is cancelled, and `grace` seconds longer what is in hand.

    Args:
        app: the application, which gets no lifespan.
        host: the address to listen at.
        port: the port; 0 for a free one.
        limits: the bounds of connections.
        grace: seconds for what is in hand when this is cancelled.
        tls: what to encrypt with, if the server is to answer `https`.
        on_open: gets the address as `http://HOST:PORT`, and returns what `task_status` gets.
        on_close: called then, to end what would not end by itself.
        task_status: told once the address can be asked.

    Raises:
        ConfigurationError: hypercorn is not installed, or the address can't be had.
    """
    connections = _Connections(app, limits, tls)
    listeners = await _listen(host, port)
    async with trio.open_nursery() as nursery:
        handlers, closing = await nursery.start(_hold, connections, grace)
        try:
            scheme = "http" if tls is None else "https"
            task_status.started(on_open(f"{scheme}://{_place_of(listeners[0])}"))
            await trio.serve_listeners(connections.handle, listeners, handler_nursery=handlers)
        finally:
            on_close()
            closing.set()


async def _hold(
    connections: _Connections,
    grace: float,
    *,
    task_status: trio.TaskStatus[tuple[trio.Nursery, trio.Event]],
) -> None:
    """Hold the nursery of the connections open, whatever is cancelled around it, until its time."""
    closing = trio.Event()
    async with trio.open_nursery() as handlers:
        handlers.cancel_scope.shield = True
        task_status.started((handlers, closing))
        await closing.wait()
        await connections.close()
        with trio.move_on_after(grace):
            await connections.are_gone.wait()
        await connections.cut()
        handlers.cancel_scope.cancel()


async def _listen(host: str, port: int) -> list[trio.SocketListener]:
    try:
        listeners = await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise ConfigurationError(
            f"the server can't listen at {host}:{port}: {reason}",
            hint="choose another port; 0 takes a free one",
        ) from error
    return list(listeners)


def _place_of(listener: trio.SocketListener) -> str:
    host, port = listener.socket.getsockname()[:2]
    name = f"[{host}]" if listener.socket.family == socket.AF_INET6 else host
    return f"{name}:{port}"


def _make_config(limits: ServerLimits) -> "tuple[Config, WorkerContext]":
    """Configure hypercorn: it logs to us, and says nothing of itself.

    Raises:
        ConfigurationError: it is not installed.
    """
    try:
        from hypercorn.config import Config
        from hypercorn.trio.worker_context import WorkerContext
    except ImportError as error:
        raise ConfigurationError(
            "to listen at a port, the server needs hypercorn, which is not installed",
            hint="pip install 'greenroom[serve]'",
        ) from error
    config = Config()
    config.accesslog = None
    config.errorlog = logging.getLogger("greenroom.serving.http")
    config.include_server_header = False
    config.keep_alive_timeout = limits.body_timeout  # for a head, and between two requests
    config.read_timeout = None  # it would end streams, whose clients send nothing
    return config, WorkerContext(None)
