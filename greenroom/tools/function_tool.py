"""`@tool` makes a tool of a typed function, `as_tool` of an object that is almost a tool."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import (
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from greenroom.core import AgentContext, Credential, ToolError, ToolInfo, ToolResult
from greenroom.core._internal import strip_partials
from greenroom.sandbox._internal import ProcessLimits, Sandbox
from greenroom.threads._internal import run_heavy
from greenroom.tools.blocking import run_blocking
from greenroom.tools.interface import (
    DEFAULT_TIMEOUT,
    OPTIONAL_MEMBERS,
    EffectsFunction,
    Tool,
    ToolFlags,
    check_timeout,
    plain_info,
)
from greenroom.tools.isolation.frame import FunctionReference
from greenroom.tools.isolation.worker_pool import list_files, run_isolated
from greenroom.tools.returned_values import read_result, to_result
from greenroom.tools.schema import (
    Arguments,
    find_function,
    parse_docstring,
    read_output_schema,
)

P = ParamSpec("P")
R = TypeVar("R")

Isolation: TypeAlias = Literal["thread", "process"]
"""Where a plain function runs: in a thread of this process, or in a process that can be killed."""

RunsOn: TypeAlias = Literal["runtime", "client"]
"""Who runs the calls: the function here, or the client, which sends the results."""


class _Function(Protocol):
    """A function whose arguments are checked at run time."""

    def __call__(self, **arguments: object) -> object: ...


class FunctionTool(Generic[P, R]):
    """A tool made of a function; calling it calls the function.

    Attributes:
        name, description, category, parameters, requires_permission, timeout, concurrent: see
            `greenroom.tools.Tool`.
        asks_despite_consent: whether an `Agent` asks about calls although the program has passed it
            the function.
        effects: states what a call would do, for permission rules, or None.
        isolation: where a plain function runs.
        sandbox: the sandbox of its process, or None.
        runs_on: who runs the calls.
        credentials: what the person has to give before a call runs.
        read_only, idempotent, destructive: flags; see `greenroom.tools.Tool`.
        output_schema: the JSON Schema of its results, or None.
    """

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        category: str = "other",
        timeout: float = DEFAULT_TIMEOUT,
        requires_permission: bool | None = None,
        concurrent: bool = True,
        effects: EffectsFunction | None = None,
        isolation: Isolation = "thread",
        limits: ProcessLimits | None = None,
        sandbox: Sandbox | None = None,
        runs_on: RunsOn = "runtime",
        credentials: Sequence[Credential] = (),
        read_only: bool | None = None,
        idempotent: bool | None = None,
        destructive: bool | None = None,
        output_schema: Mapping[str, object] | None = None,
        version: str = "",
    ) -> None:
        """Make a tool of a function; `tool` says how.

        Raises:
            ToolError: the function can't be a tool.
        """
        functools.update_wrapper(self, function)
        self.name, self.description, self._arguments = _read_function(function, name)
        self._function = function
        self.effects = effects
        self._is_async = inspect.iscoroutinefunction(inspect.unwrap(find_function(function)))
        self.category = category
        self.parameters: dict[str, object] = self._arguments.schema
        self.timeout = timeout
        if not isinstance(requires_permission, bool | None):
            raise ToolError(
                f"tool {self.name}: requires_permission is {requires_permission!r}",
                hint="give True or False; a function decides in PermissionRule.ask_if(function)",
            )
        self.requires_permission = requires_permission is not False
        self.asks_despite_consent = bool(requires_permission)
        self.concurrent = concurrent
        self.isolation = isolation
        self._limits, self.sandbox = limits, sandbox
        self.runs_on = runs_on
        self.credentials = tuple(credentials)
        self.read_only, self.idempotent, self.destructive = read_only, idempotent, destructive
        self.output_schema, self.version = output_schema or read_output_schema(function), version
        self._check_options()
        self._reference = (
            FunctionReference.of(function, self.name) if isolation == "process" else None
        )

    def _check_options(self) -> None:
        """Refuse options that are unknown or contradict each other."""
        ToolFlags.of(self)
        place = f"tool {self.name}:"
        check_timeout(self.name, self.timeout)
        if self.isolation not in ("thread", "process"):
            raise ToolError(
                f"{place} isolation is {self.isolation!r}", hint="give 'thread' or 'process'"
            )
        if self.runs_on not in ("runtime", "client"):
            raise ToolError(
                f"{place} runs_on is {self.runs_on!r}", hint="give 'runtime' or 'client'"
            )
        if self.isolation == "process":
            self._check_process(place)
            if self._limits and (self._limits.file_megabytes or self._limits.processes):
                raise ToolError(
                    f"{place} only a sandbox can limit files and processes",
                    hint="write sandbox=Sandbox(limits=…)",
                )
        elif self._limits or self.sandbox:
            raise ToolError(
                f"{place} limits and a sandbox need a process of its own",
                hint="add isolation='process'",
            )

    def _check_process(self, place: str) -> None:
        """Refuse a function that can't run in a process of its own."""
        hint = "leave isolation='process' out"
        if not inspect.isroutine(self._function):
            raise ToolError(
                f"{place} another process can't find {self._function!r}",
                hint=f"define a function at the top of a module, or {hint}",
            )
        if self._is_async:
            raise ToolError(
                f"{place} an async function runs in this process, where a cancel stops it",
                hint=f"{hint}, or make it a plain function",
            )
        if self.runs_on == "client":
            raise ToolError(f"{place} the client runs it, so it has no process here", hint=hint)
        if self.credentials:
            raise ToolError(
                f"{place} a credential does not reach a process of its own",
                hint=f"make it an async function, or {hint}",
            )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Describe the call by the tool's name and its input."""
        return plain_info(self.name, input)

    @property
    def sandbox_files(self) -> Sequence[str]:
        """Files that a call must be able to read in its sandbox."""
        return list_files(self._reference) if self._reference else ()

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Turn the input into typed arguments, call the function, and wrap what it returns.

        Raises:
            ToolError: the input does not fit the function, or its result can't be written as JSON.
        """
        if self.runs_on == "client":
            return await context.client_result()
        if self._reference:
            self._reference.check(self._function, self)
            return await run_isolated(
                self._reference,
                self.name,
                input,
                context,
                self._limits or ProcessLimits(),
                self.sandbox,
            )
        call = partial(self._call, input)
        outcome = await _await_outcome(call, self.name, context, is_async=self._is_async)
        return await run_heavy(partial(self._to_result, outcome), outcome)

    def _to_result(self, outcome: object) -> ToolResult:
        if outcome is None and self.output_schema:
            return ToolResult.ok("null")  # which fits the schema or not; "done" is not JSON
        return to_result(self.name, outcome)

    def run_here(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Run a call in this thread, as a worker process does.

        Raises:
            ToolError: as `execute`; or the function returned an awaitable.
        """
        outcome = self._call(input, context)
        if inspect.isawaitable(outcome):
            if inspect.iscoroutine(outcome):
                outcome.close()
            raise ToolError(
                f"{self.name} returned an awaitable, and nothing awaits it in its own process",
                hint="leave isolation='process' out",
            )
        return self._to_result(outcome)

    def _call(self, input: dict[str, object], context: AgentContext) -> object:  # noqa: A002
        return cast("_Function", self._function)(**self._arguments.bind(input, context))


