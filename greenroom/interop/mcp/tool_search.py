"""Two tools in place of thousands: `ToolSearch` finds them, and `CallTool` calls them.

Their own definitions are the same at each step, so what a vendor has cached of a conversation stays
valid; they change only if the list of tools does. A call by `CallTool` is judged, shown and run as
a call of the tool that it names.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import cast

from greenroom.core import AgentContext, ToolInfo, ToolResult
from greenroom.core._internal import InvalidJSONError, clip, serde
from greenroom.tools._internal import RegisteredTool

SEARCH_ABOVE = 50
"""Tools of all servers together above which they are searched for, unless `MCPServers` says
otherwise."""

_MAX_NAMES = 8_000  # characters of the names that the description of the search has
_MAX_FOUND, _USUAL_FOUND = 25, 8
_MAX_SHOWN = 2_000  # characters of each description
_WORD = re.compile(r"[^\W_]+")
_PARAMETERS: dict[str, object] = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "minLength": 1,
            "maxLength": 1_000,
            "description": "Words of what the tool has to do, or exact names, with commas.",
        },
        "limit": {"type": "integer", "minimum": 1, "maximum": _MAX_FOUND},
    },
    "required": ["query"],
    "additionalProperties": False,
}


class ToolSearch:
    """Finds tools by words, and returns what they say of themselves, with their schemas.

    Args:
        tools: those that are searched.
    """

    name = "ToolSearch"
    category = "read"
    requires_permission = False  # it shows what would otherwise stand in each request
    parameters = _PARAMETERS

    def __init__(self, tools: Sequence[RegisteredTool]) -> None:
        """Take the tools; another list makes another search."""
        self._tools = {each.name: each for each in tools}
        self._words = {
            each.name: (_split(each.name), _split(each.description[:_MAX_SHOWN])) for each in tools
        }
        self.description = "\n".join(self._describe())

    def _describe(self) -> Iterator[str]:
        yield (
            f"Find tools among {len(self._tools):,} that are not listed with their parameters. The"
            " result has their definitions; call them with CallTool, after that and not before."
        )
        names = ", ".join(sorted(self._tools))
        if len(names) <= _MAX_NAMES:
            yield f"The tools: {names}"
            return
        servers: dict[str, int] = {}
        for name in self._tools:
            server = "__".join(name.split("__")[:2])
            servers[server] = servers.get(server, 0) + 1
        yield from (f"{server}: {count:,} tools" for server, count in sorted(servers.items()))

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Show the words that are searched for."""
        return ToolInfo("Look for tools", str(input.get("query", "")))

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Return the definitions of the tools that fit best."""
        query, most = str(input["query"]), cast("int", input.get("limit", _USUAL_FOUND))
        found = self.find(query)[:most]
        if not found:
            return ToolResult.ok("No tool has any of these words. Try others, or fewer.")
        return ToolResult.ok("\n".join(map(_write, found)))

    def find(self, query: str) -> list[RegisteredTool]:
        """Return the tools that fit a query, the best first; exact names come before all."""
        named = [name for each in query.split(",") if (name := each.strip()) in self._tools]
        wanted = _split(query)
        scores = {
            name: 3 * len(wanted & own) + len(wanted & described)
            for name, (own, described) in self._words.items()
        }
        best = sorted((name for name in scores if scores[name]), key=lambda name: -scores[name])
        return [self._tools[name] for name in dict.fromkeys([*named, *best])]


def _split(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORD.findall(text))


def _write(tool: RegisteredTool) -> str:
    return serde.to_text(
        {
            "name": tool.name,
            "description": clip(tool.description, _MAX_SHOWN),
            "parameters": tool.parameters,
        }
    )


class CallTool:
    """Calls a tool that `ToolSearch` has found."""

    name = "CallTool"
    description = (
        "Call a tool that ToolSearch has found, with arguments that fit the parameters it showed."
    )
    category = "network"
    parameters: dict[str, object] = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
        "required": ["name"],
        "additionalProperties": False,
    }

    def __init__(self, names: Callable[[], Sequence[str]]) -> None:
        """Take what lists the names that there are now, for an answer to another one."""
        self._names = names

    def redirect(self, input: dict[str, object]) -> tuple[str, dict[str, object]] | None:  # noqa: A002
        """Return the call that is meant."""
        name, arguments = input.get("name"), input.get("arguments", {})
        if isinstance(arguments, str):
            try:
                arguments = serde.loads_object(arguments)
            except InvalidJSONError:
                return None
        if not isinstance(name, str) or not isinstance(arguments, dict):
            return None
        return name, arguments

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Say that there is no such tool: a call of one that exists is shown as that."""
        return ToolInfo("Call a tool that does not exist", str(input.get("name", "")))

    requires_permission = False  # what exists is judged as itself, and the rest does nothing

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Answer a call of a tool that does not exist."""
        name = str(input["name"])
        near = get_close_matches(name, self._names(), 5)
        hint = f"Did you mean {', '.join(near)}?" if near else "ToolSearch finds them."
        text = f"There is no tool named {name[:100]!r} to call. {hint}"
        return ToolResult.error(text, could_run=False, error="UnknownToolError")
