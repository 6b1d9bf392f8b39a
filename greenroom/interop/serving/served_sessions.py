"""The sessions that a server offers: whose they are, their agents, and what is sent to them."""

import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace

import trio

from greenroom.core import (
    AgentContext,
    ContentBlock,
    Exited,
    OutputChunk,
    PermissionRequest,
    SessionNotFoundError,
    StateChange,
    SubAgentComplete,
    SubAgentSpawned,
    ToolEnd,
    ToolResult,
    ToolStart,
    ToolUseBlock,
)
from greenroom.core._internal import JSON, InvalidSessionIdError, as_blocks
from greenroom.interop.serving.a2a_tasks import TaskBook
from greenroom.interop.serving.client_tools import AgentFunction, add_client_tools
from greenroom.interop.serving.keeper import NAME as KEEPER, Keeper
from greenroom.interop.serving.limits import ServerLimits
from greenroom.interop.serving.refusals import RequestRefusedError, conflict, not_found
from greenroom.interop.serving.served_session import WITHDRAWN, News, ServedSession, digest_of
from greenroom.interop.serving.sources import Sources
from greenroom.interop.serving.tokens import Caller, Role, Tokens
from greenroom.runtime import AgentHandle, AgentRuntime, InterruptReport
from greenroom.runtime._internal import InterruptMode, interrupt_input, session_of
from greenroom.session import AgentSession, SessionExistsError, SessionStore
from greenroom.session._internal import default_store

OWNER = "owner"
"""The key of a session's metadata that says to whose name it belongs."""

_LOOK = 0.5  # seconds between two looks at the file of tokens
_MOST_ABOVE = 64  # sessions between one and the root that says whose it is
_MOST_TOOLS = 200  # whose times are counted
_MOST_NEWS = 100  # sessions that one event names
_CHANGES = (StateChange, SubAgentSpawned, SubAgentComplete)
_HELD_UP = (SubAgentSpawned, SubAgentComplete, ToolStart, ToolEnd)  # those that may ask meanwhile
_TITLE = 60  # characters


@dataclass(frozen=True)
class Known:
    """A session that a caller may see.

    Attributes:
        session_id: its id.
        agent_type: its agent's type.
        metadata: its metadata.
        parent: the session that started it, or None.
        root: the session at the top of its tree, whose agent people are there for.
    """

    session_id: str
    agent_type: str
    metadata: Mapping[str, object]
    parent: str | None
    root: str = ""


