"""`remote`: an agent function that forwards to an agent of another server.

Theory of operation
===================

The agent here has the mailbox, the turns, and the people who answer; the one there has the
conversation, the model and the tools. `remote_turn` has what happens in a turn.

The session here stores no messages: only a record of the far session, and of the input that was
sent and is not known to be answered. The record is stored before anything is sent. So an agent that
is started again with this session, even after the end of its process, finds the far session again;
and if it is given the input that was cut off once more, it goes on with the far turn of that input,
in place of a second one. The id of the far session follows from the one here, so a request for a
session that is sent twice makes one.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from urllib.parse import quote

import msgspec
import trio

from greenroom.core import (
    AgentExit,
    Answer,
    ConfigurationError,
    Message,
    PermissionRequest,
    Resume,
    SubAgentResult,
    UserInput,
)
from greenroom.core._internal import serde
from greenroom.flow._internal import Trace
from greenroom.interop.a2a_peer import A2APeer
from greenroom.interop.far_session import RECORD, Far, FarEvents, FarNow, FarRecord, read_record
from greenroom.interop.remote_a2a import A2AConversation, describe_open_task
from greenroom.interop.remote_depth import DEPTH
from greenroom.interop.remote_peer import Peer, PeerAgent
from greenroom.interop.remote_server import LONGEST_HISTORY, RemoteError, RemoteServer
from greenroom.interop.remote_turn import FarTurn, forward_inputs
from greenroom.runtime import AgentInternals, InterruptReport, TurnResult
from greenroom.runtime._internal import InterruptMode, Turn, show_view
from greenroom.session import AgentSession

_CLOSING = 2.0  # seconds to close connections
_LONGEST_ID = 200
_AT_REST = ("idle", "done", "failed")


def remote(
    target: str | Peer,
    *,
    agent: str | None = None,
    session: str | None = None,
    token: str | None = None,
) -> Callable[[AgentInternals], Awaitable[None]]:
    """Return an agent function whose work an agent elsewhere does.

    Spawn it as any other: what it tells, asks and answers is what the far agent does, and an
    interrupt has returned when that has stopped. The conversation is kept by the server, and the
    handle's `history()` and `children()` show it. While the server can't be reached, a turn waits
    up to a minute, and goes on where it was; the state says so, and at most 16 inputs wait.

    Another server is spoken to by A2A 1.0: then its replies, artifacts and questions are told, but
    no calls and no history, and a connection that breaks fails the turn.

    An agent of a cluster is spoken to through its mailbox, and goes on if its host ends: a turn
    here waits for the host that takes it over.

    Args:
        target: the address of the server, such as "https://agents.example", or that below which
            the card of an agent is that speaks A2A; or a `RemoteAgent`, which takes nothing else.
        agent: the name of the agent at a Greenroom server; by default the first that is served.
        session: a session there to go on with, or a context of A2A; by default a new one, or that
            of the record of this agent's own session.
        token: a token of an operator; it goes to this address, and nowhere else.

    Raises:
        ConfigurationError: the target is not an address, or is an agent, and more is given.

    Example:
        ```python
        handle = runtime.spawn(AgentSession.new("far"), remote("https://agents.example", token=…))
        print((await handle.ask("Is the build green?")).text)
        ```
    """
    if not isinstance(target, str):
        if agent is not None or session is not None or token is not None:
            raise ConfigurationError(
                "an agent of a cluster has its session, and needs no token", hint="remote(agent)"
            )
        return PeerAgent(target)
    server = RemoteServer(target, token)  # which refuses what is not an address
    return _RemoteAgent(server.address, server.host, agent, session, token)


def join_remote(
    target: str, *, agent: str | None = None, session: str | None = None, token: str | None = None
) -> Callable[[AgentInternals], Awaitable[None]]:
    """Return what `remote` does, which begins with the turn that is open in the session there."""
    server = RemoteServer(target, token)
    return _RemoteAgent(server.address, server.host, agent, session, token, joins=True)


def find_remote_session(session: AgentSession) -> str:
    """Return the id of the far session to which a session here belongs; empty without one."""
    record = read_record(session)
    return "" if record is None or record.protocol else record.session


class _RemoteAgent:
    """The agent function that `remote` returns.

    Attributes:
        name: what it is called in a team.
    """

    def __init__(
        self,
        address: str,
        host: str,
        agent: str | None,
        session: str | None,
        token: str | None,
        *,
        joins: bool = False,
    ) -> None:
        self.name = agent or host
        self._joins = joins
        self._address = address
        self._agent = agent
        self._session = session
        self._token = token

    def __repr__(self) -> str:
        return f"<{self.name}, remote at {self._address}>"

    def view(self, session: AgentSession) -> "_FarView":
        """Return what the handle of an agent in this session shows of the conversation."""
        return _FarView(session, self._session or "", self._address, self._token)

    def inspect(self, session: AgentSession) -> Trace:
        """Say whether its work may begin again: a Greenroom server takes an input once."""
        if doubt := describe_open_task(session):
            return Trace("unsure", session, doubt=doubt)
        return Trace("nothing", session if session.last_record(RECORD) is not None else None)

    async def __call__(self, internals: AgentInternals) -> None:
        """Forward each input, until the agent ends."""
        server = RemoteServer(self._address, self._token)
        far = _FarSession(internals, server, self._agent, self._session)
        view = self.view(internals.session)
        view.far = far
        show_view(internals, view)
        context = self._session or ""
        other = A2AConversation(internals, A2APeer(self._address, self._token), context)
        try:
            if self._joins and (open_input := await far.find_open_input()):
                await self._answer(internals, far, other, open_input, joins=True)
            async for message in internals.inputs():
                await self._answer(internals, far, other, message)
        finally:
            far.is_closed = True
            with internals.cleanup(_CLOSING):
                await server.aclose()
                await other.peer.aclose()

    async def _answer(
        self,
        internals: AgentInternals,
        far: "_FarSession",
        other: A2AConversation,
        message: UserInput | Resume | SubAgentResult | AgentExit,
        *,
        joins: bool = False,
    ) -> None:
        async def run_turn(turn: Turn, message: UserInput) -> None:
            if await far.is_ours():
                await FarTurn(internals, far, turn, message, joins=joins).run()
            elif self._agent is None:
                await other.run_turn(turn, message)
            else:
                raise RemoteError(
                    f"{far.server.host} is not a Greenroom server, whose agents have names",
                    hint="an agent that speaks A2A is named by its address",
                )

        await forward_inputs(internals, message, run_turn)


class _Made(msgspec.Struct):
    id: str


class _FarSession(Far):
    """The session of an agent of a server."""

    def __init__(
        self,
        internals: AgentInternals,
        server: RemoteServer,
        agent: str | None,
        session: str | None,
    ) -> None:
        super().__init__(internals.session, server.address, session or "")
        self.server = server
        self.host = server.host
        self.is_closed = False
        self._agent = agent
        self._is_ours: bool | None = None

    async def is_ours(self) -> bool:
        """Whether a Greenroom server is there, which is asked once, before the first turn.

        Raises:
            RemoteLostError: it can't be reached for a minute.
        """
        if self._is_ours is None:
            self._is_ours = await self.server.is_ours()
        return self._is_ours

    @property
    def is_other(self) -> bool:
        """Whether another server than ours was found, which shows no conversation."""
        return self._is_ours is False

    async def find(self) -> None:
        """Find the far session, or make one, and keep on record which one it is."""
        if self.session and self._record.session:
            return
        await self.server.check()
        before = read_record(self._own)
        is_there = before is not None and before.address == self.server.address
        if before is not None and is_there and before.session and not before.protocol:
            self._record, self.session = before, before.session
            return
        name = self._agent or (await self.server.list_agents())[0].name
        body = {"agent": name, "id": f"remote-{self._own.session_id}"}
        made = await self.server.ask("POST", "/api/sessions", _Made, body)
        if not 0 < len(made.id) <= _LONGEST_ID:
            raise RemoteError(f"{self.server.host} answers with an id that is none")
        self.session = made.id
        await self.keep(FarRecord(self.server.address, made.id))

    async def find_open_input(self) -> UserInput | None:
        """Return the input whose turn is open there; None if that can't be found out."""
        if not self.session:
            return None
        try:
            now = await self.server.ask("GET", self._path(), _Conversation, limit=LONGEST_HISTORY)
        except RemoteError:
            return None  # the first turn says so
        if now.state.get("kind") in _AT_REST:
            return None
        asked = (each for each in reversed(now.messages) if each.role == "user")
        found = next((each for each in asked if each.id and not each.tool_results), None)
        if found is None:
            return None
        return UserInput(tuple(found.content), id=found.id, sender=found.sender)

    def open_turn(
        self, message: UserInput, input_id: str, depth: int, on_data: Callable[[], None]
    ) -> AbstractAsyncContextManager[FarEvents]:
        """Ask for the turn of an input, whose stream ends with it."""
        body: dict[str, object] = {"content": message.content, "id": input_id}
        body["metadata"] = {**message.metadata, DEPTH: depth}
        if message.sender:
            body["sender"] = message.sender
        return self.server.open_stream(self._path("turn"), self.position, body, on_data)

    def open_stream(self, on_data: Callable[[], None]) -> AbstractAsyncContextManager[FarEvents]:
        """Read all that is told."""
        path = f"/api/stream?session={quote(self.session, safe='')}"
        return self.server.open_stream(path, self.position, None, on_data)

    async def read(self) -> FarNow:
        """Read a snapshot."""
        return await self.server.ask("GET", self._path(), FarNow, limit=LONGEST_HISTORY)

    async def read_result(self, input_id: str, wait: float = 0.0) -> TurnResult | None:
        """Ask for a result, waiting for it in one request."""
        path = self._path("inputs", input_id) + (f"?wait={wait:g}" if wait else "")
        told = await self.server.ask("GET", path, dict[str, object])
        if told.get("status") == "open":
            return None
        try:
            return serde.convert(told, TurnResult)
        except msgspec.ValidationError as error:
            raise RemoteError(f"{self.host} answers with no JSON of ours") from error

    async def interrupt(self, input_id: str, mode: InterruptMode, grace: float) -> InterruptReport:
        """Ask for it once the server can be reached."""
        body = {"mode": mode, "grace": grace, "input": input_id}
        return await self.server.ask("POST", self._path("interrupt"), InterruptReport, body)

    async def respond(self, request: PermissionRequest, answer: Answer) -> None:
        """Pass an answer on, with what it is about."""
        body: dict[str, object] = {"decision": answer.decision, "digest": request.digest}
        body["message"], body["input"] = answer.message or None, answer.input
        body["remember"] = answer.remember and "session"
        path = self._path("permissions", request.request_id)
        try:
            await self.server.ask("POST", path, dict[str, object], body)
        except RemoteError as error:
            if error.status not in (404, 409):  # somebody was faster
                raise

    def _path(self, *parts: str) -> str:
        return _path_of(self.session, *parts)


