"""The run of one tool: what is asked and told immediately before it, and after it."""

from collections.abc import Awaitable, Callable
from typing import cast

from greenroom.core import AgentContext, Instruments, ToolResult, ToolRun, ToolUseBlock, serde


class ToolRuns:
    """The runs of an agent's tools, whoever asked for them."""

    def __init__(self, context: Callable[[], AgentContext], instruments: Instruments) -> None:
        """Tell these instruments of the runs of one agent."""
        self._context = context
        self._instruments = instruments

    async def run(self, call: ToolRun, run: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """Run a valid call, and tell the instruments."""
        hooks = self._instruments.methods
        if call.by_client or not (hooks["before_tool_run"] or hooks["after_tool_run"]):
            return await run()
        agent, result = self._context(), None
        # A copy: what a hook does to it must not reach the tool.
        given = cast("dict[str, object]", serde.plain(call.input, "the input"))
        block = ToolUseBlock(call.id, call.name, given)
        self._instruments.notify("before_tool_run", agent, block)
        try:
            result = await run()
        finally:
            self._instruments.notify("after_tool_run", agent, block, result)
        return result
