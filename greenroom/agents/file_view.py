"""What may be looked at before a person is asked about a call: files that the agent may read.

So nobody is asked about a call that can't succeed, and a person sees what would change in a file.
But neither a screen nor a result for the model tells of a file that a rule keeps from `Read`.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import structs

from greenroom.agents.applied_rules import apply_rules
from greenroom.core import (
    AgentContext,
    ReadPath,
    RuleDecision,
    ToolInfo,
    ToolResult,
    ToolUseBlock,
    WritePath,
)
from greenroom.permissions import PermissionManager
from greenroom.tools._internal import RegisteredTool

_EARLIER = "a call before this one may change it first"
_KEPT = "a rule keeps it from being read"
_OUTSIDE = "it is outside the workspace, and no rule allows it to be read"


class FileView(msgspec.Struct, frozen=True):
    """How a call looks before it runs.

    Attributes:
        call: the call.
        tool: its tool.
        context: the context to look in; None if that would tell too much.
        obstacle: why not, in words.
    """

    call: ToolUseBlock
    tool: RegisteredTool
    context: AgentContext | None
    obstacle: str = ""

    async def find_failure(self) -> ToolResult | None:
        """Return the error of a call that can't succeed, as far as that may be told."""
        return await self.tool.precheck(self.call.input, self.context) if self.context else None

    async def describe(self) -> ToolInfo:
        """Describe the call for a person, with what it changes; or say why that is not shown."""
        if self.context is not None:
            return await self.tool.preview(self.call.input, self.context)
        info = self.tool.info(self.call.input)
        if not info.diff:
            return info
        note = f"\\ What the file holds now is not shown: {self.obstacle}"
        return structs.replace(info, diff=f"{info.diff}\n{note}")


async def find_view(
    permissions: PermissionManager,
    call: ToolUseBlock,
    tool: RegisteredTool,
    context: AgentContext,
    waiting: Iterable[tuple[RegisteredTool | None, dict[str, object]]],
) -> FileView:
    """Find out whether the files of a call may be looked at.

    That holds for files in the workspace that no rule keeps from `Read`, and for others that a rule
    allows to read. The calls that are still waiting to run may change what is there.
    """
    paths = find_paths(tool, call.input, context)
    if any(_may_change(*each, paths, context) for each in waiting):
        return FileView(call, tool, None, _EARLIER)
    is_allowed = bool(paths)
    for effect in tool.effects(call.input, context):
        if not isinstance(effect, (ReadPath, WritePath)):
            continue
        given: dict[str, object] = {"file_path": effect.path}
        reading = await apply_rules(permissions, "Read", given, context, None)
        is_allowed = is_allowed and reading.decision is RuleDecision.ALLOW
        if reading.decision is RuleDecision.DENY or (reading.rule and not is_allowed):
            return FileView(call, tool, None, _KEPT)
    if not is_allowed and not _are_inside(paths, context):
        return FileView(call, tool, None, _OUTSIDE)
    context = context.with_tool_use_id(call.id)  # its own, so that nothing else is allowed
    context.allowed_paths = (*context.allowed_paths, *(paths if is_allowed else ()))
    return FileView(call, tool, context)


def find_paths(
    tool: RegisteredTool,
    input: dict[str, object],  # noqa: A002
    context: AgentContext,
) -> tuple[str, ...]:
    """Return the real paths that a rule or a person allowed this call to touch."""
    found = []
    for effect in tool.effects(input, context):
        if isinstance(effect, (ReadPath, WritePath)):
            try:
                found.append(os.path.realpath(context.workspace.absolute(effect.path)))
            except (OSError, ValueError, RuntimeError):
                continue  # not a path, such as one with a NUL: the tool says so
    return tuple(found)


def _may_change(
    tool: RegisteredTool | None,
    input: dict[str, object],  # noqa: A002
    paths: tuple[str, ...],
    context: AgentContext,
) -> bool:
    """Whether a call that waits to run may change what another finds: it touches its files."""
    if tool is None:
        return True
    effects = tool.effects(input, context)
    states_files = effects and all(isinstance(each, (ReadPath, WritePath)) for each in effects)
    if not tool.read_only and not states_files:
        return True
    return not {*paths}.isdisjoint(find_paths(tool, input, context))


def _are_inside(paths: Iterable[str], context: AgentContext) -> bool:
    """Whether real paths are in the workspace, or in folders that the agent may use."""
    folders = (os.path.realpath(context.workspace.root), *context.allowed_paths)
    return all(any(Path(path).is_relative_to(each) for each in folders) for path in paths)