def _path_of(*parts: str) -> str:
    """Return the path of a session, or of something of it."""
    return "/".join(["/api/sessions", *(quote(each, safe="") for each in parts)])


class _Conversation(msgspec.Struct):
    state: dict[str, object] = {}
    messages: tuple[Message, ...] = ()
    children: tuple[str, ...] = ()


class _FarView:
    """The conversation of the far agent, for the handle of the one here."""

    def __init__(self, session: AgentSession, far_id: str, address: str, token: str | None) -> None:
        self.far: _FarSession | None = None  # while the agent runs
        self._own = session
        self._far_id = far_id
        self._address = address
        self._token = token

    async def history(self) -> tuple[Message, ...]:
        """Return the far conversation; empty before there is one.

        Raises:
            RemoteError: the server refuses, or its answer makes no sense.
            RemoteLostError: it can't be reached for a minute.
        """
        return (await self._read()).messages

    async def children(self) -> tuple[str, ...]:
        """Return the sessions of the far agent's subagents; raises what `history` does."""
        return (await self._read()).children

    async def _read(self) -> _Conversation:
        far, record = self.far, read_record(self._own)
        is_there = record is not None and record.address == self._address and not record.protocol
        id_ = self._far_id or (record.session if record is not None and is_there else "")
        if not id_ or (far is not None and far.is_other):
            await trio.lowlevel.checkpoint()
            return _Conversation()
        # What the agent has closed would be opened again, and never closed.
        is_open = far is not None and not far.is_closed
        server = far.server if far and is_open else RemoteServer(self._address, self._token)
        try:
            return await server.ask("GET", _path_of(id_), _Conversation, limit=LONGEST_HISTORY)
        finally:
            if not is_open:
                await server.aclose()
