"""The tools that a client brings along with its requests, and runs by itself."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

import msgspec

from greenroom.agents import Agent
from greenroom.core import AgentContext, ToolInfo, ToolResult
from greenroom.runtime import AgentInternals
from greenroom.tools import Tool, ToolRegistry
from greenroom.tools._internal import plain_info

AgentFunction: TypeAlias = Callable[[AgentInternals], Awaitable[object]]
"""What a served agent is: an async function of its internals alone, such as an `Agent`."""


class ClientToolDefinition(msgspec.Struct, frozen=True):
    """What a client says of one of its tools."""

    name: str
    description: str
    parameters: dict[str, object] = {}


class ClientTool:
    """A tool whose calls only wait for the result that the client sends."""

    category = "client"
    requires_permission = False  # the client runs it, in its own name
    runs_on = "client"
    concurrent = True  # so that the client hears of all calls of a reply

    def __init__(self, definition: ClientToolDefinition, timeout: float) -> None:
        """Describe a client's tool; a call waits so many seconds for its result."""
        self.definition = definition
        self.name, self.description = definition.name, definition.description
        self.parameters = dict(definition.parameters) or {"type": "object", "properties": {}}
        self.timeout = timeout

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002 (a tool's word for it)
        """Describe a call."""
        return plain_info(self.name, input)

    async def execute(
        self,
        input: dict[str, object],  # noqa: A002
        context: AgentContext,
    ) -> ToolResult:
        """Wait for what the client sends."""
        return await context.client_result()


class ClientTools:
    """A provider of the tools that the client of a session has brought with its last request."""

    def __init__(self, timeout: float) -> None:
        """Begin without any; a call waits so many seconds for its result."""
        self._timeout = timeout
        self._tools: dict[str, ClientTool] = {}

    def tools(self) -> Iterable[Tool]:
        """Return what the client has now."""
        return tuple(self._tools.values())

    def has(self, name: str) -> bool:
        """Whether the client has a tool of this name."""
        return name in self._tools

    def set(self, definitions: Iterable[ClientToolDefinition]) -> None:
        """Offer these from now on.

        Raises:
            ToolError: one of them can't be a tool, or there are two of one name.
        """
        known, new = self._tools, list[ClientTool]()
        for each in definitions:
            tool = known.get(each.name)
            is_same = tool is not None and tool.definition == each
            new.append(tool if tool is not None and is_same else ClientTool(each, self._timeout))
        ToolRegistry(new)  # which refuses what can't be one
        self._tools = {each.name: each for each in new}


def add_client_tools(function: AgentFunction, tools: ClientTools) -> AgentFunction | None:
    """Return an agent that has the tools of a client as well; None if it can't have them."""
    if not isinstance(function, Agent):
        return None
    own = function.tools
    if callable(own) or not isinstance(own, Iterable):
        return None
    return function.replace_tools((*own, tools))


def find_clash(function: AgentFunction, definitions: Iterable[ClientToolDefinition]) -> str:
    """Return the name of a client's tool that is one of the agent's own; empty without one."""
    if not isinstance(function, Agent):
        return ""
    own = function.toolbox.registry
    return next((each.name for each in definitions if own.get(each.name) is not None), "")
