"""The methods that an editor may call, and the sessions that it has open."""

import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from weakref import WeakValueDictionary

import trio

from greenroom._version import __version__
from greenroom.core import ConfigurationError, Done, Exited, SessionNotFoundError, TurnStatus
from greenroom.core._internal import (
    EndStatus,
    InvalidSessionIdError,
    clip,
    describe_error,
    log_error,
    timestamp,
    visible,
)
from greenroom.interop.acp import wire
from greenroom.interop.acp.contents import read_blocks
from greenroom.interop.acp.editor_files import EditorFiles
from greenroom.interop.acp.editor_session import EditorSession
from greenroom.interop.acp.json_rpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    NO_METHOD,
    NOT_FOUND,
    Peer,
    Reply,
    RPCError,
)
from greenroom.interop.acp.parts import SessionOpener, SessionRequest
from greenroom.interop.mcp.server import MCPServer
from greenroom.session import AgentSession, SessionMetadata

VERSION = 1
"""The version of the protocol."""

MAX_SESSIONS = 50
"""Sessions that one editor may have open."""

_GRACE = 5.0  # seconds for the open sessions at the end
_MAX_SERVERS = 100
_LONGEST_NAME = 32  # characters
_DASHED = re.compile(r"[^A-Za-z0-9]+")
_CAPABILITIES: Mapping[str, object] = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": False},
    "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}},
}

_log = logging.getLogger("greenroom.interop")


