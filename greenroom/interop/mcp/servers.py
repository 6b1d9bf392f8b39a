"""`MCPServers`: servers of tools that an agent is given, each kept connected."""

import math
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Self

import trio
from msgspec import structs

from greenroom.core import ConfigurationError, Message
from greenroom.core._internal import ResultContent
from greenroom.interop.mcp.definitions import AllowedDefinitions
from greenroom.interop.mcp.server import MCPServer, MCPServerError, require_sdk
from greenroom.interop.mcp.tool_search import SEARCH_ABOVE, CallTool, ToolSearch
from greenroom.resilience import Backoff
from greenroom.runtime import AgentRuntime
from greenroom.runtime._internal import Supervisor
from greenroom.session import AgentSession, InMemoryStore
from greenroom.tools import Tool
from greenroom.tools._internal import RegisteredTool

if TYPE_CHECKING:
    from greenroom.interop.mcp.connection import Connection, State
    from greenroom.interop.mcp.offers import MCPPrompt, MCPResource

_NOTHING: Mapping[str, str] = MappingProxyType({})
_RESTARTS = 5
_NEVER = 1_000
_PERIOD = 60.0  # seconds in which there may be so many
_BACKOFF = Backoff(first=0.1, max_delay=10.0)
_GRACE = 1.0
_PATIENCE = 5.0  # seconds that the block waits for servers that need not be there


@dataclass(frozen=True)
class MCPServerStatus:
    """A look at one server.

    Attributes:
        name: its name.
        state: "starting", "connected", "restarting", "failed" (it is not started again) or
            "closed".
        error: why it is not connected, or empty.
        tools: the names of its tools, as models call them.
        left_out: the server's names of tools that can't be used, each with the reason.
        instructions: what the server says about its use; it is the server's word.
        starts: how often it was started.
    """

    name: str
    state: "State"
    error: str
    tools: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    instructions: str
    starts: int


