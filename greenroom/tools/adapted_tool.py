"""`as_tool`: plain functions, and tools of other shapes, as tools of ours."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol, cast

from greenroom.core import (
    AgentContext,
    TextBlock,
    ToolError,
    ToolInfo,
    ToolResult,
    ToolStatus,
    valid_unicode,
)
from greenroom.tools.blocking import run_blocking
from greenroom.tools.function_tool import to_result, tool
from greenroom.tools.protocol import OPTIONAL_MEMBERS, Tool, plain_info

_SCHEMAS = ("parameters", "parameters_schema", "schema")


class _Execute(Protocol):
    """A function whose way of being called is looked up at run time."""

    def __call__(self, *given: object, **arguments: object) -> object: ...


def as_tool(thing: object) -> Tool:
    """Make a tool of something that is nearly one; what is one already is returned as it is.

    A function becomes one as with `@tool`. Any other object needs a `name`, a JSON Schema of its
    input (`schema`, `parameters_schema` or `parameters`: a mapping, or an object that has one as
    `parameters`), and an `execute`, plain or async. This is called by its own signature: with
    keywords where its parameters are those of the schema, else with the input as one dict, and with
    the context of the call where it takes two. A plain one runs in a thread, as with `@tool`.

    `description`, `category` and the members that a `Tool` may have are taken over; without a
    category it is "other", and calls have to be allowed. What it returns becomes a result as with
    `@tool`; an object with a text `content` and a `status` or `is_error` is read as such.

    Raises:
        ToolError: something is missing or of no use; it says what.

    Example:
        >>> class Dice:
        ...     name = "roll"
        ...     description = "Roll a die."
        ...     schema = {"type": "object", "properties": {"sides": {"type": "integer"}}}
        ...
        ...     def execute(self, sides=6):
        ...         return f"1 of {sides}"
        >>> import trio
        >>> from greenroom.tools import ToolRegistry
        >>> context = AgentContext(session_id="s-1", agent_type="demo")
        >>> registry = ToolRegistry([as_tool(Dice())])
        >>> trio.run(registry.execute, "roll", {"sides": 20}, context).text
        '1 of 20'
    """
    if isinstance(thing, type):
        raise ToolError(f"{thing.__name__} is a class, not a tool", hint=f"pass {thing.__name__}()")
    if isinstance(thing, Tool):
        return thing
    if inspect.isroutine(thing):
        return tool(thing)
    return _AdaptedTool(thing)


class _AdaptedTool:
    """A tool that hands each call on to an object of another shape."""

    def __init__(self, thing: object) -> None:
        """Read what the object says of itself."""
        self.name = _text(thing, "name")
        self._execute = _function(thing, self.name)
        schema, self.parameters = _schema(thing, self.name)
        self.description = (
            _text(thing, "description")
            or _text(schema, "description")
            or self.name.replace("_", " ")
        )
        self.category = _text(thing, "category") or "other"
        for member in OPTIONAL_MEMBERS:
            if hasattr(thing, member):
                setattr(self, member, getattr(thing, member))
        self._bind = _convention(self._execute, self.name, self.parameters)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Describe the call by the tool's name and its input."""
        return plain_info(self.name, input)

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Call the object in its own way, and wrap what it returns."""
        call = partial(self._bind, input)
        if inspect.iscoroutinefunction(self._execute):
            outcome = call(context)
        else:
            outcome = await run_blocking(call, self.name, context)
        if inspect.isawaitable(outcome):
            outcome = await outcome
        return _translated(outcome) or to_result(self.name, outcome)


def _text(thing: object, member: str) -> str:
    found: object = getattr(thing, member, "")
    return found if isinstance(found, str) else ""


def _function(thing: object, name: str) -> _Execute:
    found: object = getattr(thing, "execute", None)
    if not name or not callable(found):
        what = "execute that can be called" if name else "name"
        hint = "pass a function, or an object with a name, a schema and an execute"
        if callable(getattr(thing, "as_tool", None)):
            hint = "pass what its as_tool() returns"
        raise ToolError(
            f"{name or type(thing).__name__} is no tool: it has no {what}",
            hint=hint,
        )
    return cast("_Execute", found)


def _schema(thing: object, name: str) -> tuple[object, Mapping[str, object]]:
    """Return the schema as the object has it, and as a mapping."""
    for member in _SCHEMAS:
        found: object = getattr(thing, member, None)
        inner: object = getattr(found, "parameters", found)
        if isinstance(inner, Mapping):
            return found, inner
    raise ToolError(
        f"{name} is no tool: it has no JSON Schema", hint=f"give it one as {', '.join(_SCHEMAS)}"
    )


def _convention(
    execute: _Execute, name: str, schema: Mapping[str, object]
) -> Callable[[dict[str, object], AgentContext], object]:
    """Find out from its signature how a function wants to be given its input."""
    try:
        signature = inspect.signature(execute)
    except (TypeError, ValueError) as error:
        raise ToolError(f"tool {name}: the signature of execute can't be read: {error}") from None

    def fits(*given: object, **arguments: object) -> bool:
        try:
            signature.bind(*given, **arguments)
        except TypeError:
            return False
        return True

    properties = schema.get("properties")
    known = dict.fromkeys(properties if isinstance(properties, Mapping) else ())
    has_names = not known.keys().isdisjoint(signature.parameters)
    if fits(**known) and (has_names or not fits(None)):
        return lambda given, _: execute(**given)
    if fits(None) and not has_names:
        return lambda given, _: execute(given)
    if fits(None, None) and not has_names:
        return execute
    raise ToolError(
        f"tool {name}: its schema does not fit execute{signature}",
        hint="name the parameters of execute as the properties of the schema, or take one dict",
    )


def _translated(value: object) -> ToolResult | None:
    """Read a result of another type, so that a failure stays one; None where it is no such thing."""
    content: object = getattr(value, "content", None)
    is_result = hasattr(value, "status") or hasattr(value, "is_error")
    if isinstance(value, ToolResult) or not isinstance(content, str) or not is_result:
        return None
    metadata: object = getattr(value, "metadata", None)
    return ToolResult(
        (TextBlock(valid_unicode(content)),),
        _status(value),
        dict(metadata) if isinstance(metadata, Mapping) else {},
        _text(value, "error_message"),
    )


def _status(value: object) -> ToolStatus:
    word: object = getattr(value, "status", ToolStatus.SUCCESS)
    try:
        status = ToolStatus(str(getattr(word, "value", word)).lower())
    except ValueError:
        return ToolStatus.ERROR  # in doubt, it has not worked
    failed = status is ToolStatus.SUCCESS and getattr(value, "is_error", False)
    return ToolStatus.ERROR if failed else status
