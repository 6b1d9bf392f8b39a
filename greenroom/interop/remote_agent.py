"""`remote`: an agent function that forwards to an agent of another server.

Theory of operation
===================

The agent here has the mailbox, the turns, and the people who answer; the one there has the
conversation, the model and the tools. `remote_turn` has what happens in a turn.

The session here stores no messages: only a record of the far session, and of the input that was
sent and is not known to be answered. The record is stored before anything is sent. So an agent that
is started again with this session, also after the end of its process, finds the far session again;
and if it is given the input that was cut off once more, it goes on with the far turn of that input,
in place of a second one. The id of the far session follows from the one here, so a request for a
session that is sent twice makes one.
"""

import hashlib
from collections.abc import Awaitable, Callable
from urllib.parse import quote

import msgspec
import trio

from greenroom.core import AgentExit, Message, Resume, SubAgentResult, TurnError, UserInput
from greenroom.core._internal import serde
from greenroom.flow._internal import Trace
from greenroom.interop.a2a_peer import A2APeer
from greenroom.interop.remote_a2a import A2AConversation, describe_open_task
from greenroom.interop.remote_server import LONGEST_HISTORY, RemoteError, RemoteServer
from greenroom.interop.remote_turn import Far, FarTurn
from greenroom.interop.serving.served_sessions import OWNER
from greenroom.runtime import AgentInternals
from greenroom.runtime._internal import show_view
from greenroom.session import AgentSession

_RECORD = "remote"
_ARCHIVED = "archived"
_CLOSING = 2.0  # seconds to close connections
_LONGEST_ID = 200
_AT_REST = ("idle", "done", "failed")


def remote(
    target: str, *, agent: str | None = None, session: str | None = None, token: str | None = None
) -> Callable[[AgentInternals], Awaitable[None]]:
    """Return an agent function whose work an agent elsewhere does.

    Spawn it as any other: what it tells, asks and answers is what the far agent does, and an
    interrupt has returned when that has stopped. The conversation is kept by the server, and the
    handle's `history()` and `children()` show it. While the server can't be reached, a turn waits
    up to a minute, and goes on where it was; the state says so, and at most 16 inputs wait.

    Another server is spoken to by A2A 1.0: then its replies, artifacts and questions are told, but
    no calls and no history, and a connection that breaks fails the turn.

    Args:
        target: the address of the server, such as "https://agents.example", or that below which
            the card of an agent is that speaks A2A.
        agent: the name of the agent at a Greenroom server; by default the first that is served.
        session: a session there to go on with, or a context of A2A; by default a new one, or that
            of the record of this agent's own session.
        token: a token of an operator; it goes to this address, and nowhere else.

    Raises:
        ConfigurationError: the target is not an address.

    Example:
        ```python
        handle = runtime.spawn(AgentSession.new("far"), remote("https://agents.example", token=…))
        print((await handle.ask("Is the build green?")).text)
        ```
    """
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
    record = _read_record(session)
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
        return Trace("nothing", session if session.last_record(_RECORD) is not None else None)

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
        turn = internals.turn(message, append=False)
        turn.shows_text = True
        async with turn:
            if not isinstance(message, UserInput):
                raise TurnError(
                    "a turn of an agent elsewhere is not gone on with",
                    hint="send the input again under its id: it is taken once",
                )
            if await far.is_ours():
                await FarTurn(internals, far, turn, message, joins=joins).run()
            elif self._agent is None:
                await other.run_turn(turn, message)
            else:
                raise RemoteError(
                    f"{far.server.host} is not a Greenroom server, whose agents have names",
                    hint="an agent that speaks A2A is named by its address",
                )


class _Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept here of a far session.

    Attributes:
        address: that of its server.
        session: its id; empty if it has none yet.
        input_id: the id of the last input that was sent; empty if it has failed.
        digest: the hash of what that says.
        is_answered: whether it is answered.
        protocol: by which another server than ours is spoken to, if it is one.
    """

    address: str
    session: str
    input_id: str = ""
    digest: str = ""
    is_answered: bool = False
    protocol: str = ""


class _Made(msgspec.Struct):
    id: str


class _FarSession(Far):
    """The session of the far agent, and the record of it here."""

    def __init__(
        self,
        internals: AgentInternals,
        server: RemoteServer,
        agent: str | None,
        session: str | None,
    ) -> None:
        self.server = server
        self.session = session or ""
        self.is_closed = False
        self._is_first = True  # no input has come in this life
        self._own = internals.session
        self._agent = agent
        self._record = _Record(server.address, self.session)
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
        before = _read_record(self._own)
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
        await self._keep(_Record(self.server.address, made.id))

    async def find_open_input(self) -> UserInput | None:
        """Return the input whose turn is open there; None if that can't be found out."""
        if not self.session:
            return None
        try:
            now = await self.server.ask("GET", self.path(), _Conversation, limit=LONGEST_HISTORY)
        except RemoteError:
            return None  # the first turn says so
        if now.state.get("kind") in _AT_REST:
            return None
        asked = (each for each in reversed(now.messages) if each.role == "user")
        found = next((each for each in asked if each.id and not each.tool_results), None)
        if found is None:
            return None
        return UserInput(tuple(found.content), id=found.id, sender=found.sender)

    async def begin_input(self, message: UserInput) -> str:
        """Keep on record that an input is sent; return the id under which the far agent gets it.

        If it is what an earlier life was last given, and that was cut off, the id is the same. A
        program may give its work again though it was answered: it was itself cut off then.
        """
        digest = hashlib.sha256(serde.encode([message.content, message.sender])).hexdigest()[:32]
        before = _read_record(self._own) if self._is_first else None
        self._is_first = False
        if before is not None and _goes_on(before, self.session, digest, message.sender):
            self._record = before
            return before.input_id
        await self._keep(_Record(self.server.address, self.session, message.id, digest))
        return message.id

    def end_input(self, *, is_completed: bool) -> None:
        """Keep on record that the input is answered, or has failed; the turn's end stores it."""
        if is_completed:
            self._record = msgspec.structs.replace(self._record, is_answered=True)
        else:
            self._record = _Record(self.server.address, self.session)
        self._own.add_record(_RECORD, msgspec.to_builtins(self._record))

    async def _keep(self, record: _Record) -> None:
        self._record = record
        # The conversation is in another list; one that people have at a server of theirs stays.
        if not (self._own.parent_session_id or self._own.get_metadata(OWNER)):
            self._own.set_metadata(_ARCHIVED, True)
        self._own.add_record(_RECORD, msgspec.to_builtins(record))
        await self._own.save(flush=True)

    def path(self, *parts: str) -> str:
        """Return the path of something of the session."""
        return _path_of(self.session, *parts)


def _path_of(*parts: str) -> str:
    """Return the path of a session, or of something of it."""
    return "/".join(["/api/sessions", *(quote(each, safe="") for each in parts)])


def _goes_on(before: _Record, session: str, digest: str, sender: str) -> bool:
    """Whether an input with this digest goes on with that of a record."""
    if not before.input_id or (before.session, before.digest) != (session, digest):
        return False
    return bool(sender) or not before.is_answered


def _read_record(session: AgentSession) -> _Record | None:
    """Return the last record of a far session, if there is one that makes sense."""
    try:
        return serde.convert(session.last_record(_RECORD), _Record)
    except msgspec.ValidationError:
        return None


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
        far, record = self.far, _read_record(self._own)
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
