"""A tool as the registry holds it: checked, complete and frozen."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from greenroom.core import (
    AgentContext,
    Credential,
    Effect,
    Opaque,
    SandboxReport,
    ToolError,
    ToolInfo,
    ToolResult,
    Workspace,
    portable_name,
    serde,
    visible,
)
from greenroom.tools.execution import execute_tool
from greenroom.tools.flags import ToolFlags
from greenroom.tools.protocol import DEFAULT_TIMEOUT, EffectsFunction, Tool, plain_info
from greenroom.tools.sandbox.examination import examine_sandbox
from greenroom.tools.sandbox.policy import Sandbox
from greenroom.tools.sandbox.reporting import check_required
from greenroom.tools.validation import InputValidator

_REQUIRED = ("name", "description", "category", "parameters", "info", "execute")
_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_LONGEST = 64  # what the strictest API takes
_log = logging.getLogger("greenroom.tools")


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
                f"{str(name)[:80]!r} is no name for a tool",
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
        return await execute_tool(self, input, context)


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
        raise ToolError(f"{label} is no tool: it has no {', no '.join(missing)}", hint=hint)
    for member in ("info", "execute"):
        if not callable(getattr(tool, member)):
            raise ToolError(f"{tool!r} is no tool: its {member} can't be called")
    if not isinstance(getattr(tool, "parameters", None), Mapping):
        raise ToolError(f"{tool!r} is no tool: its parameters are no JSON Schema object")


def _parameters(tool: Tool) -> dict[str, object]:
    """Copy the schema as JSON: it goes to models as such, and must not change under them."""
    try:
        copy = serde.loads(serde.dumps(dict(tool.parameters)))
    except serde.InvalidJSONError as error:
        raise ToolError(f"tool {tool.name}: its schema is no JSON: {error}") from error
    return cast("dict[str, object]", copy)


def _text(tool: Tool, member: str) -> str:
    value: object = getattr(tool, member)
    if not isinstance(value, str):
        raise ToolError(f"tool {tool.name}: its {member} is no text")
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
