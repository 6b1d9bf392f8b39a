"""What `@tool` keeps of a function's types; mypy reads this file, nothing runs it."""

from typing import assert_type

from greenroom.core import AgentContext, ToolInfo, ToolResult
from greenroom.tools import ProcessLimits, Tool, ToolRegistry, as_tool, tool
from greenroom.tools._internal import FunctionTool


@tool
async def search(query: str, limit: int = 5) -> list[str]:
    """Search."""
    return [query] * limit


@tool(category="read", concurrent=True)
def count(text: str, context: AgentContext) -> int:
    """Count."""
    return len(text)


@tool(isolation="process", limits=ProcessLimits(cpu_seconds=1))
def crunch(number: int) -> float:
    """Crunch."""
    return number / 2


class Plain:
    """A tool by structure alone, its members written as a class writes them."""

    name = "Plain"
    description = "Do nothing."
    category = "read"
    parameters = {"type": "object", "properties": {"a": {"type": "string"}}}

    def info(self, input: dict[str, object]) -> ToolInfo:
        return ToolInfo("Nothing")

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:
        return ToolResult.ok("")


async def calls() -> None:
    assert_type(count("a", AgentContext(session_id="s", agent_type="t")), int)
    assert_type(await search("a", limit=3), list[str])
    assert_type(crunch(3), float)
    tool(isolation="container")(count)  # type: ignore[call-overload]
    await search(3)  # type: ignore[arg-type]
    count("a")  # type: ignore[call-arg]


def accepts(plain: Plain, made: FunctionTool[[str], str]) -> None:
    tools: list[Tool] = [plain, made, search, count]
    registry = ToolRegistry(tools)
    registry.register(plain)
    registry.register(as_tool(object()))


def narrows(thing: object) -> Tool | None:
    return thing if isinstance(thing, Tool) else None
