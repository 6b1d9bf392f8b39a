"""The registry: the tools that an agent may call, and the one gate through which it calls them."""

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias, TypeVar, cast

import trio

from greenroom.core import (
    MAX_ERROR_TEXT,
    AgentContext,
    Credential,
    Effect,
    Opaque,
    SandboxReport,
    ToolDefinition,
    ToolError,
    ToolInfo,
    ToolResult,
    ToolStatus,
    Workspace,
    clip,
    conceal,
    describe_error,
    is_a,
    leaves,
    log_error,
    message_of,
    portable_name,
    serde,
    visible,
)
from greenroom.sandbox import Sandbox, check_required, examine_sandbox
from greenroom.tools.checks import InputValidator, cut_text
from greenroom.tools.protocol import DEFAULT_TIMEOUT, EffectsFunction, Tool, ToolFlags, plain_info

_REQUIRED = ("name", "description", "category", "parameters", "info", "execute")
_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_LONGEST = 64  # what the strictest API takes
_MAX_LEAVES = 5
_PASSING = (trio.Cancelled, KeyboardInterrupt, GeneratorExit)
"""What ends more than the call; everything else that a tool raises is about the call alone."""
_log = logging.getLogger("greenroom.tools")
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class RegisteredTool:
    """A view of a tool with every member, those it left out included; itself a `Tool`.

    Its `execute` is the gate that `ToolRegistry.execute` describes.

    Attributes:
        name: the name that the model calls.
        description: what it does, for the model.
        category: the kind that permission rules speak of.
        parameters: the JSON Schema of its input.
        requires_permission: whether each call has to be allowed.
        timeout: seconds that one call may take.
        concurrent: whether a call may run beside others.
        sandbox: what each call is held to, or None.
        credentials: what the person has to give before a call runs.
        read_only: whether a call changes nothing; None where that is not known.
        idempotent: whether a call that is made again changes nothing more.
        destructive: whether a call may delete what can't be brought back.
    """

    name: str
    description: str
    category: str
    parameters: dict[str, object]
    requires_permission: bool = True
    timeout: float = DEFAULT_TIMEOUT
    concurrent: bool = False
    sandbox: Sandbox | None = None
    credentials: tuple[Credential, ...] = ()
    read_only: bool | None = None
    idempotent: bool | None = None
    destructive: bool | None = None
    tool: Tool = field(repr=False)
    validator: InputValidator = field(repr=False)

    @classmethod
    def of(cls, tool: Tool) -> "RegisteredTool":
        """Check a tool and fill in the members that it leaves out.

        Raises:
            ToolError: a member is missing or of no use; it says which, and why.
        """
        if isinstance(tool, RegisteredTool):
            return tool
        _check_members(tool)
        name = tool.name
        if not isinstance(name, str) or not _is_name(name):
            raise ToolError(
                f"{str(name)[:80]!r} is not a name for a tool",
                hint="use 1 to 64 letters, digits, '_' and '-'; dots between them count as two",
            )
        parameters = _parameters(tool)
        description, category = _text(tool, "description"), _text(tool, "category")
        flags = ToolFlags.of(tool)
        return cls(
            name=name,
            description=description,
            category=category,
            parameters=parameters,
            requires_permission=bool(getattr(tool, "requires_permission", True)),
            timeout=_timeout(tool),
            concurrent=bool(getattr(tool, "concurrent", False)),
            sandbox=_sandbox(tool),
            credentials=_credentials(tool),
            read_only=flags.read_only,
            idempotent=flags.idempotent,
            destructive=flags.destructive,
            tool=tool,
            validator=InputValidator(name, parameters),
        )

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Say what a call would do, with hidden characters made visible. Never raises."""
        warning = " (it may destroy what can't be brought back)" if self.destructive else ""
        try:
            found = self.tool.info(input)
            return ToolInfo(
                " ".join(visible(found.action).split()) + warning,
                visible(found.details),
                visible(found.diff),
                visible(found.claim),
            )
        except (Exception, SystemExit):  # noqa: BLE001  (an unchecked input may upset any tool)
            _log.debug("tool %s could not describe a call", self.name, exc_info=True)
            plain = plain_info(self.name, input)
            return ToolInfo(plain.action + warning, visible(plain.details))

    def fault(self, input: dict[str, object]) -> str | None:  # noqa: A002
        """Return what is wrong with an input, in words for the model, or None where it fits.

        `execute` asks the same; a caller may ask first, before it asks a person.
        """
        return self.validator.fault(input)

    def effects(self, input: dict[str, object], context: AgentContext) -> tuple[Effect, ...]:  # noqa: A002
        """State what a call would do; empty where the tool states nothing.

        Never raises: where the tool can't tell, the effect is `Opaque`, which no rule allows by
        what it does.
        """
        stated = cast("EffectsFunction | None", getattr(self.tool, "effects", None))
        if stated is None:
            return ()
        try:
            return tuple(stated(input, context))
        except (Exception, SystemExit) as error:  # noqa: BLE001  (as above)
            _log.debug("tool %s could not state its effects", self.name, exc_info=True)
            return (Opaque(f"{self.name} can't tell what this does: {type(error).__name__}"),)

    async def examine_sandbox(self, workspace: Workspace) -> SandboxReport | None:
        """Say what a call in a workspace would be held to; None where it has no sandbox.

        Raises:
            SandboxUnavailableError: the sandbox requires what nothing holds here.
            ToolError: its paths can't be found from the workspace.
        """
        if self.sandbox is None:
            return None
        files = cast("Sequence[str]", getattr(self.tool, "sandbox_files", ()))
        report = await examine_sandbox(self.sandbox, workspace, shown=files)
        check_required(self.sandbox, report)
        return report

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Validate the input and run the call, as `ToolRegistry.execute` does."""
        try:
            fault = self.fault(input)
            if fault:
                return ToolResult.error(fault, could_run=False)
            with trio.move_on_after(self.timeout):
                result: object = await self.tool.execute(input, context)
                return await self._finish(result, context)
        except _PASSING:
            raise
        except BaseException as error:  # noqa: BLE001  (whatever a tool raises is its result)
            return conceal(_make_error_result(self.name, error, context), context)
        return ToolResult.error(
            f"{self.name} was stopped: it did not finish within {self.timeout:g} seconds.",
            ToolStatus.TIMEOUT,
        )

    async def _finish(self, result: object, context: AgentContext) -> ToolResult:
        """Make sure that a result can be stored and sent: what it holds is typed, short, and Unicode."""
        if not isinstance(result, ToolResult):
            kind = type(result).__name__
            raise ToolError(f"{self.name} returned {kind}, which is not a ToolResult")
        # Before it is cut: what is left out goes to a file, and half a value is a secret, too.
        result = await cut_text(conceal(result, context), self.name, context)
        try:
            return serde.decode(serde.encode(result), ToolResult).with_error_message()
        except serde.InvalidJSONError as error:
            raise ToolError(f"{self.name} returned a result that can't be used: {error}") from error


