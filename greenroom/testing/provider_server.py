"""The provider that `providers` checks, and the server on 127.0.0.1 that plays its API.

The server speaks as much HTTP/1.1 as the client of a model needs: requests with a `Content-Length`,
answers in chunks, connections that are kept.
"""

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

import trio
import trio.testing

from greenroom.core import Message
from greenroom.core._internal import InvalidJSONError, serde
from greenroom.llm import LLMProvider

KEY = "sk-checked/0123456789abcdef"
"""The key of every provider under test."""

_EVENTS = {"content-type": "text/event-stream"}
_FRAMING = {"content-length", "transfer-encoding", "content-encoding", "connection"}
_HEAD_LIMIT = 64 * 1024
_NO_QUESTION = b"no text of the user in the body: send all messages, with a Content-Length"
_PATIENCE = 30.0  # seconds for one check, which takes one or two
_SOON = 5.0  # seconds until a connection that is closed here is closed at the server


@dataclass(frozen=True)
class Transmission:
    """How the server answers: with these pieces, each a chunk of its own, and an end.

    The end: "whole"; "cut", without the last chunk; or "held", until the client leaves. It begins
    `after` this event. A status of 0 closes the connection without an answer.
    """

    pieces: Sequence[bytes]
    headers: Mapping[str, str] = field(default_factory=lambda: _EVENTS)
    status: int = 200
    end: Literal["whole", "cut", "held"] = "whole"
    after: trio.Event | None = None


@dataclass(frozen=True)
class RecordedAnswer:
    """An answer of a model's API, and the reply that it says.

    Attributes:
        reply: what a provider should make of it. Its text, thinking, calls, stop reason and tokens
            are compared; a call with an empty id may get any.
        body: the bytes of the answer, not compressed; empty if the provider has no connection.
        headers: those that it came with; how they say where the body ends does not matter.
    """

    reply: Message
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=lambda: _EVENTS)

    @property
    def is_stream(self) -> bool:
        """Whether it comes event by event, and not as one JSON object."""
        try:
            serde.loads(self.body)
        except InvalidJSONError:
            return True
        return False

    @property
    def whole(self) -> Transmission:
        """The answer in one piece."""
        return Transmission((self.body,), self.headers)


@dataclass(frozen=True)
class ProviderUnderTest:
    """A provider to check: how to open it, and what its API answers.

    The API takes JSON. A provider without a connection ignores the address and the key; its answers
    have no bytes, and each time it is opened its requests get them in order.

    Attributes:
        open: opens the provider for an API at an address such as `http://127.0.0.1:8000`, with a
            key; it takes both by position.
        answers: what the API has answered. The checks need a text, two calls in one reply, thinking
            where there is any, and a reply that reached its limit.
    """

    open: Callable[[str, str], LLMProvider]
    answers: Sequence[RecordedAnswer]

    @property
    def has_wire(self) -> bool:
        """Whether the provider has a connection."""
        return any(answer.body for answer in self.answers)

    def answer_to(self, content: bytes) -> RecordedAnswer | None:
        """Return the answer that a request asks for by its number, in the text of its user."""
        asked = re.findall(rb"question-(\d+)", content)
        return self.answers[int(asked[-1])] if asked else None