class ToolOptions(TypedDict, total=False):
    """The options of `@tool`, which `tool` documents."""

    name: str | None
    category: str
    timeout: float
    requires_permission: bool | None
    concurrent: bool
    effects: EffectsFunction | None
    isolation: Isolation
    limits: ProcessLimits | None
    sandbox: Sandbox | None
    runs_on: RunsOn
    credentials: Sequence[Credential]
    read_only: bool | None
    idempotent: bool | None
    destructive: bool | None
    output_schema: Mapping[str, object] | None
    version: str


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(
    function: Callable[P, R] | None = None, /, **options: Unpack[ToolOptions]
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a tool of a typed function; write `@tool` or `@tool(category="read")`.

    Types and defaults of the parameters become the JSON Schema, the docstring the description, its
    `Args:` section those of the parameters (or `Annotated[int, "how many"]`). A parameter
    of type `AgentContext` gets the context of the call; one whose class has a class method
    `from_context` gets what that returns for the context. The model sees neither.

    The model's input is converted to the declared types before the call. A returned text is the
    result's text, None is "done", a `ToolResult` stays as it is, an `ImageBlock` or another block,
    alone or in a list with texts, is the result's content, and anything else becomes JSON.

    An async function runs as it is. A plain one runs in a thread, which can't be stopped: after a
    time-out or an interrupt it is left behind and passed to `context.report_abandoned`. It may call
    `context.progress`, which drops text once the thread is left behind, but not `context.cleanup`;
    to end early it can call `trio.from_thread.check_cancelled`.

    With `isolation="process"` a plain function runs in a process of its own. After a time-out, an
    interrupt or a breach of its `limits`, the process is killed with all that it has started. The
    function must be at the top of a module, where the process can import it. Its arguments are made
    there, by the same rules, and its result, prints and reports come back; `resources` and
    `cleanup` of the context are not available. See `greenroom.tools.WorkerPool`.

    Args:
        function: the function, if the decorator is written without parentheses.
        name: the name for the model; by default the function's.
        category: the kind, for permission rules, such as `read` or `network`.
        timeout: seconds that one call may take, waits for a person included: 30 by default.
        requires_permission: whether each call has to be allowed, by a rule or by a person. By
            default it does, but an `Agent` allows the functions that are passed to it; with True it
            asks about this one too.
        concurrent: whether a call may run beside others. With False, it waits for the calls of its
            reply before it, and those after it wait for it, unless they only read files.
        effects: states what a call would do, for permission rules.
        isolation: where a plain function runs; an async one has no process of its own.
        limits: what one call may use, with `isolation="process"`.
        sandbox: the sandbox of that process; see `greenroom.tools.Sandbox`.
        runs_on: "client" for a function that is only described here: it is never called, and its
            body may be `...`. The holder of the handle sees the `ToolStart`, and sends the result
            with `handle.send_tool_result` before the timeout.
        credentials: what the person has to give before a call runs; see
            `greenroom.core.Credential`.
        read_only: a call changes nothing; the default for the category "read".
        idempotent: a repeated call with the same input changes nothing more.
        destructive: a call may delete or overwrite something for good; the person who is asked sees
            that. None of the three changes the decision of rules.
        output_schema: a JSON Schema of the results; by default that of the return type, if it is a
            pydantic model, a dataclass, a TypedDict or a msgspec struct. A result that does not fit
            is an error; one that fits is a value in the metadata, `structured`.
        version: the tool's own version, which the metadata of its results repeat.

    Raises:
        ToolError: a parameter has no type, or one that no schema can express; the function can't
            run in a process of its own; or the flags contradict each other.

    Example:
        >>> @tool(category="read")
        ... async def greet(name: str, times: int = 1) -> str:
        ...     \"\"\"Greet a person.
        ...
        ...     Args:
        ...         name: who is greeted.
        ...     \"\"\"
        ...     return ", ".join(["Hello " + name] * times)
        >>> greet.parameters["properties"]["name"]
        {'description': 'who is greeted.', 'type': 'string'}
    """
    if unknown := options.keys() - ToolOptions.__optional_keys__:
        raise TypeError(_unknown_option(min(unknown)))

    def decorate(decorated: Callable[P, R]) -> FunctionTool[P, R]:
        return FunctionTool(decorated, **options)

    return decorate if function is None else decorate(function)


def _unknown_option(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, ToolOptions.__optional_keys__, 1)
    return f"tool() has no option {name!r}" + (f": did you mean {near[0]!r}?" if near else "")


def _read_function(function: Callable[P, R], name: str | None) -> tuple[str, str, Arguments]:
    """Return the name, description and arguments of the tool of a function."""
    inner = find_function(function)
    _check_function(function, inner)
    target = strip_partials(function)
    if isinstance(function, functools.partial) and isinstance(target, FunctionTool):
        raise ToolError(  # its options would be lost, such as that it requires permission
            f"a partial of the tool {target.name} is not a tool",
            hint="make the partial of the function, and the tool of that: tool(partial(…), …)",
        )
    is_object = not inspect.isroutine(target)
    called = type(target).__name__ if is_object else inner.__name__
    name = name or called
    docstring = parse_docstring(inner.__doc__ or (is_object and target.__doc__) or "")
    arguments = Arguments(function, name, docstring.parameters)
    return name, docstring.description or name.replace("_", " "), arguments


def _check_function(function: object, inner: Callable[P, object]) -> None:
    if callable(getattr(function, "as_tool", None)):
        raise ToolError(f"{function!r} is not a function", hint="pass what its as_tool() returns")
    if isinstance(function, str):
        raise ToolError(f"{function!r} is not a function", hint=f"write @tool(name={function!r})")
    if isinstance(function, type) or not inspect.isroutine(inner):
        raise ToolError(f"{function!r} is not a function", hint="@tool decorates functions")
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise ToolError(
            f"{inner.__name__} yields, so it has no single result",
            hint="return the result; report progress with context.progress(text)",
        )


async def _await_outcome(
    call: Callable[[AgentContext], object], name: str, context: AgentContext, *, is_async: bool
) -> object:
    """Make a call, in a thread unless it is async, and await what it returns if need be."""
    outcome = call(context) if is_async else await run_blocking(call, name, context)
    return await outcome if inspect.isawaitable(outcome) else outcome


_OTHER_WAYS = ("execute", "as_tool")
"""What an object that can be called as well has if it is not meant as a function."""

_SCHEMAS = ("parameters", "parameters_schema", "schema")


class _Execute(Protocol):
    """A method whose signature is looked up at run time."""

    def __call__(self, *args: object, **arguments: object) -> object: ...


def as_tool(thing: object) -> Tool:
    """Make a tool of an object that is almost one; a tool is returned as it is.

    A function becomes one as with `@tool`, and so does a `functools.partial` of one, a bound method
    or an object with a `__call__`; the model does not see arguments that are bound. Any other
    object needs a `name`, a JSON Schema of its input (`schema`, `parameters_schema` or
    `parameters`: a mapping, or an object that has one as `parameters`), and an `execute`, plain or
    async. Its signature decides how it is called: with keywords if its parameters are those of the
    schema, else with the input as one dict, and with the context of the call if it takes two. A
    plain one runs in a thread, as with `@tool`.

    `description`, `category` and the optional members of a `Tool` are taken over; without a
    category it is "other", and calls have to be allowed. A returned object with a text `content`
    and a `status` or `is_error` becomes a result; other values do as with `@tool`.

    Raises:
        ToolError: something is missing or unusable; the message says what.

    Example:
        >>> class Dice:
        ...     name = "roll"
        ...     description = "Roll a die."
        ...     schema = {"type": "object", "properties": {"sides": {"type": "integer"}}}
        ...
        ...     def execute(self, sides=6):
        ...         return f"1 of {sides}"
        >>> import trio
        >>> from greenroom.tools.registry import ToolRegistry
        >>> context = AgentContext(session_id="s-1", agent_type="demo")
        >>> registry = ToolRegistry([as_tool(Dice())])
        >>> trio.run(registry.execute, "roll", {"sides": 20}, context).text
        '1 of 20'
    """
    if isinstance(thing, type):
        raise ToolError(f"{thing.__name__} is a class, not a tool", hint=f"pass {thing.__name__}()")
    if isinstance(thing, Tool):
        return thing
    is_called = callable(thing) and not any(hasattr(thing, each) for each in _OTHER_WAYS)
    if inspect.isroutine(thing) or is_called:
        return tool(cast("_Function", thing))
    return _AdaptedTool(thing)


class _AdaptedTool:
    """A tool that passes each call on to an object of another shape."""

    def __init__(self, thing: object) -> None:
        self.name = _text(thing, "name")
        self._execute = _find_execute(thing, self.name)
        schema, self.parameters = _find_schema(thing, self.name)
        self.description = (
            _text(thing, "description")
            or _text(schema, "description")
            or self.name.replace("_", " ")
        )
        self.category = _text(thing, "category") or "other"
        for member in OPTIONAL_MEMBERS:
            if hasattr(thing, member):
                setattr(self, member, getattr(thing, member))
        self._bind = _find_convention(self._execute, self.name, self.parameters)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Describe the call by the tool's name and its input."""
        return plain_info(self.name, input)

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Call the object by its convention, and wrap what it returns."""
        call, is_async = partial(self._bind, input), inspect.iscoroutinefunction(self._execute)
        outcome = await _await_outcome(call, self.name, context, is_async=is_async)
        return await run_heavy(partial(read_result, self.name, outcome), outcome)


def _text(thing: object, member: str) -> str:
    found: object = getattr(thing, member, "")
    return found if isinstance(found, str) else ""


def _find_execute(thing: object, name: str) -> _Execute:
    found: object = getattr(thing, "execute", None)
    if not name or not callable(found):
        what = "execute that can be called" if name else "name"
        hint = "pass a function, or an object with a name, a schema and an execute"
        if callable(getattr(thing, "as_tool", None)):
            hint = "pass what its as_tool() returns"
        raise ToolError(
            f"{name or type(thing).__name__} is not a tool: it has no {what}",
            hint=hint,
        )
    return cast("_Execute", found)


def _find_schema(thing: object, name: str) -> tuple[object, Mapping[str, object]]:
    """Return the schema as the object has it, and as a mapping."""
    for member in _SCHEMAS:
        found: object = getattr(thing, member, None)
        inner: object = getattr(found, "parameters", found)
        if isinstance(inner, Mapping):
            return found, inner
    raise ToolError(
        f"{name} is not a tool: it has no JSON Schema", hint=f"give it one as {', '.join(_SCHEMAS)}"
    )


def _find_convention(
    execute: _Execute, name: str, schema: Mapping[str, object]
) -> Callable[[dict[str, object], AgentContext], object]:
    """Tell from the signature of a function how to pass it an input."""
    try:
        signature = inspect.signature(execute)
    except (TypeError, ValueError) as error:
        raise ToolError(f"tool {name}: the signature of execute can't be read: {error}") from None

    def fits(*args: object, **arguments: object) -> bool:
        try:
            signature.bind(*args, **arguments)
        except TypeError:
            return False
        return True

    properties = schema.get("properties")
    known = dict.fromkeys(properties if isinstance(properties, Mapping) else ())
    has_names = not known.keys().isdisjoint(signature.parameters)
    if fits(**known) and (has_names or not fits(None)):
        return lambda data, _: execute(**data)
    if fits(None) and not has_names:
        return lambda data, _: execute(data)
    if fits(None, None) and not has_names:
        return execute
    raise ToolError(
        f"tool {name}: its schema does not fit execute{signature}",
        hint="name the parameters of execute as the properties of the schema, or take one dict",
    )