def _make_error_result(name: str, error: BaseException, context: AgentContext) -> ToolResult:
    """Log a failure and make a result of it; a cancel, alone or beside a failure, goes on."""
    found = leaves(error)
    passing = [leaf for leaf in found if issubclass(type(leaf), _PASSING)]
    if is_a(error, ToolError):
        _log.info("tool %s failed: %s", name, conceal(message_of(error), context))
    elif len(passing) < len(found):
        log_error(_log, f"tool {name} raised", error)
    if passing:
        raise BaseExceptionGroup(f"{name} was stopped", passing) from None
    return ToolResult.error(describe_failure(error), could_run=is_a(error, ToolError))


def describe_failure(error: BaseException) -> str:
    """Say what a tool raised, in words for the model: the first five of a group."""
    found = leaves(error)
    more = f"; and {len(found) - _MAX_LEAVES} more" if len(found) > _MAX_LEAVES else ""
    parts = [
        message_of(leaf) if is_a(leaf, ToolError) else describe_error(leaf)
        for leaf in found[:_MAX_LEAVES]
    ]
    return clip("; ".join(parts), MAX_ERROR_TEXT - len(more)) + more


def _is_name(name: str) -> bool:
    return len(portable_name(name)) <= _LONGEST and _NAME.fullmatch(name) is not None


def _check_members(tool: object) -> None:
    if isinstance(tool, type):
        raise ToolError(
            f"{tool.__name__} is a class, not a tool", hint=f"register {tool.__name__}()"
        )
    missing = [member for member in _REQUIRED if not hasattr(tool, member)]
    if missing:
        hint = "decorate the function with @tool" if callable(tool) else "pass as_tool(…) of it"
        label = getattr(tool, "name", None) or getattr(tool, "__name__", type(tool).__name__)
        raise ToolError(f"{label} is not a tool: it has no {', no '.join(missing)}", hint=hint)
    for member in ("info", "execute"):
        if not callable(getattr(tool, member)):
            raise ToolError(f"{tool!r} is not a tool: its {member} can't be called")
    if not isinstance(getattr(tool, "parameters", None), Mapping):
        raise ToolError(f"{tool!r} is not a tool: its parameters are not a JSON Schema object")


