"""The interface of a tool: its members, its flags, and the check that an object has them.

Any object with the right members is a tool; nothing has to be inherited.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Protocol, Self, TypeAlias, cast, runtime_checkable

import msgspec

from greenroom.core import AgentContext, Credential, ToolError, ToolInfo, ToolResult
from greenroom.core._internal import Effect, compile_later, portable_name, serde
from greenroom.sandbox._internal import Sandbox

DEFAULT_TIMEOUT = 30.0
"""Seconds that a call may take, unless its tool says otherwise."""

PrecheckFunction: TypeAlias = Callable[[dict[str, object], AgentContext], Awaitable[None]]
"""Raises `ToolError` if a call can't succeed, before it runs."""

PreviewFunction: TypeAlias = Callable[[dict[str, object], AgentContext], Awaitable[ToolInfo]]
"""Describes a call for a person with what it would change, before it runs."""

EffectsFunction: TypeAlias = Callable[[dict[str, object], AgentContext], Sequence[Effect]]
"""States what a call would do, before it runs."""

OPTIONAL_MEMBERS = (
    "requires_permission",
    "timeout",
    "concurrent",
    "effects",
    "precheck",
    "preview",
    "sandbox",
    "sandbox_files",
    "runs_context_command",
    "credentials",
    "read_only",
    "idempotent",
    "destructive",
    "output_schema",
    "runs_on",
    "version",
    "definition_hash",
    "is_offered",
    "redirect",
)
"""The members that a tool may have besides its six required ones."""


@runtime_checkable
class Tool(Protocol):
    """Something that an agent can use: six members, no base class.

    `isinstance` checks that the members exist; a registry checks their values. `as_tool` adapts
    objects with other members for the same things. A tool may also have these members, whose
    defaults registration fills in:

    - `requires_permission: bool = True`: whether a person or a rule has to allow each call.
    - `timeout: float = 30.0`: seconds that one call may take.
    - `concurrent: bool`: whether a call may run beside others, but for calls that write the files
      that it states; by default if it is read-only. See `Reach` in `call_order`.
    - `effects(input, context) -> Sequence[Effect]`: what the call would do, as facts that
      permission rules judge. A tool without it is judged by its name and category.
    - `async precheck(input, context)`: raises `ToolError` if the call can't succeed, as far as that
      is known before it runs. Then no person is asked about it. It changes nothing.
    - `async preview(input, context) -> ToolInfo`: describes the call as `info` does, with what it
      would change, such as the diff of a file as it is now. It is called where the agent may read
      the files that the tool states, and changes nothing.
    - `sandbox: Sandbox | None = None`: the sandbox of each call, for the person who is asked.
    - `credentials: Sequence[Credential] = ()`: what the person has to give before a call runs.
    - `sandbox_files: Sequence[str] = ()`: files that a call must be able to read in its sandbox.
    - `runs_context_command: bool = False`: for a tool whose `effects` hold one `ShellCommand`:
      whether it runs the command of `context.command` in its place, if there is one. Only then do
      rules about commands allow its calls.
    - `read_only`, `idempotent`, `destructive: bool | None = None`: whether a call changes nothing,
      changes nothing more if repeated, or may delete something for good. Retries, resumed plans and
      the order of calls use them, permission rules do not. A tool of the category "read" is
      read-only.
    - `output_schema: Mapping[str, object] | None = None`: a JSON Schema of type `object` that each
      successful result must satisfy: its text as JSON, or the `structured` of its metadata.
    - `version: str = ""`: its own version, which the metadata of its results repeat.
    - `definition_hash: str = ""`: a digest of what it says of itself, for a tool from elsewhere: a
      remembered answer then holds only as long as the digest stays the same.
    - `is_offered: bool = True`: whether models are told of it with each request. One of thousands
      is not: another tool finds it.
    - `redirect(input) -> tuple[str, dict[str, object]] | None`: for a tool that stands for others:
      the name and the input of the call that is meant. If there is a tool of that name that is not
      offered, the call is judged, shown and run as a call of that.

    Example:
        >>> class Shout:
        ...     name = "Shout"
        ...     description = "Return the text in capitals."
        ...     category = "read"
        ...     parameters = {
        ...         "type": "object",
        ...         "properties": {"text": {"type": "string"}},
        ...         "required": ["text"],
        ...     }
        ...
        ...     def info(self, input):
        ...         return ToolInfo("Shout", input["text"])
        ...
        ...     async def execute(self, input, context):
        ...         return ToolResult.ok(input["text"].upper())
        >>> from greenroom.tools.registry import ToolRegistry
        >>> ToolRegistry([Shout()]).list_tools()
        ('Shout',)
    """

    @property
    def name(self) -> str:
        """The name for the model: 1 to 64 letters, digits, `_` and `-`; dots as in `fs.read`."""

    @property
    def description(self) -> str:
        """What it does and when to use it, for the model."""

    @property
    def category(self) -> str:
        """The kind, for rules: `read`, `write`, `execute`, `network`, `plan` or another."""

    @property
    def parameters(self) -> Mapping[str, object]:
        """A JSON Schema (2020-12) of type `object` that each input must satisfy."""

    def info(self, input: dict[str, object], /) -> ToolInfo:  # noqa: A002
        """Describe this call for the person who is asked to allow it."""

    async def execute(self, input: dict[str, object], context: AgentContext, /) -> ToolResult:  # noqa: A002
        """Run the call. The input satisfies `parameters`.

        Raise `ToolError` to tell the model what went wrong. Of any other exception the model gets
        the type and message, and the log the traceback. Only `AgentCrashError` ends the agent.
        """


