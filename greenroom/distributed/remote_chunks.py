"""The chunks of an agent on a host, read from wherever it runs by then."""

import re
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

import trio

from greenroom.core import (
    Error,
    Exited,
    Lagged,
    NetworkError,
    OutputChunk,
    PermissionRequest,
)
from greenroom.core._internal import InvalidJSONError, serde
from greenroom.distributed.directory import Placed
from greenroom.distributed.host_client import session_path
from greenroom.distributed.links import LOST, Links
from greenroom.distributed.outcomes import read_outcome
from greenroom.distributed.signing import OTHER_HOST, TOO_EARLY
from greenroom.interop import RemoteError
from greenroom.interop._internal import Patience, read_chunk
from greenroom.llm import ModelStreamError, SSEEvent
from greenroom.llm._internal import SSEDecoder

if TYPE_CHECKING:
    from greenroom.net._internal import ChunkIterator

RemoteReplay: TypeAlias = Literal["none", "all"] | tuple[int, int]
"""Where a reader begins: what comes next, what the agent still has, or a position."""

CUT_OFF = "cut-off:"
"""How the id of the question begins whether a turn goes on that was cut off."""

_NUMBER = re.compile("[0-9]{1,19}")
_PAUSE = 0.1  # seconds between two looks for a host
_FENCED = "SessionFencedError"
_PASSING = frozenset({404, 409, OTHER_HOST, TOO_EARLY, 429, 502, 503, 504})


