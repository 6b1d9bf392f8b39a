"""The registry: the tools of an agent by name, and the run of the calls of one reply.

Providers' tools are registered as they come, and merged with its own.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias, cast

from msgspec.structs import replace

from greenroom.core import (
    AgentContext,
    ToolDefinition,
    ToolError,
    ToolInfo,
    ToolResult,
    ToolUseBlock,
)
from greenroom.core._internal import portable_name, thaw, visible
from greenroom.tools.execution import RegisteredTool
from greenroom.tools.interface import Tool, ToolProvider, plain_info

_log = logging.getLogger("greenroom.tools")
_MOST_TOLD = 1_000  # names of which a provider is remembered to have been warned


class ProvidedTools:
    """Registers what a provider has, each tool once as long as it is the same object."""

    def __init__(self, provider: ToolProvider) -> None:
        self.provider = provider
        self._listed: tuple[Tool, ...] = ()
        self._registered: tuple[RegisteredTool, ...] = ()
        self._known: dict[int, RegisteredTool | None] = {}
        self._told: set[str] = set()

    def read(self) -> tuple[RegisteredTool, ...]:
        """Return the tools that there are now; the same tuple as long as they are the same."""
        listed, before = tuple(self.provider.tools()), self._listed
        is_same = listed is before or (
            len(listed) == len(before)
            and all(new is old for new, old in zip(listed, before, strict=True))
        )
        if not is_same:
            # The old objects live until here, so that no new one has the identity of an old one.
            known = self._known
            self._known = {
                id(each): known[id(each)] if id(each) in known else self._register(each)
                for each in listed
            }
            self._listed = listed
            self._registered = tuple(each for each in self._known.values() if each is not None)
        return self._registered

    def _register(self, tool: Tool) -> RegisteredTool | None:
        try:
            return RegisteredTool.of(tool)
        except ToolError as error:
            self.leave_out(str(getattr(tool, "name", type(tool).__name__)), error.message)
            return None

    def leave_out(self, name: str, why: str) -> None:
        """Warn that a tool is left out, once for each name."""
        if name not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add(name)
            _log.warning("the tool %.100r of %r is left out: %s", name, self.provider, why)


class MergedTools:
    """The tools of several providers behind those of a registry, whose names none of them takes."""

    def __init__(self) -> None:
        self._providers: list[ProvidedTools] = []
        self._own: Mapping[str, RegisteredTool] = {}
        self._read: list[tuple[RegisteredTool, ...]] = []
        self._merged: dict[str, RegisteredTool] = {}

    def __iter__(self) -> Iterator[ToolProvider]:
        return iter([each.provider for each in self._providers])

    def add(self, provider: ToolProvider) -> None:
        """Add a provider, unless it is there already."""
        if all(each.provider is not provider for each in self._providers):
            self._providers.append(ProvidedTools(provider))

    def merge(self, own: Mapping[str, RegisteredTool]) -> dict[str, RegisteredTool]:
        """Return these tools and those that the providers have now, each under its name."""
        read = [each.read() for each in self._providers]
        is_same = len(read) == len(self._read) and all(map(_is, read, self._read))
        if not is_same or own != self._own:
            self._own, self._read = dict(own), read
            self._merged = self._merge(own)
        return self._merged

    def _merge(self, own: Mapping[str, RegisteredTool]) -> dict[str, RegisteredTool]:
        found = dict(own)
        origins: dict[str, object] = dict.fromkeys(map(portable_name, own), "the registry")
        for provider, tools in zip(self._providers, self._read, strict=True):
            for each in tools:
                wanted = portable_name(each.name)
                if wanted in origins:
                    provider.leave_out(each.name, f"{origins[wanted]} has a tool of that name")
                    continue
                found[each.name], origins[wanted] = each, provider.provider
        return found


def _is(one: object, other: object) -> bool:
    return one is other


_Redirect: TypeAlias = Callable[[dict[str, object]], tuple[str, dict[str, object]] | None]


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
        self._provided: MergedTools | None = None  # of few registries
        self._defined: dict[str, tuple[RegisteredTool, ToolDefinition]] = {}
        if isinstance(tools, str) or not isinstance(tools, Iterable):
            raise ToolError(f"{tools!r} is not a list of tools", hint="write ToolRegistry([…])")
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
                hint="give one another name, as in tool(name='…'), or register(…, replace=True)",
            )
        self._check_portable(registered.name)
        self._tools[registered.name] = registered
        return registered

    def add(self, provider: ToolProvider) -> None:
        """Add the tools of a provider, as it has them at each moment, behind all others.

        One that can't be registered is left out, with a warning in the log `greenroom.tools`; so
        is one whose name is taken. A provider that was added before is ignored.

        Raises:
            ToolError: it is not a `ToolProvider`.

        Example:
            >>> from greenroom.tools.function_tool import tool
            >>> @tool
            ... async def now() -> str: ...
            >>> class Clock:
            ...     def tools(self):
            ...         return [now]
            >>> registry = ToolRegistry()
            >>> registry.add(Clock())
            >>> registry.list_tools()
            ('now',)
        """
        if isinstance(provider, type) or not isinstance(provider, ToolProvider):
            raise ToolError(
                f"{provider!r} provides no tools",
                hint="pass an object with a method tools(), or register(tool)",
            )
        if self._provided is None:
            self._provided = MergedTools()
        self._provided.add(provider)

    def with_tools(self, *tools: Tool) -> "ToolRegistry":
        """Make a registry with these tools on top, which also sees later registrations here.

        Raises:
            ToolError: one of them can't be registered; see `register`.
        """
        return _Extended(self, tools)

    def __iter__(self) -> Iterator[Tool | ToolProvider]:
        """Iterate over the tools in the order of registration, and then over the providers."""
        yield from [each.tool for each in self._tools.values()]
        yield from self._provided or ()

    def get(self, name: str) -> RegisteredTool | None:
        """Return the tool of this name, or None."""
        found = self._tools.get(name)
        return found or (self._all().get(name) if self._provided else None)

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
        return self._provided.merge(self._tools) if self._provided else self._tools

    def get_category(self, name: str) -> str | None:
        """Return the category of the tool of this name, or None."""
        found = self.get(name)
        return found.category if found else None

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the definitions of the tools that are offered to a model, sorted by name.

        So requests do not depend on the order of registration, which would cost cache hits.
        """
        offered = {name: tool for name, tool in self._all().items() if tool.is_offered}
        return tuple(self._define(offered[name]) for name in sorted(offered))

    def _define(self, tool: RegisteredTool) -> ToolDefinition:
        """Return a tool's definition, the same object as before, which others know by that."""
        known = self._defined.get(tool.name)
        if known is None or known[0] is not tool:
            definition = ToolDefinition(
                tool.name, tool.description, tool.parameters, output_schema=tool.output_schema
            )
            known = self._defined[tool.name] = tool, definition
        return known[1]

    def resolve(self, call: ToolUseBlock) -> ToolUseBlock:
        """Return the call that a call means: itself, unless its tool stands for others."""
        found = None if call.invalid else self.get(call.name)
        redirect = cast("_Redirect | None", getattr(found and found.tool, "redirect", None))
        meant = None if redirect is None else redirect(thaw(call.input))
        target = None if meant is None else self.get(meant[0])
        if meant is None or target is None or target.is_offered:
            return call
        return replace(call, name=meant[0], input=meant[1])

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
            known = ", ".join(each.name for each in self._all().values() if each.is_offered)
            known = known or "none"
            text = f"There is no tool named {name!r}. The tools are: {known}."
            return ToolResult.error(text, could_run=False, error="UnknownToolError")
        return await found.execute(input, context)


class _Extended(ToolRegistry):
    """A registry on top of another one; its own tool wins over one of the same name below."""

    def __init__(self, below: ToolRegistry, tools: Iterable[Tool]) -> None:
        self._below = below
        super().__init__(tools)

    def get(self, name: str) -> RegisteredTool | None:
        found = super().get(name)
        return found or self._below.get(name)

    def __iter__(self) -> Iterator[Tool | ToolProvider]:
        yield from (each for each in self._below if getattr(each, "name", None) not in self._tools)
        yield from super().__iter__()

    def _all(self) -> dict[str, RegisteredTool]:
        return {**self._below._all(), **super()._all()}