@runtime_checkable
class ToolProvider(Protocol):
    """Something that has tools which may change while agents run, such as servers elsewhere.

    Wherever a program passes tools it may pass a provider, too: `ToolRegistry.add` adds one. It is
    asked before each model call and for each call of a tool, so it returns what it has and waits
    for nothing. An unchanged tool is the same object each time: another object under its name is
    another tool, and a call that was approved for the first one does not run.

    Example:
        >>> class Clock:
        ...     def __init__(self, *tools):
        ...         self._tools = tools
        ...
        ...     def tools(self):
        ...         return self._tools
        >>> isinstance(Clock(), ToolProvider)
        True
    """

    def tools(self) -> Iterable[Tool]:
        """Return the tools that there are now."""


def plain_info(name: str, input: Mapping[str, object]) -> ToolInfo:  # noqa: A002
    """Describe a call by the tool's name and its input as JSON.

    Example:
        >>> plain_info("Add", {"a": 1}).action
        'Use Add'
    """
    try:
        details = serde.dumps(dict(input), pretty=True).decode()
    except serde.InvalidJSONError:
        details = repr(input)
    return ToolInfo(f"Use {name}", details)


# Retries and runs that go on after a kill use a tool's flags. Permission rules do not: a tool's own
# word is no reason to let it run.


class ToolFlags(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool says about its calls; None for no statement.

    Attributes:
        read_only: a call changes nothing.
        idempotent: a repeated call with the same input changes nothing more.
        destructive: a call may delete or overwrite something for good.
    """

    read_only: bool | None = None
    idempotent: bool | None = None
    destructive: bool | None = None

    @classmethod
    def of(cls, tool: Tool) -> Self:
        """Read the flags of a tool; the category "read" makes it read-only by default.

        Raises:
            ToolError: a flag is not True, False or None, or the flags contradict each other.
        """
        read_only = _flag(tool, "read_only")
        idempotent, destructive = _flag(tool, "idempotent"), _flag(tool, "destructive")
        is_reader = tool.category == "read"
        for is_wrong, said, hint in (
            (destructive and read_only, "read_only and destructive", "leave one of them out"),
            (destructive and is_reader, "destructive, and of the category read", _CATEGORY),
            (read_only and tool.category == "write", "read_only, and writes", _CATEGORY),
            (read_only and idempotent is False, "read_only and not idempotent", _READ_ONLY),
        ):
            if is_wrong:
                raise ToolError(f"tool {tool.name} says that it is {said}", hint=hint)
        if read_only is None and is_reader and idempotent is not False:
            read_only = True
        return cls(read_only=read_only, idempotent=idempotent, destructive=destructive)


_CATEGORY = 'give it a category that fits, such as "network" or "execute"'
_READ_ONLY = "a call that changes nothing can be repeated: leave idempotent out"


def may_repeat(tool: Tool, *, unknown: bool = False) -> bool:
    """Whether a call that may have had its effect can simply be repeated.

    Args:
        tool: the tool.
        unknown: the answer if neither its flags nor its category tell.

    Raises:
        ToolError: its flags contradict each other.

    Example:
        >>> from greenroom.tools.function_tool import tool
        >>> @tool(category="network", idempotent=True)
        ... async def set_alarm(hour: int) -> None: ...
        >>> @tool
        ... async def book_flight(to: str) -> None: ...
        >>> may_repeat(set_alarm), may_repeat(book_flight)
        (True, False)
    """
    flags = ToolFlags.of(tool)
    if flags.read_only or flags.idempotent:
        return True
    return unknown and flags.idempotent is None and not flags.destructive


def _flag(tool: Tool, member: str) -> bool | None:
    value: object = getattr(tool, member, None)
    if value is None or isinstance(value, bool):
        return value
    raise ToolError(
        f"tool {tool.name}: its {member} is {value!r}", hint="give True or False, or leave it out"
    )


_REQUIRED = ("name", "description", "category", "parameters", "info", "execute")
_NAME = compile_later(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_LONGEST = 64  # what the strictest API takes


def check_tool(tool: object) -> None:
    """Check the members of a tool but for flags and credentials, whose readers check them.

    Raises:
        ToolError: a member is missing or unusable; the message says which, and why.
    """
    _check_shape(tool)
    name: object = getattr(tool, "name", None)
    if not isinstance(name, str) or not _is_name(name):
        raise ToolError(
            f"{str(name)[:80]!r} is not a name for a tool",
            hint="use 1 to 64 letters, digits, '_' and '-'; dots between them count as two",
        )
    for member in ("description", "category"):
        if not isinstance(getattr(tool, member), str):
            raise ToolError(f"tool {name}: its {member} is not text")
    check_timeout(name, getattr(tool, "timeout", DEFAULT_TIMEOUT))
    sandbox: object = getattr(tool, "sandbox", None)
    if sandbox is not None and not isinstance(sandbox, Sandbox):
        raise ToolError(f"tool {name}: its sandbox is {sandbox!r}", hint="give a Sandbox, or None")


def read_credentials(tool: Tool) -> tuple[Credential, ...]:
    """Return the credentials of a tool.

    Raises:
        ToolError: one of them is not a `Credential`.
    """
    values: tuple[object, ...] = tuple(getattr(tool, "credentials", ()))
    for value in values:
        if not isinstance(value, Credential):
            raise ToolError(
                f"tool {tool.name}: {value!r} is not a Credential", hint="write Credential(name)"
            )
    return cast("tuple[Credential, ...]", values)


def check_timeout(name: str, seconds: object) -> None:
    """Check the time-out of the tool of this name.

    Raises:
        ToolError: it is not a positive number.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise ToolError(
            f"tool {name}: its timeout is {seconds!r}", hint="give seconds, more than 0"
        )


def _is_name(name: str) -> bool:
    return len(portable_name(name)) <= _LONGEST and _NAME.fullmatch(name) is not None


def _check_shape(tool: object) -> None:
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