class ServedSessions:
    """The sessions of one runtime, as the callers of a server may use them."""

    def __init__(
        self,
        runtime: AgentRuntime,
        agents: Mapping[str, AgentFunction],
        limits: ServerLimits,
        away: float,
        owner: str,
        sources: Sources,
        tokens: Tokens,
        serves_agui: bool,
        tasks: TaskBook | None = None,
        card: Mapping[str, JSON] | None = None,
    ) -> None:
        """Offer the sessions of a runtime; `owner` has those that belong to nobody."""
        self.serves_agui = serves_agui
        self.tasks = tasks  # those of A2A, if clients of that are served
        self.card = dict(card or {})
        self.runtime = runtime
        self.agents = dict(agents)
        self.limits = limits
        self.sources = sources
        self.counting = trio.Lock()  # held while the records of all sessions are read
        self._owner = owner
        self._tokens = tokens
        self._streams: dict[trio.CancelScope, Caller] = {}
        self._news: dict[News, tuple[Caller, str]] = {}
        self._is_watching = False
        self._away = away
        self._keeper = Keeper(runtime, limits, away)
        self._served = OrderedDict[str, ServedSession]()
        runtime.instruments.add(self)  # which hears of each agent that begins

    @property
    def store(self) -> SessionStore:
        """Where the sessions are kept."""
        return self.runtime.store or default_store()

    def before_agent(self, agent: AgentContext) -> None:
        """Wake the streams that wait for this agent."""
        if agent.session_id in self._served:
            self._served[agent.session_id].tell_spawned()

    def after_tool_run(
        self, agent: AgentContext, call: ToolUseBlock, result: ToolResult | None
    ) -> None:
        """Count how long a call took, unless it was cancelled."""
        served = self._served.get(agent.session_id)
        took = None if result is None else result.metadata.get("execution_ms")
        if served is None or not isinstance(took, int | float):
            return
        seconds = served.tool_seconds
        if call.name in seconds or len(seconds) < _MOST_TOOLS:
            seconds[call.name] = seconds.get(call.name, 0.0) + took / 1000

    def on_chunk(self, agent: AgentContext, chunk: OutputChunk) -> None:
        """Tell the keeper what holds it up, and streams that an agent of a tree has changed."""
        if isinstance(chunk, _HELD_UP):
            served = self._served.get(agent.session_id)
            if served is not None:
                served.wake()
        if self._news and isinstance(chunk, _CHANGES):
            session_id = agent.session_id
            while (handle := self.runtime.get(session_id)) is not None and handle.parent:
                session_id = handle.parent.session_id
            self._tell(session_id)

    def after_agent(self, agent: AgentContext, end: Exited) -> None:
        """Tell streams that an agent has ended."""
        self._tell(agent.session_id)

    def _tell(self, root: str) -> None:
        served = self._served.get(root)
        for news, (caller, own) in self._news.items():
            if root == own or (served is not None and self.is_owned(served.owner, caller)):
                news.add(root)

    @contextmanager
    def open_news(self, known: Known, caller: Caller) -> Iterator[News]:
        """Hear, in the block, which of a caller's sessions change: something in their trees."""
        news = News(_MOST_NEWS)
        self._news[news] = caller, known.root
        try:
            yield news
        finally:
            del self._news[news]

    def serve(self, session_id: str) -> ServedSession:
        """Return what is remembered of a session; of the unused ones, the newest are kept."""
        served = self._served.setdefault(session_id, ServedSession())
        self._served.move_to_end(session_id)
        if len(self._served) > 2 * self.limits.sessions:
            unused = (key for key, each in self._served.items() if each.is_unused)
            oldest = next(unused, session_id)
            if oldest != session_id:
                del self._served[oldest]
        return served

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return len(self._streams)

    @contextmanager
    def open_stream(self, known: Known, caller: Caller) -> Iterator[trio.CancelScope]:
        """Count a stream while the block is open; the scope, to be entered in it, ends it.

        Raises:
            RequestRefusedError: there are too many already, or the caller has.
        """
        own = sum(each.name == caller.name for each in self._streams.values())
        if len(self._streams) >= self.limits.streams or own >= self.limits.per_token:
            raise RequestRefusedError(
                429,
                f"{max(own, 1)} streams of this name are open, {len(self._streams)} in all",
                kind="too_many_streams",
                hint="close one: a page needs one stream, whatever it shows",
            )
        served, scope = self.serve(known.session_id), trio.CancelScope()
        root = self.serve(known.root)
        is_operator = caller.role.allows(Role.OPERATOR)
        self._streams[scope] = caller
        served.streams += 1
        root.operators += is_operator
        root.wake()
        self._watch_tokens()
        try:
            yield scope
        finally:
            del self._streams[scope]
            served.streams -= 1
            if is_operator:
                root.operators -= 1
                root.touch()

    def end_streams(self) -> None:
        """End all streams."""
        for scope in self._streams:
            scope.cancel()

    def _watch_tokens(self) -> None:
        """End the streams of tokens that are removed, as long as there are streams."""
        if not self._is_watching and self._tokens.may_change:
            self._is_watching = True
            self._keeper.begin(self._end_removed)

    async def _end_removed(self) -> None:
        try:
            while self._streams:
                await trio.sleep(_LOOK)  # a file says nothing when it changes
                await trio.to_thread.run_sync(self._tokens.refresh)
                for scope, caller in self._streams.items():
                    if not self._tokens.knows(caller):
                        scope.cancel()
        finally:
            self._is_watching = False

    def is_owned(self, owner: object, caller: Caller) -> bool:
        """Whether a caller may use what belongs to a name; what belongs to nobody is `owner`'s."""
        return caller.role is Role.ADMIN or (owner or self._owner) == caller.name

    async def find(self, session_id: str, caller: Caller) -> Known:
        """Return a session that a caller may see; a subagent's belongs to whom its root does.

        Raises:
            RequestRefusedError: there is none, or it is somebody else's.
        """
        known = top = await self._look_up(session_id)
        for _ in range(_MOST_ABOVE):
            if top is None or top.parent is None or OWNER in top.metadata:
                break
            top = await self._look_up(top.parent) or top
        if known is None or top is None or not self.is_owned(top.metadata.get(OWNER), caller):
            raise not_found("there is no such session", "GET /api/sessions lists yours")
        root = self.serve(top.session_id)
        root.owner = top.metadata.get(OWNER)
        if caller.role.allows(Role.OPERATOR):
            root.touch()
        return replace(known, root=top.session_id)

    async def exists(self, session_id: str) -> bool:
        """Whether there is such a session, whoever has it."""
        return await self._look_up(session_id) is not None

    async def _look_up(self, session_id: str) -> Known | None:
        handle = self.runtime.get(session_id)
        if handle is not None:
            if handle.agent_type == KEEPER:
                return None
            parent = handle.parent.session_id if handle.parent else None
            return Known(session_id, handle.agent_type, await handle.metadata(), parent)
        try:
            found = (await self.store.read_last(session_id, 1)).metadata
        except (InvalidSessionIdError, SessionNotFoundError):
            return None
        if found is None:
            return None
        return Known(session_id, found.agent_type, found.metadata, found.parent_session_id)

    async def create(
        self,
        agent_type: str,
        metadata: Mapping[str, object],
        caller: Caller,
        session_id: str | None = None,
    ) -> AgentSession:
        """Make a session that belongs to a caller, and store it.

        Raises:
            RequestRefusedError: no agent of this type is served.
            InvalidSessionIdError: the id can't be one.
            SessionExistsError: there is such a session already.
        """
        self.find_agent(agent_type)
        session = AgentSession.new(agent_type, session_id=session_id, store=self.store)
        for key, value in metadata.items():
            session.set_metadata(key, value)
        session.set_metadata(OWNER, caller.name)
        await session.save()
        return session

    async def open(
        self,
        agent_type: str,
        metadata: Mapping[str, object],
        caller: Caller,
        session_id: str,
    ) -> tuple[Known, bool]:
        """Return a session of a caller, made if there is none yet, and whether it was.

        Raises:
            RequestRefusedError: it is somebody else's, or no agent of this type is served.
            InvalidSessionIdError: the id can't be one.
        """
        async with self.serve(session_id).lock:  # whoever finds it may have to write it
            is_new = not await self.exists(session_id)
            if is_new:
                try:
                    await self.create(agent_type, metadata, caller, session_id)
                except SessionExistsError:  # made meanwhile, by another process
                    is_new = False
        return await self.find(session_id, caller), is_new

    def find_agent(self, agent_type: str) -> AgentFunction:
        """Return the agent that is served under a type.

        Raises:
            RequestRefusedError: none is.
        """
        function = self.agents.get(agent_type)
        if function is None:
            raise conflict(
                f"no agent of the type {agent_type!r} is served here",
                f"served are {', '.join(self.agents)}; the session can be read",
            )
        return function

    async def send_input(
        self,
        known: Known,
        content: str | tuple[ContentBlock, ...],
        *,
        input_id: str | None,
        sender: str,
        metadata: Mapping[str, object],
    ) -> tuple[str, bool]:
        """Send an input, and start the session's agent if none runs.

        Returns:
            The input's id, and whether it was new: the same again changes nothing.

        Raises:
            RequestRefusedError: the id names another input, or the agent can't be started.
            MailboxFullError: its mailbox has no room.
        """
        served = self.serve(known.session_id)
        digest = digest_of(content, sender)
        async with served.lock:
            if input_id is not None and await self._is_known(known, input_id, digest, content):
                return input_id, False
            handle = await self._require_agent(known, title=_title_of(content))
            async with self._take_seat(known, handle):
                try:
                    receipt = handle.send_input_nowait(
                        content, sender=sender, metadata=metadata, id=input_id
                    )
                except ValueError as error:
                    raise RequestRefusedError(400, str(error), kind="bad_request") from error
                served.keep_receipt(receipt.input_id, digest)
            return receipt.input_id, True

    async def interrupt_input(
        self, known: Known, input_id: str, mode: InterruptMode, grace: float
    ) -> InterruptReport:
        """Stop the turn of an input, or withdraw it; one that is still on its way is refused."""
        served = self.serve(known.session_id)
        async with served.lock:
            handle = self.runtime.get(known.session_id)
            is_sent = served.find_receipt(input_id) is not None
            if not is_sent and not (await self._find_session(known)).has_input(input_id):
                served.keep_receipt(input_id, WITHDRAWN)
        if handle is None:
            return InterruptReport()
        return await interrupt_input(handle, input_id, mode, grace)

    @asynccontextmanager
    async def _take_seat(self, known: Known, handle: AgentHandle) -> AsyncIterator[None]:
        """Sit in for the caller until the keeper does: the agent may ask at once."""
        async with handle.attend():
            yield
            root = self.serve(known.root)
            if root.is_minded:
                # After that it sits in for nobody, and the seat would stay empty.
                with trio.move_on_at(root.find_away(self._away)):
                    await root.wait_seat()

    async def _is_known(
        self, known: Known, input_id: str, digest: bytes, content: str | tuple[ContentBlock, ...]
    ) -> bool:
        """Whether an input was sent before; one whose text is no longer on record counts as it.

        Raises:
            RequestRefusedError: the id names an input with other content.
        """
        served = self.serve(known.session_id)
        sent = served.find_receipt(input_id)
        if sent == WITHDRAWN:
            raise conflict(f"the input {input_id!r} was withdrawn before it came")
        if sent is not None:
            is_same = sent == digest
        else:
            session = await self._find_session(known)
            if not session.has_input(input_id):
                return False
            found = next((each for each in session.history if each.id == input_id), None)
            is_same = found is None or found.content == as_blocks(content)
        if not is_same:
            raise conflict(f"the input {input_id!r} was sent before, with other content")
        return True

    async def _find_session(self, known: Known) -> AgentSession:
        """Return a session to look at: that of its agent, else as it is stored."""
        handle = self.runtime.get(known.session_id)
        return session_of(handle) if handle is not None else await self.load(known.session_id)

    async def load(self, session_id: str) -> AgentSession:
        """Return a session as it is stored, with its open calls left open; nothing is locked."""
        return await AgentSession.load(session_id, store=self.store, keep_open=True)

    async def _require_agent(self, known: Known, *, title: str) -> AgentHandle:
        """Return the running agent of a session, or start one; the session's lock is held."""
        handle = self.runtime.get(known.session_id)
        if handle is None:
            session = await AgentSession.load(known.session_id, store=self.store)
            handle = await self._start(session, title)
        elif handle.parent is None and not self.serve(known.session_id).is_minded:
            self._keeper.mind(self.serve(known.session_id), handle)
        return handle

    async def _start(self, session: AgentSession, title: str = "") -> AgentHandle:
        """Start the agent of a session once this process may write it.

        Raises:
            RequestRefusedError: its type is not served, or too many agents run.
            SessionLockedError: another process has the session.
        """
        function = self.find_agent(session.agent_type)
        # A client may bring tools of its own, now or later: see `agui_routes`.
        tools = self.serve(session.session_id).thread.tools
        function = add_client_tools(function, tools) or function
        running = sum(each.is_minded for each in self._served.values())
        if running >= self.limits.sessions:
            raise RequestRefusedError(
                503,
                f"{running} agents run already",
                kind="too_many_sessions",
                hint="try again later, or shut a session down",
            )
        if title and session.get_metadata("title") is None:
            session.set_metadata("title", title)
        try:
            await session.open()
            handle = self.runtime.spawn(session, function, unattended="suspend")
        except BaseException:
            await session.close()
            raise
        self._keeper.mind(self.serve(session.session_id), handle)
        return handle

    async def find_request(self, known: Known, request_id: str) -> PermissionRequest:
        """Return an open question, also that of a suspended turn.

        Raises:
            RequestRefusedError: there is none, or it is answered.
        """
        handle = self.runtime.get(known.session_id)
        asked = () if handle is None else await handle.pending()
        found = next((each for each in asked if each.request_id == request_id), None)
        if found is None:
            session = await self.load(known.session_id)
            stored = (each.request for each in session.open_questions if each.request)
            found = next((each for each in stored if each.request_id == request_id), None)
        if found is None:
            raise conflict(
                f"the question {request_id!r} is not open: it is answered or withdrawn, or there "
                "never was one",
                "GET /api/sessions/ID lists in `pending` what is open",
            )
        return found

    @asynccontextmanager
    async def resume_for(
        self, known: Known, request: PermissionRequest
    ) -> AsyncIterator[AgentHandle]:
        """Give the block the agent that takes the answer to a question; the lock is held.

        If its turn was suspended, the session is loaded with its calls open, and started again.
        """
        handle = self.runtime.get(known.session_id)
        if handle is not None and request not in await handle.pending():
            await handle.shutdown()
            handle = None
        if handle is None:
            handle = await self._start(await self.load(known.session_id))
        async with self._take_seat(known, handle):
            yield handle


def _title_of(content: str | tuple[ContentBlock, ...]) -> str:
    """Return a line that names a session by its first input."""
    texts = (
        [content] if isinstance(content, str) else [getattr(each, "text", "") for each in content]
    )
    line = re.sub(r"[\x00-\x1f\x7f-\x9f\s]+", " ", " ".join(texts)).strip()
    return line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…"
