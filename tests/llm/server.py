"""A small HTTP server on 127.0.0.1 that plays a model's, for tests that want a real socket.

It speaks as much HTTP/1.1 as a client of a model needs: requests with a `Content-Length`, replies
in chunks, connections that are kept. What it answers, and how the answer ends, is up to the test.
"""

import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

import trio

from greenroom.core._internal import serde


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    content: bytes

    @property
    def body(self):
        return serde.loads(self.content)


@dataclass(frozen=True)
class Answer:
    """An answer in pieces.

    Its end: whole, cut (no final chunk), reset, hanging until released, closed (whole, and the
    connection with it), or endless (the last piece again and again, without haste).

    It begins `after` this event, or at once. One that is `bare` has no status line and no framing.
    """

    pieces: tuple[bytes, ...] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    end: Literal["whole", "cut", "reset", "hang", "closed", "endless"] = "whole"
    bare: bool = False
    after: trio.Event | None = None

    @classmethod
    def stream(cls, *pieces: bytes, end="whole", after=None):
        return cls(pieces, end=end, after=after)

    @classmethod
    def error(cls, status: int, value: object, **headers: str):
        given = {name.replace("_", "-"): text for name, text in headers.items()}
        return cls((serde.dumps(value),), status, {"content-type": "application/json"} | given)


class ModelServer:
    """What a test sees of the server: its address, and what it was asked."""

    def __init__(self, answer: Callable[[Request], Answer]) -> None:
        self.url = ""
        self.requests: list[Request] = []
        self.connections = 0
        self.open = 0  # connections at the moment
        self.client_left = trio.Event()  # a client closed a connection that was waiting
        self._answer = answer

    async def serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        self.open += 1
        received = bytearray()
        try:
            while request := await _read_request(stream, received):
                self.requests.append(request)
                if not await self._send(stream, self._answer(request)):
                    return
        except trio.BrokenResourceError:
            self.client_left.set()
        finally:
            self.open -= 1
            await trio.aclose_forcefully(stream)

    async def _send(self, stream: trio.SocketStream, answer: Answer) -> bool:
        """Send an answer; return whether the connection can be used again."""
        if answer.after is not None:
            await answer.after.wait()
        lines = [f"HTTP/1.1 {answer.status} Here", "transfer-encoding: chunked"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        if not answer.bare:
            await stream.send_all("\r\n".join([*lines, "", ""]).encode())
        framed = [
            piece if answer.bare else b"%x\r\n%b\r\n" % (len(piece), piece)
            for piece in answer.pieces
        ]
        for piece in framed:
            await stream.send_all(piece)
        while answer.end == "endless":
            await stream.send_all(framed[-1])
            await trio.sleep(0.002)
        if answer.end in {"whole", "closed"} and not answer.bare:
            await stream.send_all(b"0\r\n\r\n")
        if answer.end == "reset":
            stream.setsockopt(
                trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
        if answer.end == "hang" and await stream.receive_some() == b"":
            self.client_left.set()
        return answer.end == "whole"


@asynccontextmanager
async def model_server(
    answer: Answer | Callable[[Request], Answer], *, limit: float = 60
) -> AsyncIterator[ModelServer]:
    """Run a server that gives every request this answer, or what the function says."""
    server = ModelServer((lambda _: answer) if isinstance(answer, Answer) else answer)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    server.url = f"http://127.0.0.1:{port}"
    # A safety net: no test waits for anything that does not come at once.
    with trio.fail_after(limit):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, server.serve, listeners)
            yield server
            nursery.cancel_scope.cancel()


async def _read_request(stream: trio.SocketStream, received: bytearray) -> Request | None:
    while b"\r\n\r\n" not in received:
        data = await stream.receive_some()
        if not data:
            return None
        received += data
    head, _, rest = bytes(received).partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    length = int(headers.get("content-length", "0"))
    while len(rest) < length:
        data = await stream.receive_some()
        if not data:
            return None
        rest += data
    received[:] = rest[length:]
    method, path, _ = first.split(" ")
    return Request(method, path, headers, rest[:length])