class AnswerServer:
    """What a check sees of the server.

    Attributes:
        url: its address.
        respond: what it answers to the body of a request.
        requests: the bodies of the requests so far.
        is_holding: set when an answer is held.
    """

    def __init__(self, respond: Callable[[bytes], Transmission]) -> None:
        self.url = ""
        self.respond = respond
        self.requests: list[bytes] = []
        self.is_holding = trio.Event()
        self._open = 0
        self._closed = trio.Event()

    def answer_with(self, answer: Transmission) -> None:
        """Give this answer to every request from now on."""
        self.respond = lambda _: answer
        self.is_holding = trio.Event()

    async def check_closed(self, what: str, advice: str) -> None:
        """Fail unless all connections are closed soon.

        Raises:
            AssertionError: one is open.
        """
        with trio.move_on_after(_SOON):
            while self._open:
                await self._closed.wait()
        assert not self._open, (
            f"expected no open connection after {what}, found {self._open}; {advice}"
        )

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer the requests of one connection."""
        self._open += 1
        received = bytearray()
        try:
            while (content := await _read_request(stream, received)) is not None:
                self.requests.append(content)
                if not await self._send(stream, self.respond(content)):
                    break
        except trio.BrokenResourceError:
            pass  # the client has left
        finally:
            await trio.aclose_forcefully(stream)
            self._open -= 1
            self._closed.set()
            self._closed = trio.Event()

    async def _send(self, stream: trio.SocketStream, answer: Transmission) -> bool:
        """Send an answer; return whether the connection can be used again."""
        if answer.after is not None:
            await answer.after.wait()
        if not answer.status:
            return False
        kept = {name: text for name, text in answer.headers.items() if name.lower() not in _FRAMING}
        lines = [f"{name}: {text}" for name, text in kept.items()]
        head = [f"HTTP/1.1 {answer.status} Here", "transfer-encoding: chunked", *lines, "", ""]
        await stream.send_all("\r\n".join(head).encode())
        for piece in filter(None, answer.pieces):
            await stream.send_all(b"%x\r\n%b\r\n" % (len(piece), piece))
            await trio.lowlevel.checkpoint()  # so that the client can read it alone
        if answer.end == "whole":
            await stream.send_all(b"0\r\n\r\n")
        elif answer.end == "held":
            self.is_holding.set()
            await stream.receive_some()
        return answer.end == "whole"


async def _read_request(stream: trio.SocketStream, received: bytearray) -> bytes | None:
    """Return the body of the next request, or None if the client has left."""
    while b"\r\n\r\n" not in received:
        if len(received) > _HEAD_LIMIT or not await _receive(stream, received):
            return None
    head, _, _ = bytes(received).partition(b"\r\n\r\n")
    del received[: len(head) + 4]
    lines = [line.lower().partition(b":") for line in head.split(b"\r\n")]
    length = next((int(value) for name, _, value in lines if name == b"content-length"), 0)
    while len(received) < length:
        if not await _receive(stream, received):
            return None
    content = bytes(received[:length])
    del received[:length]
    return content


async def _receive(stream: trio.SocketStream, received: bytearray) -> bool:
    piece = await stream.receive_some()
    received += piece
    return bool(piece)


@asynccontextmanager
async def open_provider(case: ProviderUnderTest) -> AsyncIterator[tuple[LLMProvider, AnswerServer]]:
    """Open a provider and its server, and see that it ends in time and leaves nothing behind.

    Raises:
        AssertionError: it did not.
    """

    def respond(content: bytes) -> Transmission:
        answer = case.answer_to(content)  # none where a provider asks for the model's window
        return answer.whole if answer else Transmission((_NO_QUESTION,), status=404)

    with trio.move_on_after(_PATIENCE) as scope:
        async with _answer_server(respond) as server:
            tasks = await _count_tasks()
            llm = case.open(server.url, KEY)
            try:
                yield llm, server
            finally:
                with trio.move_on_after(_SOON, shield=True):
                    await llm.aclose()
            await server.check_closed("`aclose`", "close what the provider has opened")
            left = await _count_tasks() - tasks
            assert not left, f"expected no task after `aclose`, found {left}; use a nursery"
    assert not scope.cancelled_caught, (
        f"expected an end of every request, found one that waits after {_PATIENCE:g} seconds; "
        "return events as they come, and raise a ModelStreamError where no more can come"
    )


async def _count_tasks() -> int:
    await trio.testing.wait_all_tasks_blocked()
    return trio.lowlevel.current_statistics().tasks_living


@asynccontextmanager
async def _answer_server(
    respond: Callable[[bytes], Transmission],
) -> AsyncIterator[AnswerServer]:
    """Run a server inside the block; an error of the block is raised as it is."""
    server = AnswerServer(respond)
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        server.url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        nursery.start_soon(trio.serve_listeners, server.serve, listeners)
        try:
            yield server
        except Exception as error:  # noqa: BLE001 -- raised below, outside the group of a nursery
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