class EditorServer:
    """Serves one editor.

    Args:
        opener: opens sessions.
        receive: returns the next bytes of the editor; nothing at the end.
        send: writes bytes to it.
    """

    def __init__(
        self,
        opener: SessionOpener,
        receive: Callable[[], Awaitable[bytes]],
        send: Callable[[bytes], Awaitable[None]],
    ) -> None:
        self._opener = opener
        self._peer = Peer(receive, send, self)
        self._abilities: wire.Abilities | None = None
        self._sessions: dict[str, _Open] = {}
        self._locks = WeakValueDictionary[str, trio.Lock]()
        self._nursery: trio.Nursery | None = None

    def stop(self) -> None:
        """End `run` as the end of the input does."""
        self._peer.stop()

    async def run(self) -> None:
        """Serve until the input ends; then open turns are interrupted, and sessions closed.

        Raises:
            OSError: the output can't be written.
        """
        failure: OSError | None = None
        async with trio.open_nursery() as self._nursery:
            try:
                await self._peer.run(self._close_all)
            except OSError as error:
                failure = error  # raised as it is, outside of the nursery
            self._nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _close_all(self) -> None:
        with trio.move_on_after(_GRACE):
            async with trio.open_nursery() as nursery:
                for each in tuple(self._sessions):
                    nursery.start_soon(self._close, each)

    async def answer(self, method: str, params: object) -> object:
        """Answer a request of the editor.

        Raises:
            RPCError: it is refused.
        """
        if method == "initialize":
            return self._initialize(wire.read(params, wire.Initialize))
        answer = self._methods.get(method)
        if answer is None:
            raise RPCError(NO_METHOD, f"there is no method {visible(clip(method, 100))}")
        if self._abilities is None:
            raise RPCError(INVALID_REQUEST, "initialize comes first")
        return await answer(self, params)

    async def note(self, method: str, params: object) -> None:
        """Take a notification of the editor; unknown ones are left alone."""
        if method == "session/cancel":
            opened = self._sessions.get(wire.read(params, wire.SessionName).session_id)
            if opened is not None and opened.session is not None:
                await opened.session.cancel()

    def _initialize(self, params: wire.Initialize) -> object:
        self._abilities = params.client_capabilities
        return {
            "protocolVersion": VERSION,
            "agentCapabilities": _CAPABILITIES,
            "agentInfo": {"name": "greenroom", "title": "Greenroom", "version": __version__},
            "authMethods": [],
        }

    # Sessions: opened, closed, listed.

    async def _new(self, params: object) -> Reply:
        session = await self._open(wire.read(params, wire.OpenSession), self._opener.new())
        options = session.write_options()
        return Reply({"sessionId": session.id, **options}, session.begin)

    async def _load(self, params: object) -> Reply:
        session = await self._open_stored(params)
        await session.replay()
        return Reply(session.write_options(), session.begin)

    async def _resume(self, params: object) -> Reply:
        session = await self._open_stored(params)
        return Reply(session.write_options(), session.begin)

    async def _open_stored(self, params: object) -> EditorSession:
        wanted = wire.read(params, wire.OpenSession)
        async with self._in_turn(wanted.session_id):
            await self._close(wanted.session_id)  # it begins anew, as the request says
            try:
                return await self._open(wanted, await self._opener.load(wanted.session_id))
            except (SessionNotFoundError, InvalidSessionIdError) as error:
                raise RPCError(NOT_FOUND, error.message) from error

    def _in_turn(self, session_id: str) -> trio.Lock:
        """Let one request at a time open, close or remove a session."""
        return self._locks.setdefault(session_id, trio.Lock())

    async def _open(self, wanted: wire.OpenSession, session: AgentSession) -> EditorSession:
        folder = Path(wanted.cwd)
        if not folder.is_absolute() or not await trio.Path(folder).is_dir():
            raise RPCError(INVALID_PARAMS, f"cwd is not a folder: {visible(clip(wanted.cwd, 200))}")
        if len(self._sessions) >= MAX_SESSIONS:
            raise RPCError(INVALID_REQUEST, f"{MAX_SESSIONS} sessions are open: close one")
        if self._abilities is None or self._nursery is None:
            raise RPCError(INVALID_REQUEST, "initialize comes first")
        files = EditorFiles(self._peer, session.session_id, self._abilities.fs)
        servers = tuple(read_servers(wanted.mcp_servers, folder))
        request = SessionRequest(session, folder, servers, files)
        opened = _Open()
        if self._sessions.setdefault(session.session_id, opened) is not opened:
            raise RPCError(INVALID_REQUEST, "the session is being opened already")
        found: EditorSession = await self._nursery.start(
            self._serve, opened, request, self._abilities
        )
        return found

    async def _serve(
        self,
        opened: "_Open",
        request: SessionRequest,
        abilities: wire.Abilities,
        task_status: trio.TaskStatus[EditorSession],
    ) -> None:
        """Keep a session open until it is closed, or its agent ends."""
        try:
            async with self._opener.open(request) as parts:
                opened.session = session = EditorSession(self._peer, abilities, parts)
                task_status.started(session)
                try:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(opened.run)
                        await opened.closing.wait()
                        await session.close()
                        nursery.cancel_scope.cancel()
                finally:
                    # Also where the request to open it was taken back: nobody may find it from
                    # here on, while what it holds is closed.
                    opened.closing.set()
        except Exception as error:
            if opened.session is None:
                raise  # the request for it gets the error
            log_error(_log, f"the session {request.session.session_id} has ended", error)
            opened.session.finish_all(Exited(EndStatus.CRASHED, describe_error(error)))
        finally:
            if opened.session is not None:  # a prompt may wait that nobody else will answer
                opened.session.finish_all(Done("", TurnStatus.INTERRUPTED))
            self._sessions.pop(request.session.session_id, None)
            opened.has_ended.set()

    def _find(self, session_id: str) -> EditorSession:
        opened = self._sessions.get(session_id)
        if opened is None or opened.session is None or opened.closing.is_set():
            name = visible(clip(session_id, 100))
            raise RPCError(NOT_FOUND, f"the session {name} is not open")
        return opened.session

    async def _close(self, session_id: str) -> None:
        opened = self._sessions.get(session_id)
        if opened is not None:
            opened.closing.set()
            await opened.has_ended.wait()

    async def _close_one(self, params: object) -> object:
        session_id = wire.read(params, wire.SessionName).session_id
        self._find(session_id)
        async with self._in_turn(session_id):
            await self._close(session_id)
        return {}

    async def _list(self, params: object) -> object:
        wanted = wire.read(params, wire.ListSessions)
        try:
            page = await self._opener.list_page(wanted.cursor)
        except ValueError as error:
            raise RPCError(INVALID_PARAMS, str(error)) from error
        found = [_describe(each) for each in page.sessions]
        sessions = [each for each in found if each and wanted.cwd in (None, each["cwd"])]
        return {"sessions": sessions, **({"nextCursor": page.after} if page.after else {})}

    async def _delete(self, params: object) -> object:
        session_id = wire.read(params, wire.SessionName).session_id
        async with self._in_turn(session_id):
            await self._close(session_id)
            await self._opener.delete(session_id)
        return {}

    # What an open session is asked for.

    async def _prompt(self, params: object) -> object:
        wanted = wire.read(params, wire.Prompt)
        blocks = read_blocks(wanted.prompt)
        return {"stopReason": await self._find(wanted.session_id).prompt(blocks)}

    async def _set_mode(self, params: object) -> object:
        wanted = wire.read(params, wire.SetMode)
        await self._choose(self._find(wanted.session_id), "mode", wanted.mode_id)
        return {}

    async def _set_option(self, params: object) -> object:
        wanted = wire.read(params, wire.SetOption)
        session = self._find(wanted.session_id)
        await self._choose(session, wanted.config_id, wanted.value)
        return {"configOptions": session.write_options()["configOptions"]}

    async def _choose(self, session: EditorSession, option: str, value: str) -> None:
        try:
            await session.choose(option, value)
        except ConfigurationError as error:
            raise RPCError(INVALID_PARAMS, str(error)) from error

    _methods: Mapping[str, Callable[["EditorServer", object], Awaitable[object]]] = {
        "session/new": _new,
        "session/load": _load,
        "session/resume": _resume,
        "session/close": _close_one,
        "session/list": _list,
        "session/delete": _delete,
        "session/prompt": _prompt,
        "session/set_mode": _set_mode,
        "session/set_config_option": _set_option,
    }


