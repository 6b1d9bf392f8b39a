"""A subtask with a tool: an agent that makes one call, and asks no model."""

from greenroom.agents import caller_of, run_tools
from greenroom.core import Message, ToolError, ToolResult, ToolStatus, ToolUseBlock, new_id
from greenroom.permissions import PermissionManager
from greenroom.planning.error_context import ErrorClass
from greenroom.planning.plan import Subtask
from greenroom.planning.references import structured
from greenroom.runtime import AgentInternals
from greenroom.tools import ToolRegistry

__all__ = ["SubtaskCall"]


class SubtaskCall:
    """The agent function of a subtask with a tool.

    It has a session of its own, so that calls of one plan can run side by side, and that each has its
    own record of whether it had started when the process ended.
    """

    def __init__(
        self, subtask: Subtask, tools: ToolRegistry, permissions: PermissionManager
    ) -> None:
        """Take a subtask whose arguments are filled in."""
        self._call = ToolUseBlock(new_id("call"), subtask.tool, subtask.arguments)
        self._tools = tools
        self._permissions = permissions
        self.error_class = ErrorClass.FAILED
        """What kind of error the call has ended with, where it was one."""

    async def __call__(self, agent: AgentInternals) -> None:
        """Make the call; its result is the result of the turn."""
        report = caller_of(agent.context).report

        def note(call: ToolUseBlock, result: ToolResult) -> ToolResult:
            """Tell the agents above where the call is denied, and what kind of error it is."""
            if report is not None:
                report.note(call, result, agent.lineage)
            self.error_class = self._classify(call, result)
            return result

        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                agent.session.add_message(Message.assistant([self._call]))
                (block,) = await run_tools(
                    agent, [self._call], self._tools, self._permissions, on_result=note
                )
                if block.is_error:
                    raise ToolError(block.text)
                turn.set_result(structured(block.text))

    def _classify(self, call: ToolUseBlock, result: ToolResult) -> ErrorClass:
        if result.status is ToolStatus.DENIED:
            return ErrorClass.DENIED
        if result.status is ToolStatus.TIMEOUT:
            return ErrorClass.TIMEOUT
        if result.could_run:
            return ErrorClass.FAILED
        tool = self._tools.get(call.name)
        is_wrong = tool is None or tool.fault(call.input)
        return ErrorClass.INVALID_INPUT if is_wrong else ErrorClass.CRASH