class MCPServers:
    """Servers of the Model Context Protocol, whose tools an agent can use.

    An async context manager, which connects to all of them at once and disconnects at the end. Pass
    it as the tools of an agent, or among them: it is a `ToolProvider`, so that each model call sees
    the tools that there are then. A tool is called `mcp__SERVER__TOOL`; each call has to be allowed
    by a person or a rule, whatever the server says about the tool, and a remembered answer holds
    only as long as the tool describes itself as it did.

    A server that ends is started again, up to five times a minute. A call that it was in fails,
    further ones wait up to ten seconds for it to be back. It needs `pip install 'greenroom[mcp]'`.

    Args:
        *servers: the servers; each has its own name.
        runtime: where the connections live, as agents; by default in a runtime of their own.
        required: whether entering the block fails if one of them can't be reached. If not, the
            block waits at most five seconds for each to be there; what is missing then is tried
            further, and `status` says what is wrong.
        definitions: a folder that keeps what tools say of themselves when their calls run, so that
            a person who is asked again, in a later process, sees how a tool has changed.
        search_above: how many tools all servers together may have until models no longer get each
            with every request, but find them with `ToolSearch` and call them with `CallTool`.

    Raises:
        ConfigurationError: two servers have one name, or the SDK is not installed.

    Example:
        ```python
        servers = MCPServers(MCPServer.stdio("time", "uvx", ["mcp-server-time"]))
        agent = Agent("anthropic:claude-sonnet-5-5", tools=servers)
        async with servers:
            print((await agent.run("What time is it in Tokyo?", approve=ask_me)).output)
        ```
    """

    def __init__(
        self,
        *servers: MCPServer,
        runtime: AgentRuntime | None = None,
        required: bool = True,
        definitions: str | Path | None = None,
        search_above: int = SEARCH_ABOVE,
    ) -> None:
        """Take servers; none is started before the block is entered."""
        for each in servers:
            if not isinstance(each, MCPServer):
                raise ConfigurationError(
                    f"{each!r} is not an MCPServer", hint="write MCPServer.stdio(name, command)"
                )
        names = [each.name.casefold() for each in servers]
        twice = next((each for each in names if names.count(each) > 1), "")
        if twice:
            raise ConfigurationError(f"two MCP servers are called {twice}")
        require_sdk()
        self._servers, self._runtime, self._required = servers, runtime, required
        self._definitions = None if definitions is None else Path(definitions)
        self._connections: tuple[Connection, ...] = ()
        self._search_above = search_above
        self._parts: tuple[tuple[RegisteredTool, ...], ...] = ()
        self._listed: tuple[Tool, ...] = ()
        self._hidden: dict[int, tuple[RegisteredTool, RegisteredTool]] = {}
        self._stack: AsyncExitStack | None = None
        self._changed = trio.Event()

    def __repr__(self) -> str:
        return f"MCPServers({', '.join(each.name for each in self._servers)})"

    async def __aenter__(self) -> Self:
        """Connect to all servers.

        Raises:
            MCPServerError: one of them, if they are required, can't be reached in its time.
            ConfigurationError: the block has been entered already.
        """
        from greenroom.interop.mcp.connection import Connection

        if self._stack is not None:
            raise ConfigurationError(
                f"{self!r} is in use", hint="make another one, or enter it once around both uses"
            )
        async with AsyncExitStack() as stack:
            runtime = self._runtime
            if runtime is None:
                own = AgentRuntime(store=InMemoryStore())
                runtime = await stack.enter_async_context(own)
            known = [AllowedDefinitions.of(each, self._definitions) for each in self._servers]
            if self._definitions is not None:
                await trio.to_thread.run_sync(_load, known)
            self._connections = tuple(
                Connection(each, self._change, allowed)
                for each, allowed in zip(self._servers, known, strict=True)
            )
            stack.callback(self._forget)
            watchers = await stack.enter_async_context(trio.open_nursery())
            stack.callback(watchers.cancel_scope.cancel)
            for each in self._connections:
                supervisor = self._start(runtime, each)
                stack.push_async_callback(supervisor.shutdown, _GRACE)
                watchers.start_soon(_watch, supervisor, each)
            lost = await self._find_lost()
            if lost is None:
                self._stack = stack.pop_all()
                return self
        raise MCPServerError(lost.server.name, f"is not available: {lost.error}")

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Disconnect from all servers; when this returns, none of their processes is left."""
        stack, self._stack = self._stack, None
        try:
            if stack is not None:
                await stack.__aexit__(kind, error, traceback)
        except BaseExceptionGroup as group:
            if group.exceptions != (error,):
                raise  # else the block's own exception goes on as it was

    async def _find_lost(self) -> "Connection | None":
        """Wait until every server has been tried; return one that has to be there and is not."""
        with trio.move_on_after(math.inf if self._required else _PATIENCE):
            for each in self._connections:
                await each.first_try.wait()
                if self._required and each.state != "connected":
                    return each
        return None

    def _start(self, runtime: AgentRuntime, connection: "Connection") -> Supervisor:
        name = f"mcp:{connection.server.name}"
        # A program that ends again and again is broken; a service may be away for longer.
        supervisor = runtime.supervisor(
            intensity=_RESTARTS if connection.server.command else _NEVER,
            period=_PERIOD,
            backoff=_BACKOFF,
            name=name,
        )
        session = AgentSession.new(name, store=InMemoryStore())
        supervisor.spawn(session, connection.run, restart="transient", unattended="deny")
        return supervisor

    def _forget(self) -> None:
        self._connections = ()
        self._change()

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def wait_change(self) -> None:
        """Wait until the state or the tools of a server change, from now on."""
        await self._changed.wait()

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools of all servers as they are now.

        Raises:
            ConfigurationError: the block is not open.
        """
        if not self._connections and self._servers:
            raise ConfigurationError(
                "the MCP servers are not connected",
                hint="run the agent in a block: async with servers: …",
            )
        parts = tuple(each.tools for each in self._connections)
        known = self._parts
        if len(parts) != len(known) or any(a is not b for a, b in zip(parts, known, strict=True)):
            self._parts = parts
            self._listed = self._offer([tool for part in parts for tool in part])
        return self._listed

    def _offer(self, tools: list[RegisteredTool]) -> tuple[Tool, ...]:
        """Return the tools, or two that stand for all; an unchanged one stays the same object."""
        if len(tools) <= self._search_above:
            self._hidden = {}
            return tuple(tools)
        known = self._hidden
        self._hidden = {
            id(each): known.get(id(each)) or (each, structs.replace(each, is_offered=False))
            for each in tools
        }
        hidden = [each for _, each in self._hidden.values()]
        names = [each.name for each in hidden]
        return (ToolSearch(hidden), CallTool(lambda: names), *hidden)

    async def list_prompts(self) -> tuple["MCPPrompt", ...]:
        """Return the prompts that the connected servers offer.

        Raises:
            MCPServerError: a server refuses to list them, or takes too long.
        """
        from greenroom.interop.mcp.offers import list_prompts

        found = [
            await each.ask(partial(list_prompts, server=each.server)) for each in self._connected
        ]
        return tuple(chain.from_iterable(found))

    async def get_prompt(
        self, server: str, name: str, arguments: Mapping[str, str] = _NOTHING
    ) -> tuple[Message, ...]:
        """Return the messages of a prompt, for a person who has chosen it; they are the server's.

        Raises:
            ConfigurationError: there is no server of that name.
            MCPServerError: the server has no such prompt, lacks an argument, or does not answer.
        """
        from greenroom.interop.mcp.offers import get_prompt

        return await self._find(server).ask(partial(get_prompt, name=name, arguments=arguments))

    async def list_resources(self) -> tuple["MCPResource", ...]:
        """Return the resources that the connected servers offer.

        Raises:
            MCPServerError: a server refuses to list them, or takes too long.
        """
        from greenroom.interop.mcp.offers import list_resources

        found = [
            await each.ask(partial(list_resources, server=each.server)) for each in self._connected
        ]
        return tuple(chain.from_iterable(found))

    async def read_resource(self, server: str, uri: str) -> tuple[ResultContent, ...]:
        """Return the contents of a resource as blocks; they are the server's word.

        Raises:
            ConfigurationError: there is no server of that name.
            MCPServerError: the server has no such resource, or does not answer.
        """
        from greenroom.interop.mcp.offers import fetch_resource

        return await self._find(server).ask(partial(fetch_resource, uri=uri))

    @property
    def _connected(self) -> list["Connection"]:
        return [each for each in self._connections if each.state == "connected"]

    def _find(self, server: str) -> "Connection":
        for each in self._connections:
            if each.server.name == server:
                return each
        known = ", ".join(each.server.name for each in self._connections) or "none"
        raise ConfigurationError(
            f"there is no MCP server {server[:80]!r}", hint=f"there are: {known}"
        )

    @property
    def status(self) -> tuple[MCPServerStatus, ...]:
        """What there is to say about each server, in the order in which they were given."""
        return tuple(
            MCPServerStatus(
                each.server.name,
                each.state,
                each.error,
                tuple(tool.name for tool in each.tools),
                each.left_out,
                each.instructions,
                each.starts,
            )
            for each in self._connections
        )


def _load(known: Iterable[AllowedDefinitions]) -> None:
    for each in known:
        each.load()


async def _watch(supervisor: Supervisor, connection: "Connection") -> None:
    """Note it when a server is not started again."""
    await supervisor.wait()
    if connection.state != "closed":
        connection.fail("it has ended too often")