class _Open:
    """A session that is being opened, or is open, and what ends it."""

    def __init__(self) -> None:
        self.session: EditorSession | None = None
        self.closing = trio.Event()
        self.has_ended = trio.Event()

    async def run(self) -> None:
        """Run the session; if its agent ends, it is closed."""
        assert self.session is not None  # it is open
        await self.session.run()
        self.closing.set()


def _describe(session: SessionMetadata) -> dict[str, object] | None:
    """Describe a session for a list; None for one of a subagent, or without a folder."""
    folder = session.metadata.get("workspace")
    if session.parent_session_id is not None or not isinstance(folder, str):
        return None
    title = session.metadata.get("title")
    return {
        "sessionId": session.session_id,
        "cwd": folder,
        "updatedAt": timestamp(session.updated_at),
        **({"title": title} if isinstance(title, str) else {}),
    }


def read_servers(entries: Sequence[wire.ServerEntry], folder: Path) -> Iterator[MCPServer]:
    """Read the servers of tools that an editor names; what can't be used is left out, and logged.

    Names of editors may hold anything: what a name can't hold becomes a dash.

    Example:
        >>> entry = wire.ServerEntry("My files", command="files")
        >>> [*read_servers([entry], Path("/work"))]
        [MCPServer(My-files: files)]
    """
    names = set[str]()
    for entry in entries[:_MAX_SERVERS]:
        name = _DASHED.sub("-", entry.name).strip("-_")[:_LONGEST_NAME]
        named = chain([name], (f"{name[: _LONGEST_NAME - 4]}-{at}" for at in count(2)))
        name = next(each for each in named if each.casefold() not in names)
        try:
            server = _read_server(name, entry, folder)
        except ConfigurationError as error:
            _log.warning("the server %s of the editor is left out: %s", visible(entry.name), error)
            continue
        names.add(name.casefold())
        yield server


def _read_server(name: str, entry: wire.ServerEntry, folder: Path) -> MCPServer:
    if entry.type == "stdio":
        env = {each.name: each.value for each in entry.env}
        return MCPServer.stdio(name, entry.command, entry.args, env=env, cwd=folder)
    if entry.type == "http":
        headers = {each.name: each.value for each in entry.headers}
        return MCPServer.http(name, entry.url, headers=headers)
    raise ConfigurationError(f"its type is {visible(entry.type)[:40]!r}, not stdio or http")
