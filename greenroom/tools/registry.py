"""The registry: the tools of an agent by name, and the run of the calls of one reply."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from greenroom.core import (
    AgentContext,
    ToolDefinition,
    ToolError,
    ToolInfo,
    ToolResult,
    portable_name,
)
from greenroom.core._internal import visible
from greenroom.tools.call_order import CallOrder, Reach
from greenroom.tools.execution import RegisteredTool
from greenroom.tools.interface import Tool, plain_info


class ToolRegistry:
    """Tools by name; it may change while agents run.

    Example:
        >>> from greenroom.tools.function_tool import tool
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

    def with_tools(self, *tools: Tool) -> "ToolRegistry":
        """Make a registry with these tools on top, which also sees later registrations here.

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
                    hint="for most models a dot becomes two underscores; rename one of them",
                )

    def _all(self) -> dict[str, RegisteredTool]:
        return self._tools

    def get_category(self, name: str) -> str | None:
        """Return the category of the tool of this name, or None."""
        found = self.get(name)
        return found.category if found else None

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the definitions of the tools for a model, sorted by name.

        So requests do not depend on the order of registration, which would cost cache hits.
        """
        tools = sorted(self._all().values(), key=lambda tool: tool.name)
        return tuple(
            ToolDefinition(
                each.name, each.description, each.parameters, output_schema=each.output_schema
            )
            for each in tools
        )

    def info(self, name: str, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Describe a call for a person. Never raises, whatever the name and the input."""
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
        log `greenroom.tools`; a long text is cut, and kept whole in a file that the result names.
        The answer to an unknown name lists the tools.

        No failure of a tool raises here, `sys.exit()` included. Only `AgentCrashError`,
        `trio.Cancelled`, `KeyboardInterrupt` and `GeneratorExit` pass through.
        """
        found = self.get(name)
        if found is None:
            known = ", ".join(self._all()) or "none"
            text = f"There is no tool named {name!r}. The tools are: {known}."
            return ToolResult.error(text, could_run=False, error="UnknownToolError")
        return await found.execute(input, context)


class _Extended(ToolRegistry):
    """A registry on top of another one; its own tool wins over one of the same name below."""

    def __init__(self, below: ToolRegistry, tools: Iterable[Tool]) -> None:
        self._below = below
        super().__init__(tools)

    def _all(self) -> dict[str, RegisteredTool]:
        return {**self._below._all(), **self._tools}


Call: TypeAlias = tuple[str, dict[str, object], AgentContext]
"""A tool's name, its input, and the context of this one call."""


async def run_batch(
    calls: Sequence[Call],
    tools: ToolRegistry,
    limit: int = 5,
    on_result: Callable[[int, ToolResult], None] | None = None,
) -> list[ToolResult]:
    """Run the calls of one reply; the results are in the calls' order.

    They run side by side, in turn where their effects may touch (`Reach`), and begin in order. A
    failed call does not stop the others.

    Args:
        calls: name, input and context of each call.
        tools: the registry that runs them.
        limit: how many run at a time; at least one does.
        on_result: called with the index and the result of each call as soon as it ends, so on a
            cancel the caller has the results so far.

    Example:
        >>> import trio
        >>> from greenroom.tools.function_tool import tool
        >>> @tool
        ... async def double(number: int) -> int:
        ...     return 2 * number
        >>> context = AgentContext(session_id="s-1", agent_type="demo")
        >>> calls = [("double", {"number": n}, context) for n in (1, 2)]
        >>> [result.text for result in trio.run(run_batch, calls, ToolRegistry([double]))]
        ['2', '4']
    """
    results: dict[int, ToolResult] = {}

    async def run(index: int) -> None:
        results[index] = await tools.execute(*calls[index])
        if on_result:
            on_result(index, results[index])

    order = CallOrder([Reach()] * len(calls), limit)
    for index, (name, input_, context) in enumerate(calls):
        found = tools.get(name)
        order.allow(index, Reach.of(found, input_, context) if found else Reach())
    await order.run(run)
    return [results[index] for index in range(len(calls))]
