"""Small servers on the loopback interface, and an environment without proxies."""

import re
from contextlib import suppress

import pytest
import trio


@pytest.fixture(autouse=True)
def no_proxy_variables(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class Server:
    """Answers each connection with `reply(request, stream)`; keeps what was asked."""

    def __init__(self, reply):
        self.reply = reply
        self.requests = []
        self.bodies = []
        self.connections = 0
        self.open = 0
        self.port = 0
        self._left = trio.Event()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/"

    async def handle(self, stream):
        self.connections += 1
        self.open += 1
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):  # the client has left
            await self._answer(stream)
        self.open -= 1
        self._left.set()
        self._left = trio.Event()

    async def all_left(self):
        """Wait until no connection is open."""
        while self.open:
            await self._left.wait()

    async def _answer(self, stream):
        buffer = b""
        while True:
            while b"\r\n\r\n" not in buffer:
                data = await stream.receive_some(65536)
                if not data:
                    return
                buffer += data
            head, _, buffer = buffer.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            while length and len(buffer) < int(length[1]):
                buffer += await stream.receive_some(65536)
            self.requests.append(head.decode())
            if length:
                self.bodies.append(buffer[: int(length[1])])
                buffer = buffer[int(length[1]) :]
            if not await self.reply(head.decode(), stream):
                return


@pytest.fixture
async def serve(nursery):
    """Return a function that starts a server: with bytes to answer, or a handler of its own."""

    async def start(reply):
        async def fixed(_, stream):
            await stream.send_all(reply)
            return True

        server = Server(fixed if isinstance(reply, bytes) else reply)
        listeners = await nursery.start(_listen, server)
        server.port = listeners[0].socket.getsockname()[1]
        return server

    return start


async def _listen(server, task_status):
    await trio.serve_tcp(server.handle, 0, host="127.0.0.1", task_status=task_status)


@pytest.fixture
def unused_port():
    """Return a port on which nobody listens."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
