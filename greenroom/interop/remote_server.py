"""A Greenroom server, as its clients here use it: requests that may be sent again, and its stream.

Each request is sent again while the server can't be reached, up to a minute: an input has an id, an
answer counts once, and the rest changes nothing. The token goes to the address that it was given
for, and nowhere else: no redirect is followed. Replies are another program's word: each is bounded
in size and time, and read by its type.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import chain, repeat
from typing import TypeVar, cast, get_args
from urllib.parse import SplitResult, quote, urlsplit

import msgspec
import trio

from greenroom.core import ConfigurationError, GreenroomError, NetworkError, OutputChunk
from greenroom.core._internal import InvalidJSONError, clip, serde
from greenroom.llm import ModelStreamError, SSEEvent
from greenroom.llm._internal import SSEDecoder
from greenroom.net import HttpClient
from greenroom.net._internal import HttpResponse, Timeouts

LOST = 60.0
"""Seconds for which a server that can't be reached is tried again."""

LONGEST_HISTORY = 64 << 20
"""Bytes of a conversation."""

_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)
_LONGEST = 16 << 20  # bytes of another reply
_STREAM = Timeouts(read=40.0)  # a heartbeat comes every 15 seconds
_ONE = Timeouts(response=90.0, total=120.0)
_API = 1
_BUSY = frozenset({429, 502, 503, 504})

T = TypeVar("T")


class RemoteError(GreenroomError):
    """An agent elsewhere, or its server, refuses something or makes no sense.

    Attributes:
        status: the status of HTTP that its server has answered with; 0 without one.
    """

    remedy = "look at the server's log"

    def __init__(self, message: str, *, status: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


class RemoteLostError(RemoteError):
    """The server of an agent elsewhere can't be reached; what was sent may still be done there."""

    retryable = True
    remedy = "check the address, and whether the server runs; its sessions are kept there"


class _Health(msgspec.Struct):
    server: str
    api: int


class ServedAgent(msgspec.Struct):
    """An agent that a server offers."""

    name: str
    description: str = ""


class _ServedAgents(msgspec.Struct):
    agents: tuple[ServedAgent, ...]


class Patience:
    """How long a server that can't be reached is tried again, and when."""

    def __init__(self, host: str, lost: float | None = None) -> None:
        """Begin now; by default it is tried for a minute."""
        self._host = host
        self._lost = LOST if lost is None else lost
        self.heard()

    def heard(self) -> None:
        """Note that the server was just heard."""
        self.seen()
        self._pauses = chain(_PAUSES, repeat(_PAUSES[-1]))

    def seen(self) -> None:
        """Note that it is there, though it may have said nothing: pauses go on growing."""
        self._since, self._broken_at = trio.current_time(), float("inf")

    async def wait(self, reason: str, on_wait: Callable[[float], None] = lambda _: None) -> None:
        """Wait until it may be tried again; `on_wait` gets for how long it will have been tried.

        Raises:
            RemoteLostError: it was tried for long enough.
        """
        pause = next(self._pauses)
        now = trio.current_time()
        self._broken_at = min(self._broken_at, now)
        if now + pause - self._since > self._lost:
            raise RemoteLostError(f"{self._host} can't be reached: {reason}")
        on_wait(now + pause - self._broken_at)
        await trio.sleep(pause)


class RemoteServer:
    """One server, with a token of its own."""

    def __init__(self, address: str, token: str | None) -> None:
        """Name a server; nothing is asked before the first request.

        Raises:
            ConfigurationError: it is not an address of http or https, or it holds a password.
        """
        parts = _split(address)
        if parts is None:
            raise ConfigurationError(
                "the address of a server is http://HOST:PORT or https://HOST, without a user",
                hint="pass the token as token=",
            )
        self.address = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self.host = parts.netloc
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._client = HttpClient()

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def is_ours(self) -> bool:
        """Ask whether it is a Greenroom server with its API, of any version.

        Raises:
            RemoteLostError: it can't be reached for a minute.
        """
        try:
            health = await self.ask("GET", "/health", _Health)
        except RemoteLostError:
            raise
        except RemoteError:
            return False  # whatever it is, it knows no such path
        return health.server == "greenroom" and health.api != 0

    async def check(self, lost: float | None = None) -> None:
        """Ask whether it is a server of ours, for so many seconds at the most.

        Raises:
            RemoteError: it is something else, or speaks another version.
            RemoteLostError: it can't be reached.
        """
        try:
            health = await self.ask("GET", "/health", _Health, lost=lost)
        except RemoteLostError:
            raise
        except RemoteError as error:
            raise self._not_ours(error.status) from error
        if (health.server, health.api) != ("greenroom", _API):
            raise self._not_ours()

    def _not_ours(self, status: int = 0) -> RemoteError:
        what = f"{self.host} is not a Greenroom server with the API {_API}"
        return RemoteError(what, status=status, hint="check the address")

    async def list_agents(self) -> tuple[ServedAgent, ...]:
        """List the agents that it offers; there is at least one.

        Raises:
            RemoteError: it refuses, or its answer makes no sense.
            RemoteLostError: it can't be reached for a minute.
        """
        served = await self.ask("GET", "/api/agents", _ServedAgents)
        if not served.agents:
            raise RemoteError(f"{self.host} serves no agent")
        return served.agents

    async def ask(
        self,
        method: str,
        path: str,
        kind: type[T],
        body: Mapping[str, object] | None = None,
        *,
        limit: int = _LONGEST,
        lost: float | None = None,
    ) -> T:
        """Send a request, again while the server can't be reached; return what it answers.

        Raises:
            RemoteError: it refuses, or its answer makes no sense.
            RemoteLostError: it can't be reached for a minute, or for `lost` seconds.
        """
        content = None if body is None else serde.encode(body)
        patience = Patience(self.host, lost)
        while True:
            try:
                async with self._open(method, path, content, _ONE) as reply:
                    data = await reply.read(limit + 1)
                    if reply.status not in _BUSY:
                        return self._read(reply.status, data, kind, limit)
                    reason = f"it answers {reply.status}"
            except NetworkError as error:
                reason = error.message
            await patience.wait(reason)

    def _read(self, status: int, data: bytes, kind: type[T], limit: int = _LONGEST) -> T:
        if len(data) > limit:
            raise RemoteError(f"{self.host} answers with more than {limit:,} bytes", status=status)
        try:
            if 200 <= status < 300:
                return serde.decode(data, kind)
            told = serde.decode(data, dict[str, object])
        except InvalidJSONError as error:
            raise RemoteError(
                f"{self.host} answers {status} with no JSON of ours", status=status
            ) from error
        why, hint = (clip(str(told.get(key) or ""), 2_000) for key in ("error", "hint"))
        message = f"{self.host} answers {status}: {why}" if why else f"{self.host} answers {status}"
        raise RemoteError(message, status=status, hint=hint)

    @asynccontextmanager
    async def open_stream(
        self,
        path: str,
        position: str,
        body: Mapping[str, object] | None = None,
        on_data: Callable[[], None] = lambda: None,
    ) -> AsyncIterator["EventStream"]:
        """Open a stream of chunks, from a position on; with a body by POST.

        `on_data` is called for everything that comes, heartbeats too.

        Raises:
            RemoteError: the server refuses.
            NetworkError: it can't be reached.
        """
        path += f"{'&' if '?' in path else '?'}after={quote(position)}" if position else ""
        method, content = ("GET", None) if body is None else ("POST", serde.encode(body))
        async with self._open(method, path, content, _STREAM) as reply:
            if reply.status in _BUSY:
                raise NetworkError(f"{self.host} answers {reply.status}")
            if reply.status != 200:
                data = await reply.read(_LONGEST)
                self._read(max(reply.status, 300), data, dict[str, object])
            if not reply.headers.get("content-type", "").startswith("text/event-stream"):
                raise RemoteError(f"{self.host} answers without a stream")
            on_data()
            yield EventStream(reply, self.host, on_data, goes_on=body is None)

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, content: bytes | None, timeout: Timeouts
    ) -> AsyncIterator[HttpResponse]:
        url = f"{self.address}{path}"
        async with self._client.stream(
            method, url, headers=self._headers, content=content, timeout=timeout
        ) as reply:
            yield reply


