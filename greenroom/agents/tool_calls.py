"""The tool calls of one reply: judged, asked about, recorded, run, and answered in their order."""

from collections.abc import Sequence

from greenroom.agents.verdict import Verdict, judge
from greenroom.core import (
    AgentContext,
    AgentState,
    Message,
    TextBlock,
    ToolEnd,
    ToolResult,
    ToolResultBlock,
    ToolStart,
    ToolUseBlock,
    serde,
)
from greenroom.permissions import PermissionManager
from greenroom.runtime import AgentInternals
from greenroom.tools import AllowedPaths, RegisteredTool, ToolRegistry, run_batch

__all__ = ["run_tools"]


async def run_tools(
    agent: AgentInternals,
    tool_uses: Sequence[ToolUseBlock],
    tools: ToolRegistry,
    permissions: PermissionManager,
    *,
    limit: int = 5,
) -> tuple[ToolResultBlock, ...]:
    """Run the tools that a reply asks for, as far as the rules and the person allow.

    Each call is judged, and where the rules say so a person is asked, one call after the other and
    before anything runs. Then the history with the calls, and the record that they start, is made
    durable; then they run: side by side, at most `limit` at once, when all of them are marked
    concurrent, otherwise in order. Immediately before it runs, a call is judged again: had anything
    changed that was approved, it is refused. Denied and impossible calls are answered with the
    reason. Every call gives one `ToolStart` and one `ToolEnd`; the results are appended as one
    message, in the calls' order, also when the turn is interrupted: what had ended keeps its result.

    Returns:
        The results in the calls' order.

    Raises:
        SessionError: the calls could not be made durable; none of them has started.
    """
    verdicts = [await judge(agent, call, tools, permissions) for call in tool_uses]
    gate = _Gate(agent, tools, permissions)
    agent.session.mark_tools_started(v.call.id for v in verdicts if v.refusal is None)
    try:
        await agent.session.save()
    except BaseException:
        agent.session.withdraw_tools_started()  # nothing starts now
        raise
    if verdicts:
        agent.set_state(AgentState.executing_tool(verdicts[0].call.name))
    calls = [(verdict.call.name, verdict.input, gate.context(verdict)) for verdict in verdicts]
    try:
        await run_batch(calls, gate, limit)
    finally:
        blocks = tuple(
            gate.results[verdict].block(verdict.call.id)
            for verdict in verdicts
            if verdict in gate.results
        )
        if blocks:
            agent.session.add_message(Message.user(blocks))
    # They survive this process at once, and a power cut with the next reply's commit.
    await agent.session.save(flush=False)
    agent.set_state(AgentState.processing())
    return blocks


class _Gate:
    """The registry as one reply's calls see it: it tells of each call, and checks its approval."""

    def __init__(
        self,
        agent: AgentInternals,
        tools: ToolRegistry,
        permissions: PermissionManager,
    ) -> None:
        self._agent = agent
        self._tools = tools
        self._permissions = permissions
        self._verdicts: dict[int, Verdict] = {}
        self.results: dict[Verdict, ToolResult] = {}

    def context(self, verdict: Verdict) -> AgentContext:
        """Make the context of one call; it is also how the call is recognised."""
        context = self._agent.context.with_tool_use_id(verdict.call.id)
        if verdict.paths:
            allowed = context.resources.get(AllowedPaths) or ()
            paths = AllowedPaths([*allowed, *verdict.paths])
            context.resources = context.resources.overlaid(paths)
        self._verdicts[id(context)] = verdict
        return context

    def get(self, name: str) -> RegisteredTool | None:
        """Look a tool up, as the registry does."""
        return self._tools.get(name)

    async def execute(
        self,
        name: str,
        input: dict[str, object],  # noqa: A002
        context: AgentContext,
    ) -> ToolResult:
        """Run one call, or answer why it does not run."""
        verdict = self._verdicts[id(context)]
        info = None if verdict.refusal else self._tools.info(name, input)
        await self._agent.send(ToolStart(verdict.call.id, name, input, info))
        refusal = verdict.refusal or await verdict.changed(self._tools, self._permissions, context)
        result = refusal or await self._tools.execute(name, input, context)
        if verdict.edited:
            result = _after_edit(result, input)
        # From here on the result is real: it is kept even if the turn is cancelled this moment.
        self.results[verdict] = result
        self._agent.send_nowait(ToolEnd(verdict.call.id, result, result.is_error))
        return result


def _after_edit(result: ToolResult, input: dict[str, object]) -> ToolResult:  # noqa: A002
    """Tell the model that this is the result of a call that the person has changed."""
    note = TextBlock(f"[The user changed the arguments to {serde.dumps(input).decode()}]")
    return ToolResult((note, *result.content), result.status, result.metadata)
