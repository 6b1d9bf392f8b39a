"""One connection to a server, from its start to its end: its tools, calls and questions.

`Connection.run` is an agent function: a supervisor calls it again when the server has ended. The
connection itself outlives that, so that a call can wait for the server to be back.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import Literal, TypeAlias, TypeVar, cast

import httpx2
import mcp_types as types
import trio
from mcp.client import Client, ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from greenroom._version import __version__
from greenroom.core import AgentContext, ToolError, ToolResult
from greenroom.core._internal import (
    clip,
    conceal_secrets,
    current_traceparent,
    describe_error,
    leaves,
    quantity,
    visible,
)
from greenroom.interop.mcp.definitions import AllowedDefinitions
from greenroom.interop.mcp.http import open_http
from greenroom.interop.mcp.oauth import LoginError
from greenroom.interop.mcp.offers import ask_server
from greenroom.interop.mcp.question import OpenCall, Question
from greenroom.interop.mcp.result import read_result
from greenroom.interop.mcp.server import MCPServer, MCPServerError
from greenroom.interop.mcp.tool import MCPTool, describe_change, hash_definition, read_tool
from greenroom.interop.mcp.transport import LastWords, Screen, Streams, open_stdio, screen
from greenroom.runtime import AgentInternals
from greenroom.tools._internal import RegisteredTool

State: TypeAlias = Literal["starting", "connected", "restarting", "failed", "closed"]
"""How a connection is."""

MAX_TOOLS = 20_000
"""Tools of one server; more are left out."""

_MAX_PAGES = 2_000
_BACK_SECONDS = 10.0  # that a call waits for a server that is being started again
_RELIST_SECONDS = 2.0
_CHECK_EVERY = 100  # tools that are read without letting other tasks run
_PROGRESS = 1_000  # characters

_log = logging.getLogger("greenroom.interop")
_call: ContextVar[OpenCall | None] = ContextVar("greenroom_mcp_call", default=None)

T = TypeVar("T")


class Connection:
    """The connection to one server, over all restarts.

    Attributes:
        server: how it is reached.
        error: why it is not connected.
        tools: those that can be used, unchanged ones as the same objects.
        left_out: the names of the others, and why.
        instructions: what the server says about its use.
        starts: how often it was started.
    """

    def __init__(
        self, server: MCPServer, on_change: Callable[[], None], allowed: AllowedDefinitions
    ) -> None:
        """Connect to nothing yet; `on_change` is called when the state or the tools change.

        `allowed` has what the tools said of themselves when their calls were last allowed.
        """
        self.server = server
        self._allowed = allowed
        self._on_change = on_change
        self._state: State = "starting"
        self.error = ""
        self.tools: tuple[RegisteredTool, ...] = ()
        self.left_out: tuple[tuple[str, str], ...] = ()
        self.instructions = ""
        self.starts = 0
        self._client: Client | None = None
        self._settled = trio.Event()  # connected, or failed for good
        self._open_calls: dict[OpenCall, None] = {}
        self._list_changed = trio.Event()
        self._relisted: trio.Event | None = None  # while the list is known to be old
        self._definitions: dict[str, dict[str, object]] = {}
        self._words = LastWords(server)
        self._token = trio.lowlevel.current_trio_token()
        self.first_try = trio.Event()
        """Set when it has been connected, or has failed, for the first time."""

    @property
    def state(self) -> State:
        """How it is."""
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._state = state
        self._on_change()

    async def run(self, agent: AgentInternals) -> None:
        """Connect, serve calls until the agent is shut down, and disconnect.

        Raises:
            MCPServerError: the server can't be reached, did not start in time, or has ended.
        """
        self.starts += 1
        self._words = LastWords(self.server)
        try:
            await self._live(agent)
            self.state = "closed"
        except Exception as error:  # noqa: BLE001  (what the SDK raises is not said anywhere)
            # By now the server is gone, and all that it has written has been read.
            lost, why = _explain_loss(error)
            text = str(self._words)
            self.error = f"{why}; it last wrote:\n{text}" if text else why
            self.state = "restarting"
            raise MCPServerError(self.server.name, self.error) from (None if lost else error)
        finally:
            self._client = None
            self.first_try.set()

    async def _live(self, agent: AgentInternals) -> None:
        server, ended = self.server, trio.Event()
        limit = trio.CancelScope(deadline=trio.current_time() + server.start_timeout)
        with limit:
            async with self._connect(ended) as (client, listed):
                limit.deadline = trio.current_time() + server.start_timeout
                await self._list_tools(client, listed)
                limit.deadline = float("inf")
                self._client, self.error, self._relisted = client, "", None
                self.state = "connected"
                self._settled.set()
                self.first_try.set()
                try:
                    await self._serve(agent, client, listed, ended)
                finally:
                    self._client = None
                    self._settled = trio.Event()
        if limit.cancelled_caught:
            raise _LostError(f"did not start within {quantity(server.start_timeout, 'second')}")

    async def _serve(
        self, agent: AgentInternals, client: Client, listed: Screen, ended: trio.Event
    ) -> None:
        """Stay connected until the agent is shut down or the server ends."""

        async def watch_end() -> None:
            await ended.wait()
            raise _LostError("has ended")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch_end)
            nursery.start_soon(self._follow_changes, client, listed)
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                nursery.start_soon(self._subscribe, client)
            async for _ in agent.inputs():
                pass  # nobody sends it any; the end of its inputs is what it waits for
            nursery.cancel_scope.cancel()

    @asynccontextmanager
    async def _connect(self, ended: trio.Event) -> AsyncIterator[tuple[Client, Screen]]:
        listed = Screen()
        async with AsyncExitStack() as stack:
            streams = await stack.enter_async_context(self._open())
            passed = await stack.enter_async_context(screen(streams, listed, ended))
            client = Client(
                _AsTransport(passed),
                message_handler=self._on_message,
                elicitation_callback=self._on_question,
                client_info=types.Implementation(name="greenroom", version=__version__),
                cache=None,
            )
            yield await stack.enter_async_context(client), listed

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Streams]:
        server = self.server
        async with open_stdio(server, self._words) if server.command else open_http(server) as each:
            yield each

    # The list of tools.

    async def _list_tools(self, client: Client, listed: Screen) -> None:
        """Read all pages of the list; tools that have not changed stay the same objects."""
        self.instructions = visible(clip(client.instructions or "", 10_000))
        if client.server_capabilities.tools is None:
            self.tools, self.left_out = (), ()
            return
        listed.forget()
        names = dict[str, None]()
        cursor, seen = None, set[str]()
        for _ in range(_MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            names |= dict.fromkeys(each.name for each in page.tools)
            cursor = page.next_cursor
            if not cursor or cursor in seen or len(names) > MAX_TOOLS:
                break
            seen.add(cursor)
        known = {each.definition_hash: each for each in self.tools}
        tools, left_out = list[RegisteredTool](), list(listed.left_out)
        for number, name in enumerate(names):
            if number % _CHECK_EVERY == 0:
                await trio.lowlevel.checkpoint()
            if number >= MAX_TOOLS:
                left_out.append((name, f"the server has more than {MAX_TOOLS:,} tools"))
                break
            definition = listed.definitions[name]
            before = self._allowed.get(name) or self._definitions.get(name)
            change = "" if before in (None, definition) else describe_change(before, definition)
            try:
                found = known.get(hash_definition(definition))
                made = found or read_tool(self.server.name, definition, self.call, change)
                tools.append(made)
            except ToolError as error:
                left_out.append((name, error.message))
        for name, why in left_out:
            _log.warning(
                "the tool %.100r of the MCP server %s is left out: %.500s",
                name,
                self.server.name,
                visible(why),
            )
        self.tools, self.left_out = tuple(tools), tuple(left_out)
        self._definitions = dict(listed.definitions)
        self._on_change()

    async def _follow_changes(self, client: Client, listed: Screen) -> None:
        while True:
            await self._list_changed.wait()
            self._list_changed = trio.Event()
            relisted = self._relisted
            try:
                with trio.fail_after(self.server.start_timeout):
                    await self._list_tools(client, listed)
            except (MCPError, ValidationError, trio.TooSlowError) as error:
                _log.warning(
                    "the tools of the MCP server %s have changed, and can't be listed: %s",
                    self.server.name,
                    describe_error(error),
                )
            finally:
                if relisted is not None and not self._list_changed.is_set():
                    self._relisted = None
                    relisted.set()

    def _note_change(self) -> None:
        self._list_changed.set()
        self._relisted = self._relisted or trio.Event()

    async def _subscribe(self, client: Client) -> None:
        """Ask a server of the newer era to say when its list changes."""
        try:
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._note_change()
        except (MCPError, ListenNotSupportedError, SubscriptionLost, TimeoutError) as error:
            _log.debug("the MCP server %s tells no changes: %s", self.server.name, error)

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._note_change()

    # Calls.

    async def call(
        self,
        tool: MCPTool,
        input: dict[str, object],  # noqa: A002
        context: AgentContext,
    ) -> ToolResult:
        """Make one call of a tool, and wait for its result.

        A question of the server is asked through the agent that makes the call; the time of the
        call stands still meanwhile.

        Raises:
            ToolError: the server is not connected, has ended, refuses the call, or no longer has
                the tool as it was approved.
        """
        if trio.lowlevel.current_trio_token() is not self._token:
            raise ToolError(
                f"the MCP server {self.server.name} belongs to another event loop",
                hint="use MCPServers in the loop in which the agent runs",
            )
        client = await self._find_client()
        if all(each.tool is not tool for each in self.tools):
            raise ToolError(
                f"{tool.name} was not run: the server has changed it meanwhile",
                hint="call it again",
            )
        await self._note_allowed(tool.remote_name)
        call = OpenCall(tool, context, self.server.call_timeout)
        self._open_calls[call] = None
        try:
            result = await call.run(partial(self._send, client, call, input))
        except MCPError as error:
            raise ToolError(self._explain(error)) from error
        except ValidationError as error:
            what = f"the MCP server {self.server.name} sent a result that is not valid"
            raise ToolError(what) from error
        finally:
            del self._open_calls[call]
        await self._wait_relisted()
        return result

    async def _wait_relisted(self) -> None:
        """Wait a little for the new list where a call has changed it, so that the next one fits."""
        if (relisted := self._relisted) is not None:
            with trio.move_on_after(_RELIST_SECONDS):
                await relisted.wait()

    async def _note_allowed(self, name: str) -> None:
        """Keep the definition of a tool whose call runs, to show later how it has changed."""
        definition = self._definitions.get(name)
        if definition is not None and self._allowed.note(name, definition):
            try:
                await trio.to_thread.run_sync(self._allowed.save)
            except OSError as error:
                _log.warning("the definition of %.100r can't be kept: %s", name, error)

    async def ask(self, request: Callable[[Client], Awaitable[T]]) -> T:
        """Make a request that is no call of a tool.

        Raises:
            MCPServerError: the server is not connected, refuses, takes too long, or has ended.
        """
        try:
            client = await self._find_client()
        except ToolError as error:
            raise MCPServerError(self.server.name, f"is not connected: {self.error}") from error
        return await ask_server(client, self.server, request)

    async def _send(
        self,
        client: Client,
        call: OpenCall,
        input: dict[str, object],  # noqa: A002
    ) -> ToolResult:
        token = _call.set(call)
        # The SDK has OpenTelemetry's span, if there is one, take the place of ours.
        trace = current_traceparent()
        meta = cast("types.RequestParamsMeta", {"traceparent": trace}) if trace else None
        try:
            result = await client.call_tool(
                call.tool.remote_name, input, progress_callback=call.show_progress, meta=meta
            )
        finally:
            _call.reset(token)
        return read_result(result)

    async def _find_client(self) -> Client:
        with trio.move_on_after(_BACK_SECONDS):
            while self._client is None and self.state != "failed":
                await self._settled.wait()
        if self._client is None:
            why = f": {self.error}" if self.error else ""
            raise ToolError(f"the MCP server {self.server.name} is not connected{why}")
        return self._client

    def _explain(self, error: MCPError) -> str:
        name = self.server.name
        if error.error.code == types.CONNECTION_CLOSED:
            return (
                f"the MCP server {name} has ended during this call, which may have had its effect; "
                "it is being started again"
            )
        return (
            f"the MCP server {name} reports an error: {visible(clip(error.error.message, 2_000))}"
        )

    def fail(self, why: str) -> None:
        """Note that it is not started again."""
        self.error = self.error or why
        self.state = "failed"
        self._settled.set()
        self.first_try.set()

    # Questions.

    async def _on_question(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Pass a question of the server on to the call that it belongs to.

        Servers of the older era do not say which call they ask about: with calls of several agents
        on the way it would be a guess whose person is asked, so nobody is.
        """
        call = _call.get()
        if call is None:
            calls = list(self._open_calls)
            if len({each.context.session_id for each in calls}) != 1:
                _log.warning("a question of the MCP server %s has no call", self.server.name)
                return types.ElicitResult(action="cancel")
            call = calls[-1]
        return await call.ask(Question.of(params))


class _AsTransport:
    """Streams that are open already, as the SDK takes a transport."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    async def __aenter__(self) -> Streams:
        return self._streams

    async def __aexit__(self, *_: object) -> None:
        return None


class _LostError(Exception):
    """The server can't be reached any more, or could not in its time."""


def _explain_loss(error: Exception) -> tuple[bool, str]:
    """Return whether a server has just ended, or is too slow, and in words what has happened."""
    found = leaves(error)
    for each in found:
        if isinstance(each, _LostError | LoginError):
            return True, str(each)
        if isinstance(each, MCPError) and each.error.code == types.CONNECTION_CLOSED:
            return True, "has ended"
        if isinstance(each, httpx2.TransportError):
            return True, f"can't be reached: {conceal_secrets(describe_error(each))}"
    told = conceal_secrets("; ".join(map(describe_error, found[:3])))
    return False, f"can't be used: {told}"