class _Kind(msgspec.Struct):
    type: str


_KINDS = frozenset(each.__struct_config__.tag for each in get_args(OutputChunk))


def read_chunk(data: bytes) -> OutputChunk | None:
    """Read a chunk; None if it is of a kind that only a newer program knows.

    Raises:
        InvalidJSONError: it is not a chunk.
    """
    try:
        return serde.decode(data, cast("type[OutputChunk]", OutputChunk))
    except InvalidJSONError:
        if serde.decode(data, _Kind).type in _KINDS:
            raise
        return None


def _split(address: str) -> SplitResult | None:
    """Return the parts of a server's address, if it is one."""
    try:
        parts = urlsplit(address)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as a port that is not a number
        return None
    has_more = "@" in parts.netloc or parts.query or parts.fragment
    return parts if is_address and not has_more else None


class EventStream:
    """The events of an open stream, in batches as they come.

    Attributes:
        goes_on: whether it is the stream of an agent, not of a turn.
    """

    def __init__(
        self, reply: HttpResponse, host: str, on_data: Callable[[], None], *, goes_on: bool
    ) -> None:
        """Read this reply."""
        self.goes_on = goes_on
        self._chunks = reply.chunks()
        self._host = host
        self._on_data = on_data
        self._decoder = SSEDecoder()

    async def take(self) -> list[SSEEvent]:
        """Wait for what comes next; empty at the end of the stream.

        Raises:
            NetworkError: the connection broke.
            RemoteError: an event is longer than 16 MB.
        """
        try:
            async for piece in self._chunks:
                self._on_data()
                if events := self._decoder.feed(piece):
                    return events
        except ModelStreamError as error:
            raise RemoteError(f"{self._host} sends a broken stream: {error.message}") from error
        return []
