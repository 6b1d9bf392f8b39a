"""The tool calls of one reply: judged, approved, recorded, run, and answered in order.

`run_tools` takes the calls through a `CallGate`. A tool may run agents itself; `callers` has what
they are held to.
"""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import TypeAlias

from greenroom.agents.file_checkpoints import FileCheckpoints
from greenroom.core import AgentState, ToolResult, ToolResultBlock, ToolUseBlock
from greenroom.permissions import PermissionManager
from greenroom.runtime import AgentInternals
from greenroom.tools import ToolRegistry

OnEnd: TypeAlias = Callable[[Sequence[tuple[ToolUseBlock, ToolResult]]], Sequence[ToolResult]]


async def run_tools(
    agent: AgentInternals,
    tool_uses: Sequence[ToolUseBlock],
    tools: ToolRegistry,
    permissions: PermissionManager,
    *,
    concurrency: int = 5,
    checkpoints: FileCheckpoints | None = None,
    on_result: Callable[[ToolUseBlock, ToolResult], ToolResult] | None = None,
    on_end: OnEnd | None = None,
) -> tuple[ToolResultBlock, ...]:
    """Run the tools that a reply asks for, as far as the rules and the person allow.

    Instruments may change a call's input first; the model is told so. Each call is judged by the
    rules, and a person is asked where they say so, about one call after the other. The others do
    not wait for the answers: a call runs once it is allowed, side by side with others, at most
    `concurrency` at once and within the concurrency that budgets allow. It waits only for those
    earlier calls whose effects may touch its own (`Reach`). Before a call starts, the history, with
    the calls and the record that it starts, is made durable; and immediately before it runs, it is
    judged again, and refused if it is no longer what was approved.

    Denied and impossible calls are answered with the reason, and so is a call for which a budget
    has nothing left; when the others have ended, that budget's scope ends. So it does if an agent
    that a call runs fails for want of a budget; a call that runs an agent has no result then, as if
    it had been interrupted, and goes on when it is made again. Every other call gives one
    `ToolStart` and one `ToolEnd`. The results are appended as one message, in the calls' order,
    even if the turn is interrupted: calls that had ended keep their results, and those that had not
    started say so. Where a question would suspend the turn, it is asked when no call runs.

    With `checkpoints`, the files that the calls may change are kept before any of them starts, and
    compared when all have ended.

    `on_result` gets each call with its result as soon as it ends, and returns the result for the
    model and the subscribers. `ToolResult.could_run` is false for a call that could not run.
    `on_end` gets those with a result when no more of them will end, in the order of the reply, and
    returns the results for the model: what depends on their order depends on no race.

    Agents that the tools run (`Agent.run`) are held to these permissions as well.

    Returns:
        The results, in the calls' order.

    Raises:
        SessionError: calls could not be made durable; they did not start.
        BudgetExceededError: a budget had nothing left; every call that ended was answered.
    """
    # Loaded with the first call, as what judges it is: a conversation may have none.
    from greenroom.agents.call_gate import CallGate
    from greenroom.agents.callers import pass_permissions
    from greenroom.agents.verdict import Judge

    judge = Judge(agent, tools, permissions)
    await judge.restore_answers()
    phase = agent.state.phase
    with ExitStack() as scopes:
        scopes.enter_context(pass_permissions(agent, permissions))
        meant = map(tools.resolve, tool_uses)
        calls = [scopes.enter_context(agent.tool_call(call)) for call in meant]
        gate = CallGate(agent, tools, judge, calls, on_result, on_end)
        async with AsyncExitStack() as windows:
            try:
                await gate.run(concurrency, checkpoints, windows)
            finally:
                blocks = gate.end()
    # They survive this process at once, and a power cut with the next reply's commit.
    await agent.session.save(flush=False)
    agent.set_state(AgentState.processing(phase))
    if gate.budget_error is not None:
        raise gate.budget_error
    return blocks
