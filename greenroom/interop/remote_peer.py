"""An agent of a cluster as one here: what `remote` returns for an object that has its methods.

Its inputs are stored before they are taken, and its chunks are read from wherever it runs by then,
so a turn here outlives the end of the host that does it.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Literal, Protocol, Self

import trio

from greenroom.core import (
    Answer,
    ContentBlock,
    Lagged,
    Message,
    OutputChunk,
    PermissionRequest,
    TurnError,
    UserInput,
)
from greenroom.core._internal import serde
from greenroom.flow._internal import Trace
from greenroom.interop.far_session import Far, FarEvents, FarNow, read_record
from greenroom.interop.remote_depth import DEPTH
from greenroom.interop.remote_server import RemoteError
from greenroom.interop.remote_turn import FarTurn, forward_inputs
from greenroom.llm import SSEEvent
from greenroom.runtime import AgentInternals, InterruptReport, Receipt, TurnResult
from greenroom.runtime._internal import InterruptMode, Turn, show_view
from greenroom.session import AgentSession


class PeerChunks(Protocol):
    """What is read of an agent.

    Attributes:
        position: behind the last chunk.
    """

    position: tuple[int, int] | None

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> OutputChunk: ...


class Peer(Protocol):
    """What `remote` needs of an agent elsewhere, as `RemoteAgent` has it."""

    @property
    def session_id(self) -> str:
        """The id of its session."""

    @property
    def agent_type(self) -> str:
        """The name of its type."""

    async def send_input(
        self,
        content: str | Iterable[ContentBlock],
        *,
        id: str | None = None,  # noqa: A002 (the field's word for it)
        sender: str = "",
        metadata: Mapping[str, object] | None = None,
    ) -> Receipt:
        """Send it an input, which is taken once under its id."""

    async def answer(self, receipt: Receipt | str, timeout: float | None = None) -> TurnResult:
        """Wait for the result of an input's turn, or raise `TooSlowError` after so many seconds."""

    def subscribe(self, replay: Literal["none", "all"] | tuple[int, int] = "all") -> PeerChunks:
        """Read its chunks."""

    async def pending(self) -> tuple[PermissionRequest, ...]:
        """Return its open questions."""

    async def respond_permission(
        self,
        request_id: str,
        decision: str,
        *,
        remember: Literal["session"] | None = None,
        message: str | None = None,
        input: dict[str, object] | None = None,  # noqa: A002 (the field's word for it)
    ) -> bool:
        """Answer a question."""

    async def interrupt(
        self, mode: InterruptMode = "now", grace: float = 2.0, *, input_id: str | None = None
    ) -> InterruptReport:
        """Stop the turn of an input."""

    async def history(self) -> tuple[Message, ...]:
        """Return its conversation."""


class PeerAgent:
    """The agent function that forwards to a `Peer`.

    Attributes:
        name: what it is called in a team.
    """

    def __init__(self, peer: Peer) -> None:
        """Forward to this agent."""
        self.name = peer.agent_type
        self._peer = peer

    def __repr__(self) -> str:
        return f"<{self.name}, remote in the session {self._peer.session_id}>"

    def view(self, session: AgentSession) -> "_PeerView":
        """Return what the handle of an agent in this session shows of the conversation."""
        return _PeerView(self._peer)

    def inspect(self, session: AgentSession) -> Trace:
        """Say whether its work may begin again: an input is taken once."""
        return Trace("nothing", session if read_record(session) is not None else None)

    async def __call__(self, internals: AgentInternals) -> None:
        """Forward each input, until the agent here ends; the one elsewhere stays."""
        show_view(internals, self.view(internals.session))
        far = _PeerSession(internals.session, self._peer)

        async def run_turn(turn: Turn, message: UserInput) -> None:
            await FarTurn(internals, far, turn, message).run()

        async for message in internals.inputs():
            await forward_inputs(internals, message, run_turn)


