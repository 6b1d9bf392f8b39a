"""An agent that is spoken to by A2A: its card, requests to it, and the streams of its events.

Everything goes to the origin that the user has named, and so does the token: a card that points
elsewhere is refused, and no redirect is followed. What comes back is another program's word: it is
read within bounds, and whatever makes no sense is a `RemoteError`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from greenroom.core import NetworkError
from greenroom.core._internal import InvalidJSONError, clip, current_traceparent, serde
from greenroom.interop import a2a_wire as wire
from greenroom.interop.remote_server import RemoteError, RemoteLostError
from greenroom.llm import ModelStreamError
from greenroom.llm._internal import SSEDecoder
from greenroom.net import HttpClient
from greenroom.net._internal import HttpResponse, Timeouts

_LONGEST = 16 << 20  # bytes of a reply
_LONGEST_CARD = 1 << 20
_LONGEST_STREAM = 64 << 20  # bytes of all events of one stream
_SHORT = Timeouts(response=30.0, read=30.0, total=60.0)
_STREAM = Timeouts(read=600.0)  # no peer has to say that it still works

T = TypeVar("T", bound=msgspec.Struct)


class A2APeer:
    """One agent at an address, with a token of its own.

    Attributes:
        address: the address below which its card is.
        host: the host of the address, for people.
        card: what the agent says of itself, once that is known.
    """

    def __init__(self, address: str, token: str | None) -> None:
        """Name an agent; nothing is asked before the first request."""
        self.address = address
        self.host = urlsplit(address).netloc
        self.card = wire.Card("")
        self._headers = {"a2a-version": wire.VERSION, "content-type": "application/json"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"
        self._url = self._tenant = ""
        self._last = 0
        self._client = HttpClient()

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def find(self) -> None:
        """Read the agent's card, unless that was done.

        Raises:
            RemoteError: there is none, or it names nothing that can be spoken to here.
            RemoteLostError: the agent can't be reached.
        """
        if self._url:
            return
        async with self._open("GET", f"{self.address}/{wire.CARD_PATH}", None, _SHORT) as reply:
            data = await self._read_body(reply, _LONGEST_CARD)
        if reply.status != 200:
            raise RemoteError(
                f"{self.host} has no agent's card: it answers {reply.status}",
                status=reply.status,
                hint="check the address: the card is below it, at /.well-known/agent-card.json",
            )
        self.card = self._decode(data, wire.Card)
        fitting = [
            each
            for each in self.card.supported_interfaces
            if each.protocol_binding == "JSONRPC" and each.protocol_version.startswith("1.")
        ]
        if not fitting:
            raise RemoteError(
                f"the agent at {self.host} does not speak A2A {wire.VERSION} in JSON-RPC",
                hint="ask for an agent that does",
            )
        chosen = fitting[0]
        if _origin_of(chosen.url) != _origin_of(self.address):
            raise RemoteError(
                f"the card at {self.host} points elsewhere, to {clip(chosen.url, 200)!r}",
                hint="nothing was sent there: give that address yourself if you trust it",
            )
        self._url, self._tenant = chosen.url, chosen.tenant

    async def call(self, method: str, params: msgspec.Struct, kind: type[T]) -> T:
        """Call a method, and return its result.

        Raises:
            RemoteError: the agent refuses, or its answer makes no sense.
            RemoteLostError: it can't be reached.
        """
        number, content = self._encode(method, params)
        async with self._open("POST", self._url, content, _SHORT) as reply:
            return await self._read_reply(reply, number, kind)

    @asynccontextmanager
    async def open_stream(self, method: str, params: msgspec.Struct) -> AsyncIterator["TaskEvents"]:
        """Call a method whose result is a stream of events.

        Raises:
            RemoteError: the agent refuses.
            RemoteLostError: it can't be reached.
        """
        number, content = self._encode(method, params)
        async with self._open("POST", self._url, content, _STREAM) as reply:
            media_type = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
            if reply.status != 200 or media_type != "text/event-stream":
                await self._read_reply(reply, number, wire.Event)
                raise RemoteError(f"{self.host} answers {method} with no stream")
            yield TaskEvents(self, reply, number)

    def read_result(self, data: bytes, number: int, kind: type[T]) -> T:
        """Read an answer of JSON-RPC to the request with this number.

        Raises:
            RemoteError: it is a refusal, or makes no sense.
        """
        answer = self._decode(data, _Answer)
        if answer.error is not None:
            message = clip(answer.error.message, 2_000)
            raise RemoteError(f"{self.host} refuses: {message} ({answer.error.code})")
        if answer.id != number or answer.result is None:
            raise RemoteError(f"{self.host} answers another request than ours")
        try:
            return wire.read(answer.result, kind)
        except msgspec.ValidationError as error:
            raise self._no_sense(str(error)) from error

    def _encode(self, method: str, params: msgspec.Struct) -> tuple[int, bytes]:
        """Return the number of a new request, and the request."""
        self._last += 1
        number = self._last
        given = msgspec.to_builtins(params)
        if self._tenant:
            given["tenant"] = self._tenant
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": given}
        return number, serde.encode(request)

    async def _read_reply(self, reply: HttpResponse, number: int, kind: type[T]) -> T:
        data = await self._read_body(reply, _LONGEST)
        if reply.status != 200:
            raise RemoteError(f"{self.host} answers {reply.status}", status=reply.status)
        return self.read_result(data, number, kind)

    async def _read_body(self, reply: HttpResponse, limit: int) -> bytes:
        if 300 <= reply.status < 400:
            raise RemoteError(
                f"{self.host} redirects, and no redirect is followed",
                status=reply.status,
                hint="give the address itself",
            )
        data = await reply.read(limit + 1)
        if len(data) > limit:
            raise RemoteError(f"{self.host} answers with more than {limit >> 20} MB")
        return data

    def _decode(self, data: bytes, kind: type[T]) -> T:
        try:
            return wire.read(serde.loads(data), kind)
        except (InvalidJSONError, msgspec.ValidationError) as error:
            raise self._no_sense(str(error)) from error

    def _no_sense(self, problem: str) -> RemoteError:
        return RemoteError(f"the answer of {self.host} makes no sense: {clip(problem, 300)}")

    @asynccontextmanager
    async def _open(
        self, method: str, url: str, content: bytes | None, timeout: Timeouts
    ) -> AsyncIterator[HttpResponse]:
        parent = current_traceparent()  # so that the far turn is a part of the trace here
        headers = {**self._headers, "traceparent": parent} if parent else self._headers
        try:
            async with self._client.stream(
                method, url, headers=headers, content=content, timeout=timeout
            ) as reply:
                yield reply
        except NetworkError as error:
            raise RemoteLostError(f"{self.host} is lost: {error.message}") from error


class _Error(wire.Form, frozen=True):
    code: int
    message: str = ""


class _Answer(wire.Form, frozen=True):
    id: str | int | None = None
    result: dict[str, object] | None = None
    error: _Error | None = None


class TaskEvents:
    """The events of an open stream, in batches as they come."""

    def __init__(self, peer: A2APeer, reply: HttpResponse, number: int) -> None:
        """Read this reply to the request with this number."""
        self._number = number
        self._peer = peer
        self._chunks = reply.chunks()
        self._decoder = SSEDecoder()
        self._size = 0

    async def take(self) -> list[wire.Event]:
        """Wait for what comes next; empty at the end of the stream.

        Raises:
            NetworkError: the connection broke; `open_stream` makes a `RemoteLostError` of it.
            RemoteError: the agent refuses, or an event makes no sense, or there is no end of them.
        """
        async for piece in self._chunks:
            self._size += len(piece)
            if self._size > _LONGEST_STREAM:
                raise RemoteError(f"{self._peer.host} sends more than {_LONGEST_STREAM >> 20} MB")
            try:
                events = self._decoder.feed(piece)
            except ModelStreamError as error:
                raise RemoteError(f"{self._peer.host} sends an event without end") from error
            if events:
                return [
                    self._peer.read_result(each.data.encode(), self._number, wire.Event)
                    for each in events
                ]
        return []


def _origin_of(url: str) -> tuple[str, str, int] | None:
    """Return the scheme, the host and the port of an address; None if it is none of HTTP."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        return None
    return parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80)