class RemoteChunks:
    """Reads the chunks of an agent: an async context manager, and an iterator.

    The chunks of a host that has lost the agent are not shown; where the agent goes on elsewhere,
    what is lost in between is a `Lagged`. It ends with the agent's `Exited`. Reading raises
    `RemoteLostError` where no host tells anything of the agent for a minute, `RemoteError` where
    one refuses to or makes no sense, `ConfigurationError` where its secret or clock is another, and
    `SessionStorageError` where the database is away for too long.

    Attributes:
        position: behind the last chunk: (epoch, number), from which another reader may go on.
    """

    def __init__(self, session_id: str, links: Links, replay: RemoteReplay) -> None:
        """Made by `RemoteAgent.subscribe`.

        Raises:
            ValueError: it can't begin there.
        """
        self.position = _check_replay(replay)
        self._session_id = session_id
        self._links = links
        self._skips = replay == "none"
        self._stack = AsyncExitStack()
        self._pieces: ChunkIterator | None = None
        self._decoder = SSEDecoder()
        self._events: list[SSEEvent] = []
        self._missed: int | None = None  # as the last gap says
        self._host: tuple[int | None, int] = (None, 0)
        self._last: Exited | None = None
        self._asked: str | None = None  # the question of the machinery that was shown
        self._question: PermissionRequest | None = None  # and the one that is to be
        self._has_ended = False
        self._patience = Patience(f"the agent of {session_id!r}", LOST)
        self._is_heard = True  # since the last attempt to connect

    async def __aenter__(self) -> Self:
        if not self._skips:
            return self
        path = session_path(self._session_id)
        try:
            told = await self._links.ask_host(self._session_id, "GET", path, dict[str, object])
        except RemoteError as error:
            if error.status != 404:  # it is only starting there, and all is yet to come
                raise
        else:
            self._note_position(str(told.get("position") or ""))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> OutputChunk:
        while not self._has_ended:
            if self._last is not None:
                self._has_ended = True
                return self._last
            if self._question is not None:
                question, self._question = self._question, None
                return question
            if not self._events:
                self._events = await self._read()
                continue
            event = self._events.pop(0)
            if event.name == "snapshot":  # from which the host would go on
                await self._close()  # and read all that the agent still has
                return self._skip_gap(event.id)
            chunk = self._take(event)
            if isinstance(chunk, Error) and chunk.kind == _FENCED:
                await self._close()  # it is another host's, which goes on
            elif isinstance(chunk, Exited):
                if await self._is_over():
                    self._has_ended = True
                    return chunk
                await self._close()
            elif chunk is not None:
                return chunk
        raise StopAsyncIteration

    def _take(self, event: SSEEvent) -> OutputChunk | None:
        data = event.data.encode()
        chunk: OutputChunk | None = None
        try:
            if event.name == "gap":
                self._missed = serde.decode(data, dict[str, int | None]).get("missed")
            elif not event.name:
                chunk = read_chunk(data)
        except InvalidJSONError as error:
            raise RemoteError("a host sends an event that is not ours") from error
        self._note_position(event.id)
        return chunk

    def _skip_gap(self, written: str) -> Lagged:
        """Go on behind the chunks that are lost; in another life of the agent, at its beginning."""
        before, self.position = self.position, None
        self._note_position(written)
        now, self.position = self.position, None
        if self._missed is None or now is None or (before is not None and before[0] != now[0]):
            return Lagged(None)
        self.position = now[0], self._missed + (0 if before is None else before[1])
        return Lagged(self._missed)

    def _note_position(self, written: str) -> None:
        if not written:
            return
        epoch, _, number = written.partition(".")
        if not (_NUMBER.fullmatch(epoch) and _NUMBER.fullmatch(number)):
            raise RemoteError("a host sends what is not a position")
        self.position = int(epoch), int(number)

    async def _read(self) -> list[SSEEvent]:
        """Wait for events; connect where the agent is, if there is no connection."""
        if self._pieces is None:
            await self._connect()
        if self._pieces is None:
            return []
        reason = "its stream has ended"
        try:
            piece = await anext(self._pieces, None)
            events = [] if piece is None else self._decoder.feed(piece)
        except NetworkError as error:
            piece, events, reason = None, [], error.message
        except ModelStreamError as error:
            raise RemoteError(f"a host sends a broken stream: {error.message}") from error
        if piece is None:
            await self._lose(reason)
            return []
        self._is_heard = True
        if not events:  # a heartbeat: nothing happens there
            placed = await self._links.find(self._session_id)
            if placed is None or (placed.host, placed.epoch) != self._host:
                await self._close()
            else:
                self._note_asked(placed)
        return events

    def _note_asked(self, placed: Placed) -> None:
        """Show the question of the machinery once, which no agent asks."""
        if placed.asked is not None and placed.asked != self._asked:
            self._question = ask_about(placed.asked, placed.host_name)
        self._asked = placed.asked

    async def _lose(self, reason: str) -> None:
        """Close the connection, and wait before the next attempt.

        Raises:
            RemoteLostError: nothing was heard for a minute.
        """
        await self._close()
        if self._is_heard:
            self._patience.heard()
            self._is_heard = False
        await self._patience.wait(reason)

    async def _connect(self) -> None:
        while self._pieces is None:
            placed = await self._links.find(self._session_id)
            if placed is None or placed.state != "live":
                outcome = read_outcome(None if placed is None else placed.outcome)
                self._last = Exited(outcome.status, str(outcome.error or ""))
                return
            if placed.target is None:
                await self._lose("no host has it")
                continue
            client = await self._links.client()
            after = "" if self.position is None else f"{self.position[0]}.{self.position[1]}"
            try:
                reply = await self._stack.enter_async_context(
                    client.open_stream(placed.target, self._session_id, after)
                )
            except (NetworkError, RemoteError) as error:
                if isinstance(error, RemoteError) and error.status not in _PASSING:
                    raise
                await self._lose(error.message)
            else:
                self._pieces, self._decoder = reply.chunks(), SSEDecoder()
                self._host = placed.host, placed.epoch
                self._note_asked(placed)

    async def _close(self) -> None:
        self._pieces, self._events = None, []
        await self._stack.aclose()

    async def _is_over(self) -> bool:
        """Whether the agent has ended; else it has moved."""
        while True:
            placed = await self._links.find(self._session_id)
            if placed is None or placed.state != "live":
                return True
            if (placed.host, placed.epoch) != self._host:
                return False
            await trio.sleep(_PAUSE)


def _check_replay(replay: RemoteReplay) -> tuple[int, int] | None:
    """Return the position at which a reader begins, if it is one."""
    if replay in ("none", "all"):
        return None
    if isinstance(replay, tuple) and len(replay) == 2:
        epoch, number = replay
        if isinstance(epoch, int) and isinstance(number, int) and epoch >= 0 and number >= 0:
            return epoch, number
    raise ValueError(f"a reader begins at 'none', 'all' or a position, not {replay!r}")


def ask_about(input_id: str, host: str) -> PermissionRequest:
    """Make the question whether a turn that was cut off goes on."""
    return PermissionRequest(
        f"{CUT_OFF}{input_id}",
        "",
        "go on with the turn that the end of its host has cut off",
        reason="the agent is on another host now, whose files may be others",
        host=host,
    )