def _parameters(tool: Tool) -> dict[str, object]:
    """Copy the schema as JSON: it goes to models as such, and must not change under them."""
    try:
        copy = serde.loads(serde.dumps(dict(tool.parameters)))
    except serde.InvalidJSONError as error:
        raise ToolError(f"tool {tool.name}: its schema is not JSON: {error}") from error
    return cast("dict[str, object]", copy)


def _text(tool: Tool, member: str) -> str:
    value: object = getattr(tool, member)
    if not isinstance(value, str):
        raise ToolError(f"tool {tool.name}: its {member} is not text")
    return value


def _sandbox(tool: Tool) -> Sandbox | None:
    value: object = getattr(tool, "sandbox", None)
    if value is not None and not isinstance(value, Sandbox):
        raise ToolError(
            f"tool {tool.name}: its sandbox is {value!r}", hint="give a Sandbox, or None"
        )
    return value


def _credentials(tool: Tool) -> tuple[Credential, ...]:
    values = tuple(cast("Sequence[object]", getattr(tool, "credentials", ())))
    for value in values:
        if not isinstance(value, Credential):
            raise ToolError(
                f"tool {tool.name}: {value!r} is not a Credential", hint="write Credential(name)"
            )
    return cast("tuple[Credential, ...]", values)


def _timeout(tool: Tool) -> float:
    value: object = getattr(tool, "timeout", DEFAULT_TIMEOUT)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ToolError(
            f"tool {tool.name}: its timeout is {value!r}", hint="give seconds, more than 0"
        )
    return float(value)


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
    """A registry on top of another one; of two tools of one name, its own wins."""

    def __init__(self, below: ToolRegistry, tools: Iterable[Tool]) -> None:
        self._below = below
        super().__init__(tools)

    def _all(self) -> dict[str, RegisteredTool]:
        return {**self._below._all(), **self._tools}


Call: TypeAlias = tuple[str, dict[str, object], AgentContext]
"""A tool's name, its input, and the context of this one call."""


async def run_each(runs: Sequence[Callable[[], Awaitable[_T]]], limit: int) -> list[_T]:
    """Run these side by side, at most `limit` at a time and begun in order; return their results in it.

    At least one runs at a time. An exception of one stops all.
    """
    results: dict[int, _T] = {}
    waiting = iter(enumerate(runs))

    async def work() -> None:
        for index, run in waiting:
            results[index] = await run()

    workers = min(limit, len(runs))
    if workers > 1:
        async with trio.open_nursery() as nursery:
            for _ in range(workers):
                nursery.start_soon(work)
    else:
        await work()
    return [results[index] for index in range(len(runs))]


async def run_batch(
    calls: Sequence[Call],
    tools: ToolRegistry,
    limit: int = 5,
    on_result: Callable[[int, ToolResult], None] | None = None,
) -> list[ToolResult]:
    """Run the calls of one reply; the results are in the calls' order.

    They run side by side, at most `limit` at a time and begun in order, when every one of their
    tools is marked concurrent; otherwise one after the other. A failed call stops no other.

    Args:
        calls: name, input and context of each call.
        tools: what each goes through.
        limit: how many run at a time; at least one does.
        on_result: called with the index and the result of each call as soon as it has ended; so on
            a cancel, the caller knows of every call that had ended.

    Example:
        >>> from greenroom.tools import ToolRegistry, tool
        >>> @tool(concurrent=True)
        ... async def double(number: int) -> int:
        ...     return 2 * number
        >>> context = AgentContext(session_id="s-1", agent_type="demo")
        >>> calls = [("double", {"number": n}, context) for n in (1, 2)]
        >>> [result.text for result in trio.run(run_batch, calls, ToolRegistry([double]))]
        ['2', '4']
    """

    async def run(index: int) -> ToolResult:
        result = await tools.execute(*calls[index])
        if on_result:
            on_result(index, result)
        return result

    found = [tools.get(name) for name, _, _ in calls]
    concurrent = all(tool is not None and tool.concurrent for tool in found)
    return await run_each(
        [partial(run, index) for index in range(len(calls))], limit if concurrent else 1
    )
