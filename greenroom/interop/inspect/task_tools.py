"""Tools of a task of Inspect as tools of ours."""

from math import inf
from typing import TYPE_CHECKING

from greenroom.core import AgentContext, ToolInfo, ToolResult, ToolResultBlock
from greenroom.interop.inspect.escape import Escape
from greenroom.interop.inspect.messages import read_chat
from greenroom.tools._internal import plain_info

if TYPE_CHECKING:
    from collections.abc import Iterable

    from inspect_ai.tool import Tool, ToolDef


class TaskTool:
    """A tool of a task. Inspect runs it: with its approval, its sandbox, its log and its limits."""

    category = "network"
    requires_permission = False  # the task has given it, and its approval policies judge each call
    timeout = inf  # Inspect's tools have their own

    def __init__(self, tool: "Tool", definition: "ToolDef", escape: Escape) -> None:
        self._tool = tool
        self._escape = escape
        self.name: str = definition.name
        self.description: str = definition.description
        self.concurrent: bool = definition.parallel
        self.parameters: dict[str, object] = definition.parameters.model_dump(exclude_none=True)

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Say what is called."""
        return plain_info(self.name, input)

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Let Inspect make the call."""
        from inspect_ai.model import ChatMessageAssistant, execute_tools
        from inspect_ai.tool import ToolCall

        call = ToolCall(id=context.current_tool_use_id or "", function=self.name, arguments=input)
        message = ChatMessageAssistant(content="", tool_calls=[call])
        with self._escape.carry():
            added, _ = await execute_tools([message], [self._tool])
        _, messages = read_chat(added)
        [*_, result] = [block for each in messages for block in each.tool_results]
        return _read_result(result, [each for message in added if (each := _error_of(message))])


def make_task_tools(tools: "Iterable[Tool]", escape: Escape) -> list[TaskTool]:
    """Return the tools of a task as ours."""
    from inspect_ai.tool import ToolDef

    return [TaskTool(each, ToolDef(each), escape) for each in tools]


def _error_of(message: object) -> str:
    error = getattr(message, "error", None)
    return error.message if error is not None else ""


def _read_result(result: ToolResultBlock, errors: list[str]) -> ToolResult:
    if not result.is_error:
        return ToolResult(result.content)
    return ToolResult.error(result.text or "".join(errors) or "the tool has failed")
