"""The registry: the tools that an agent may call, and the one gate through which it calls them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from greenroom.core import (
    AgentContext,
    ToolDefinition,
    ToolError,
    ToolInfo,
    ToolResult,
    portable_name,
    visible,
)
from greenroom.tools.protocol import Tool, plain_info
from greenroom.tools.registered_tool import RegisteredTool


@dataclass(frozen=True)
class ToolRegistryStatistics:
    """A look at one registry.

    Attributes:
        tools: tools that can be called, those of the registry below included.
        categories: how many of them stand in each category.
    """

    tools: int
    categories: Mapping[str, int]


class ToolRegistry:
    """Tools by name, empty unless tools are given. It may change while agents run.

    Example:
        >>> from greenroom.tools import tool
        >>> @tool
        ... def add(a: int, b: int) -> int:
        ...     \"\"\"Add two numbers.\"\"\"
        ...     return a + b
        >>> registry = ToolRegistry([add])
        >>> registry.list_tools()
        ('add',)
        >>> registry.definitions()[0].parameters["required"]
        ['a', 'b']
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        """Register these tools, in order.

        Raises:
            ToolError: one of them can't be registered; see `register`.
        """
        self._tools: dict[str, RegisteredTool] = {}
        for tool in tools:
            self.register(tool)

    def register(self, tool: Tool, *, replace: bool = False) -> RegisteredTool:
        """Add a tool; the next model call sees it. A replaced tool keeps its place in the order.

        Raises:
            ToolError: a member is missing, the name is bad or taken, or the schema is broken.
        """
        registered = RegisteredTool.of(tool)
        if registered.name in self._tools and not replace:
            raise ToolError(
                f"a tool named {registered.name} is already registered",
                hint="pass replace=True to put this one in its place",
            )
        self._check_portable(registered.name)
        self._tools[registered.name] = registered
        return registered

    def extended(self, *tools: Tool) -> "ToolRegistry":
        """Make a registry that has these tools too; what is registered here later shows in it.

        Raises:
            ToolError: one of them can't be registered; see `register`.
        """
        return _Extended(self, tools)

    def get(self, name: str) -> RegisteredTool | None:
        """Return the tool of this name, or None."""
        return self._all().get(name)

    def list_tools(self) -> tuple[str, ...]:
        """Return the names, in the order of registration."""
        return tuple(self._all())

    def _check_portable(self, name: str) -> None:
        wanted = portable_name(name)
        for other in self._all() if "__" in wanted else ():
            if other != name and portable_name(other) == wanted:
                raise ToolError(
                    f"{name} and {other} are one name to a model: {wanted}",
                    hint="to most models a dot is written as two underscores; rename one of them",
                )

    def _all(self) -> dict[str, RegisteredTool]:
        return self._tools

    def statistics(self) -> ToolRegistryStatistics:
        """Return how many tools there are, by category."""
        tools = self._all().values()
        return ToolRegistryStatistics(len(tools), Counter(tool.category for tool in tools))

    def get_category(self, name: str) -> str | None:
        """Return the category of the tool of this name, or None where there is none."""
        found = self.get(name)
        return found.category if found else None

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return what a model is told of the tools, sorted by name.

        So the order in which they were registered changes no request, and costs no cache.
        """
        tools = sorted(self._all().values(), key=lambda tool: tool.name)
        return tuple(ToolDefinition(each.name, each.description, each.parameters) for each in tools)

    def info(self, name: str, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Say what a call would do, for a person. Never raises, whatever the name and the input."""
        found = self.get(name)
        if found:
            return found.info(input)
        plain = plain_info(name, input)
        return ToolInfo(visible(plain.action), visible(plain.details))

    async def execute(
        self,
        name: str,
        input: dict[str, object],  # noqa: A002
        context: AgentContext,
    ) -> ToolResult:
        """Run one call: the gate that every call of a model goes through.

        The input is validated against the tool's schema; the call is stopped at its time-out; an
        exception becomes an error result with its type and message, and its traceback goes to the
        log `greenroom.tools`; a long text is cut, and the whole of it kept in a file that the
        result names. An unknown name is answered with the names that exist.

        Nothing that fails raises here, `sys.exit()` in a tool included. Only `trio.Cancelled`,
        `KeyboardInterrupt` and `GeneratorExit` pass through.
        """
        found = self.get(name)
        if found is None:
            known = ", ".join(self._all()) or "none"
            text = f"There is no tool named {name!r}. The tools are: {known}."
            return ToolResult.error(text, could_run=False)
        return await found.execute(input, context)


class _Extended(ToolRegistry):
    """A registry that stands on another one; of two tools of one name, its own wins."""

    def __init__(self, below: ToolRegistry, tools: Iterable[Tool]) -> None:
        self._below = below
        super().__init__(tools)

    def _all(self) -> dict[str, RegisteredTool]:
        return {**self._below._all(), **self._tools}