class _PeerView:
    """The conversation of the far agent, for the handle of the one here."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    async def history(self) -> tuple[Message, ...]:
        """Return the far conversation, as far as it is saved."""
        return await self._peer.history()

    async def children(self) -> tuple[str, ...]:
        """Return nothing: an agent of a cluster has those below it where it runs."""
        await trio.lowlevel.checkpoint()
        return ()


class _PeerSession(Far):
    """The session of an agent of a cluster."""

    def __init__(self, own: AgentSession, peer: Peer) -> None:
        super().__init__(own, "cluster:", peer.session_id)
        self.host = peer.agent_type
        self._peer = peer

    async def find(self) -> None:
        """Do nothing: it is there."""
        await trio.lowlevel.checkpoint()

    @asynccontextmanager
    async def open_turn(
        self, message: UserInput, input_id: str, depth: int, on_data: Callable[[], None]
    ) -> AsyncIterator[FarEvents]:
        """Send the input once a reader is there that misses nothing of its turn."""
        async with self.open_stream(on_data) as stream:
            try:
                await self._peer.send_input(
                    message.content,
                    id=input_id,
                    sender=message.sender,
                    metadata={**message.metadata, DEPTH: depth},
                )
            except ValueError as error:
                raise RemoteError(f"the agent {self.host!r} refuses the input: {error}") from error
            yield stream

    @asynccontextmanager
    async def open_stream(self, on_data: Callable[[], None]) -> AsyncIterator[FarEvents]:
        """Read on from the position; without one, from now on."""
        epoch, _, number = self.position.partition(".")
        replay: Literal["none"] | tuple[int, int] = "none"
        if number:
            replay = int(epoch), int(number)
        async with self._peer.subscribe(replay) as chunks:
            yield _PeerEvents(chunks, self, on_data)

    async def read(self) -> FarNow:
        """Read what is asked, and the conversation."""
        return FarNow(await self._peer.pending(), await self._peer.history())

    async def read_result(self, input_id: str, wait: float = 0.0) -> TurnResult | None:
        """Read a result that is on record, or wait for it."""
        try:
            return await self._peer.answer(input_id, wait)
        except trio.TooSlowError:
            return None
        except TurnError as error:
            raise RemoteError(error.message, status=404) from error

    async def interrupt(self, input_id: str, mode: InterruptMode, grace: float) -> InterruptReport:
        """Ask for it, wherever the agent runs by then."""
        return await self._peer.interrupt(mode, grace, input_id=input_id)

    async def place_of(self, request: PermissionRequest) -> str:
        """Return the name of the machine on which the agent is now."""
        asked = {each.request_id: each.host for each in await self._peer.pending()}
        return request.host or asked.get(request.request_id, "") or self.host

    async def respond(self, request: PermissionRequest, answer: Answer) -> None:
        """Pass an answer on; it counts if nobody was faster."""
        await self._peer.respond_permission(
            request.request_id,
            answer.decision,
            remember="session" if answer.remember else None,
            message=answer.message or None,
            input=answer.input,
        )


class _PeerEvents:
    """The chunks of an agent, as events of the API."""

    goes_on = True

    def __init__(self, chunks: PeerChunks, far: _PeerSession, on_data: Callable[[], None]) -> None:
        self._chunks = chunks
        self._far = far
        self._on_data = on_data

    async def take(self) -> list[SSEEvent]:
        """Wait for the next chunk; where some are lost, for how it is now too."""
        chunk = await anext(self._chunks, None)
        if chunk is None:
            return []
        self._on_data()
        position = self._chunks.position
        at = "" if position is None else f"{position[0]}.{position[1]}"
        if not isinstance(chunk, Lagged):
            return [SSEEvent(serde.encode(chunk).decode(), "", at)]
        events = [SSEEvent(serde.encode({"missed": chunk.missed}).decode(), "gap", at)]
        if chunk.missed is None:
            now = serde.encode(await self._far.read()).decode()
            events.append(SSEEvent(now, "snapshot", at))
        return events
