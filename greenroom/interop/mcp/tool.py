"""What becomes of a tool's definition as a server sends it: a tool of ours, or a line why not."""

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from difflib import unified_diff
from math import inf
from typing import TypeAlias

from greenroom.core import AgentContext, ToolError, ToolInfo, ToolResult
from greenroom.core._internal import clip, serde, valid_unicode
from greenroom.tools._internal import RegisteredTool, plain_info

Caller: TypeAlias = Callable[["MCPTool", dict[str, object], AgentContext], Awaitable[ToolResult]]
"""Makes a call of a tool at its server."""

MAX_DESCRIPTION = 20_000
"""Characters of a tool's description that a model sees."""

_LONGEST = 64  # what the strictest API takes
_HASH = 8
_MAX_LINES = 4_000
_MAX_CHANGE = 10_000
_ODD = re.compile(r"[^A-Za-z0-9_-]")


def make_tool_name(server: str, tool: str) -> str:
    """Make the name that models call a server's tool by.

    A name that is too long or has other characters is made fit, with a hash of the whole.

    Example:
        >>> make_tool_name("time", "now"), make_tool_name("fs", "read file")
        ('mcp__time__now', 'mcp__fs__read_file-1214148e')
    """
    name = f"mcp__{server}__{_ODD.sub('_', tool)}"
    if tool and name == f"mcp__{server}__{tool}" and len(name) <= _LONGEST:
        return name
    digest = hashlib.sha256(tool.encode("utf-8", "backslashreplace")).hexdigest()[:_HASH]
    return f"{name[: _LONGEST - _HASH - 1]}-{digest}"


def hash_definition(definition: Mapping[str, object]) -> str:
    """Return a digest of what a tool says of itself: its texts, schemas and hints."""
    said = serde.dumps(_sort(definition))
    return f"sha256:{hashlib.sha256(said).hexdigest()[:32]}"


def _sort(value: object) -> object:
    if isinstance(value, Mapping):
        return [[str(key), _sort(value[key])] for key in sorted(value, key=str)]
    if isinstance(value, list | tuple):
        return [_sort(each) for each in value]
    return valid_unicode(value) if isinstance(value, str) else value


@dataclass(frozen=True, kw_only=True, eq=False)
class MCPTool:
    """A tool of a server. It always has to be allowed, whatever the server says of it.

    Attributes:
        server: the name of the server.
        remote_name: what the server calls it.
        name: what models call it.
        description: as the server says.
        parameters: the schema of its input.
        output_schema: the schema of its structured results, or None.
        concurrent: whether its calls may run beside others: if the server says that it only reads.
            Nothing else follows from that, least of all that it may run unasked.
        destructive: whether the server says that it may destroy something; else None.
        definition_hash: a digest of all that the server says of it.
        change: how that differs from what it said before, in this process; empty if it does not.
        call: makes the calls.
    """

    server: str
    remote_name: str
    name: str
    description: str
    parameters: dict[str, object]
    output_schema: dict[str, object] | None
    concurrent: bool
    destructive: bool | None
    definition_hash: str
    call: Caller
    change: str = ""
    category = "network"
    requires_permission = True
    timeout = inf  # the connection keeps the time, which stands still while a person is asked

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Name the server, and show the whole input, and how the tool has changed."""
        plain = plain_info(self.name, input)
        what = f"Use {self.remote_name} of the MCP server {self.server}"
        return ToolInfo(what, plain.details, diff=self.change)

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Make the call at the server."""
        return await self.call(self, input, context)


def describe_change(before: Mapping[str, object], now: Mapping[str, object]) -> str:
    """Return how two definitions of a tool differ, as a unified diff of bounded length.

    Example:
        >>> print(describe_change({"description": "Adds."}, {"description": "Adds, and mails."}))
        --- the definition before
        +++ the definition now
        @@ -1,3 +1,3 @@
         {
        -  "description": "Adds."
        +  "description": "Adds, and mails."
         }
    """
    old, new = (
        serde.dumps(dict(each), pretty=True).decode().splitlines() for each in (before, now)
    )
    if len(old) + len(new) > _MAX_LINES:
        return "--- the definition before\n+++ the definition now\n(too long to compare)"
    names = ("the definition before", "the definition now")
    return clip("\n".join(unified_diff(old, new, *names, lineterm="")), _MAX_CHANGE)


def read_tool(
    server: str, definition: Mapping[str, object], call: Caller, change: str = ""
) -> RegisteredTool:
    """Make a tool of a definition; `change` says how it differs from the one before.

    Raises:
        ToolError: it can't be used; the message says why.
    """
    name, description = definition.get("name"), definition.get("description") or ""
    schema, output = definition.get("inputSchema"), definition.get("outputSchema")
    hints = definition.get("annotations")
    hints = hints if isinstance(hints, dict) else {}
    if not isinstance(name, str) or not isinstance(schema, dict):
        raise ToolError("a tool without a name or a schema")
    tool = MCPTool(
        server=server,
        remote_name=name,
        name=make_tool_name(server, name),
        description=clip(valid_unicode(str(description)), MAX_DESCRIPTION),
        parameters={"type": "object", **schema},
        output_schema=output if isinstance(output, dict) else None,
        concurrent=hints.get("readOnlyHint") is True,
        destructive=True if hints.get("destructiveHint") is True else None,
        definition_hash=hash_definition(definition),
        call=call,
        change=change,
    )
    try:
        return RegisteredTool.of(tool)
    except ToolError:
        if tool.output_schema is None:
            raise
        # Its results can't be checked then, which is no reason to do without it.
        return RegisteredTool.of(replace(tool, output_schema=None))
