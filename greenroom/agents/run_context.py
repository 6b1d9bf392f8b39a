"""`RunContext`: what tools, instructions and guards know about a run; the model never sees it."""

import inspect
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import (
    Annotated,
    Any,
    Generic,
    ParamSpec,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from typing_extensions import TypeVar, is_protocol

from greenroom.core import AgentContext, Message, ToolError, Usage
from greenroom.runtime import AgentInternals

P = ParamSpec("P")
DepsT_co = TypeVar("DepsT_co", covariant=True, default=None)

_UNIONS = (Union, types.UnionType)  # how `Optional[int]` and `int | None` are made


class RunState:
    """The state of a run of an `Agent`; one of its resources."""

    def __init__(self, internals: AgentInternals, deps: object) -> None:
        self._internals = internals
        self.deps = deps
        self.step = 0

    def context(self, context: AgentContext | None = None) -> "RunContext[object]":
        """Return what is known now, for a call or for the agent."""
        internals = self._internals
        history = internals.session.history
        return RunContext(
            self.deps, internals.usage, self.step, context or internals.context, history
        )


@dataclass(frozen=True)
class RunContext(Generic[DepsT_co]):
    """What a run knows, for the tools, guards and instructions of an `Agent`.

    A tool gets it through a parameter of this type, whatever its name; no schema shows the
    parameter. So tools and agents share what they work with, such as a database, without globals.

    Attributes:
        deps: the `deps` that `run` was given.
        usage: tokens of this agent's model calls so far.
        step: how many model calls the turn has begun.
        agent: identity, workspace and resources of the agent; in a tool, of this call.
        history: the conversation of the agent so far.

    Example:
        >>> from greenroom import Agent, RunContext
        >>> from greenroom.testing import ScriptedProvider, call
        >>> def whoami(context: RunContext[str]) -> str:
        ...     \"\"\"Say who is logged in.\"\"\"
        ...     return context.deps
        >>> def repeat(request):
        ...     return request.messages[-1].tool_results[0].text
        >>> llm = ScriptedProvider(call("whoami"), repeat)
        >>> Agent(llm, tools=[whoami], deps_type=str).run_sync("Who am I?", deps="ada").output
        'ada'
    """

    deps: DepsT_co
    usage: Usage
    step: int
    agent: AgentContext
    history: tuple[Message, ...] = field(default=(), repr=False)

    @classmethod
    def from_context(cls, context: AgentContext) -> "RunContext[DepsT_co]":
        """Make the one for a tool call.

        Raises:
            ToolError: no `Agent` makes the call, or it is made in another process.
        """
        state = context.resources.get(RunState)
        if state is None:
            raise ToolError(
                "there is no RunContext here: only an Agent passes one, and not to another process",
                hint="take an AgentContext instead, or leave isolation='process' out",
            )
        return cast("RunContext[DepsT_co]", state.context(context))


def takes_run_context(function: Callable[P, object]) -> bool:
    """Whether a function asks for a `RunContext`, or has a single parameter without a type."""
    hints = _hints(function)
    parameters = [*inspect.signature(function).parameters.values()]
    untyped = len(parameters) == 1 and parameters[0].name not in hints
    return untyped or any(True for hint in hints.values() for _ in _find_deps_types(hint))


def check_deps(what: str, function: Callable[P, object], deps_type: object) -> None:
    """Refuse a function that wants other `deps` than a run passes.

    Raises:
        TypeError: it does; the message says what it wants.
    """
    for name, hint in _hints(function).items():
        for wanted in _find_deps_types(hint):
            if name != "return" and not fits(deps_type, wanted):
                given = "has no deps_type" if deps_type is None else f"gives {type_name(deps_type)}"
                raise TypeError(
                    f"{what} wants RunContext[{type_name(wanted)}], and the agent {given}: "
                    f"write Agent(…, deps_type={type_name(wanted)})"
                )


def _hints(function: Callable[P, object]) -> dict[str, object]:
    """Return the type hints that are known at run time."""
    plain = inspect.unwrap(function)
    while isinstance(plain, partial):
        plain = inspect.unwrap(plain.func)
    if not inspect.isroutine(plain):
        plain = getattr(plain, "__call__", plain)  # noqa: B004 (an object that can be called)
    try:
        return get_type_hints(plain, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError):
        return {}


def _find_deps_types(hint: object) -> Iterator[object]:
    """Iterate over the types of deps that a hint asks for."""
    origin = get_origin(hint)
    if hint is RunContext:
        yield object
    elif origin is RunContext:
        yield get_args(hint)[0]
    elif origin is Annotated:
        yield from _find_deps_types(get_args(hint)[0])
    elif origin in (Union, types.UnionType):
        for each in get_args(hint):
            yield from _find_deps_types(each)


def fits(given: object, wanted: object) -> bool:
    """Whether a value of one type passes for the other; true if that can't be told."""
    if get_origin(wanted) in _UNIONS:
        return any(fits(given, each) for each in get_args(wanted))
    if get_origin(given) in _UNIONS:
        return any(fits(each, wanted) for each in get_args(given))  # which it is can't be told
    wanted = get_origin(wanted) or wanted
    if wanted in (None, types.NoneType):
        return given in (None, types.NoneType)
    if wanted is Any or not isinstance(wanted, type):
        return True  # as of a TypeVar
    if given is None:
        return wanted is object
    given = get_origin(given) or given
    if not isinstance(given, type) or is_typeddict(given) or is_typeddict(wanted):
        return given is wanted or not isinstance(given, type)
    return is_protocol(wanted) or issubclass(given, wanted)


def is_instance(value: object, kind: object) -> bool:
    """Whether a value is of this type; true if that can't be told, as for a protocol."""
    if get_origin(kind) in _UNIONS:
        return any(is_instance(value, each) for each in get_args(kind))
    kind = get_origin(kind) or kind
    if kind is Any or not isinstance(kind, type) or is_protocol(kind) or is_typeddict(kind):
        return True
    return isinstance(value, kind)


def type_name(kind: object) -> str:
    """Return the name of a type, for an error."""
    return kind.__name__ if isinstance(kind, type) else str(kind)
