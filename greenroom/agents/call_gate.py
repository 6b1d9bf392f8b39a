"""The tool calls of one reply: judged, approved, recorded, run, and answered in order.

`run_tools` takes the calls through a `CallGate`. What judges them is loaded with the first call: a
conversation may have none. A tool may run agents itself; `callers` has what they are held to.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    nullcontext,
)
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import trio
from msgspec.structs import replace

from greenroom.agents.callers import continue_runs, pass_permissions
from greenroom.agents.cut_off import continues, name_call
from greenroom.agents.file_checkpoints import FileCheckpoints
from greenroom.core import (
    AgentContext,
    AgentState,
    BudgetExceededError,
    Message,
    TextBlock,
    ToolEnd,
    ToolResult,
    ToolResultBlock,
    ToolRun,
    ToolStart,
    ToolUseBlock,
    Workspace,
)
from greenroom.core._internal import StateKind, leaves, serde
from greenroom.llm import Substitutes
from greenroom.llm._internal import substitute_result
from greenroom.permissions import PermissionManager
from greenroom.runtime import AgentInternals, ToolCallScope
from greenroom.tools import ToolRegistry

if TYPE_CHECKING:
    from greenroom.agents.verdict import Judge, Verdict
    from greenroom.tools._internal import CallOrder, Reach

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
    judged again, and refused if it has changed since it was approved.

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
        TypeError: it was given the reply instead of its calls.
        BudgetExceededError: a budget had nothing left; every call that ended was answered.
    """
    if isinstance(tool_uses, Message):
        raise TypeError("run_tools takes the calls of a reply: write reply.tool_uses")
    from greenroom.agents.verdict import Judge  # with the first call: there may be none

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


class CallGate:
    """The stages that the calls of one reply go through: judged, announced, run and answered."""

    def __init__(
        self,
        agent: AgentInternals,
        tools: ToolRegistry,
        judge: "Judge",
        calls: Sequence[ToolCallScope],
        on_result: Callable[[ToolUseBlock, ToolResult], ToolResult] | None,
        on_end: OnEnd | None,
    ) -> None:
        self._agent = agent
        self._tools = tools
        self._judge = judge
        self._calls = calls
        self._on_result = on_result
        self._on_end = on_end
        self._verdicts: dict[int, Verdict] = {}
        self._announced: set[int] = set()  # on record as started, or refused
        self._started: set[int] = set()
        self._results: dict[int, ToolResult] = {}
        # A call that only reads does not follow a command that moves meanwhile.
        self._folders: dict[int, Workspace] = {}
        self.budget_error: BudgetExceededError | None = None
        """The error of a spent budget that kept an allowed call from running."""

    async def run(
        self, limit: int, checkpoints: FileCheckpoints | None, windows: AsyncExitStack
    ) -> None:
        """Judge the calls by the rules; then run what is allowed while a person is asked."""
        reaches = []
        for index, scope in enumerate(self._calls):
            verdict = await self._judge.judge(scope.call)
            if verdict is not None:
                self._verdicts[index] = verdict
            reaches.append(await self._judge.find_reach(scope.call, verdict))
        from greenroom.tools._internal import CallOrder

        order = CallOrder(reaches, limit)
        for index in self._verdicts:
            self._allow(order, index, reaches[index])
        questions = [each for each in range(len(self._calls)) if each not in self._verdicts]
        prepare = partial(self._announce, checkpoints, windows)
        try:
            async with trio.open_nursery() if questions else nullcontext() as nursery:
                if nursery is not None:
                    nursery.start_soon(self._ask, order, questions)
                await order.run(self._run_within, prepare)
        except BaseExceptionGroup as group:
            # A single failure, or a cancel of several tasks, is raised as itself.
            found = leaves(group)
            if len(found) > 1 and not all(isinstance(each, trio.Cancelled) for each in found):
                raise
            raise found[0] from found[0].__cause__

    async def _ask(self, order: "CallOrder", questions: Iterable[int]) -> None:
        """Ask a person about these calls, one after the other."""
        for index in questions:
            call = self._calls[index].call
            if self._agent.would_suspend:  # what is allowed does not wait for another process
                await order.wait_quiet()
            await order.wait_for_writes(index)  # the person sees the files as they are then
            self._verdicts[index] = verdict = await self._judge.ask(call)
            self._allow(order, index, await self._judge.find_reach(call, verdict))
            self._show_state(order.running)

    def _allow(self, order: "CallOrder", index: int, reach: "Reach") -> None:
        if reach.only_reads:
            self._folders[index] = self._agent.context.workspace.copy()
        order.allow(index, reach)

    def _show_state(self, calls: Sequence[int]) -> None:
        """Show that the first of these calls is executed, unless a question is open."""
        if calls and self._agent.state.kind is not StateKind.WAITING_FOR_PERMISSION:
            self._agent.set_state(AgentState.executing_tool(self._calls[calls[0]].call.name))

    async def _announce(self, checkpoints: FileCheckpoints | None, windows: AsyncExitStack) -> None:
        """Make it durable that the calls which are allowed by now start."""
        new = sorted(self._verdicts.keys() - self._announced)
        starting = [self._verdicts[index] for index in new if self._is_allowed(index)]
        if checkpoints is not None:
            await windows.enter_async_context(self._watch_files(checkpoints, starting))
        session = self._agent.session
        session.mark_tools_started(verdict.call.id for verdict in starting)
        try:
            await session.save()
        except BaseException:
            session.conversation.withdraw_tools_started()  # nothing of it starts now
            raise
        self._announced.update(new)
        self._show_state(new)

    def _is_allowed(self, index: int) -> bool:
        return self._verdicts[index].refusal is None

    def _watch_files(
        self, checkpoints: FileCheckpoints, verdicts: "Iterable[Verdict]"
    ) -> AbstractAsyncContextManager[None]:
        """Keep and compare the files that calls may change, around the block."""
        context = self._agent.context
        return checkpoints.around(
            (verdict.call.id, verdict.tool, verdict.tool.effects(verdict.input, context))
            for verdict in verdicts
            if verdict.tool is not None
        )

    def end(self) -> tuple[ToolResultBlock, ...]:
        """Record the results so far, in the calls' order, and which calls never started."""
        order = sorted(self._results)
        ended = [(self._verdicts[index].call, self._results[index]) for index in order]
        results = self._on_end(ended) if self._on_end else [result for _, result in ended]
        blocks = tuple(
            result.block(self._calls[index].call.id)
            for index, result in zip(order, results, strict=True)
        )
        held_up = self._announced - self._started - self._results.keys()
        ids = {self._calls[index].call.id for index in held_up}
        ids -= {self._calls[index].call.id for index in self._started}  # two may have one id
        self._agent.session.conversation.note_not_started(ids)
        if blocks:
            self._agent.session.add_message(Message.user(blocks))
        return blocks

    async def _run_within(self, index: int) -> None:
        """Run one call within its scope, or answer it with the reason why it can't run."""
        verdict = self._verdicts[index]
        refusal = verdict.refusal
        if refusal is None:
            try:
                async with self._calls[index].running():
                    await self._run(index)
            except BudgetExceededError as error:
                self.budget_error = self.budget_error or error
                if continues(self._tools, verdict.call):
                    return
                name = verdict.call.name
                refusal = ToolResult.error(f"{name} was not run: {error.message}.")
            else:
                return
        await self._run(index, refusal)

    async def _run(self, index: int, refusal: ToolResult | None = None) -> None:
        verdict, scope, context = self._verdicts[index], self._calls[index], self._context(index)
        name, arguments = verdict.call.name, verdict.input
        info = None
        if verdict.refusal is None:
            tool = verdict.tool
            info = tool.info(arguments) if tool else self._tools.info(name, arguments)
        await self._agent.send(ToolStart(verdict.call.id, name, arguments, info))
        refusal = refusal or await self._judge.recheck(verdict, context)
        result = refusal or await self._execute(index, context)
        if refusal is None and self._is_cut_off(verdict, result):
            self.budget_error = self.budget_error or BudgetExceededError(result.error_message)
            return
        for note in verdict.notes:
            result = replace(result, content=(*result.content, TextBlock(f"[{note}]")))
        if verdict.is_edited:
            result = _note_change(result, "The user changed the arguments", arguments)
        elif scope.is_rewritten:
            result = _note_change(result, "The arguments were changed", arguments)
        if self._on_result is not None:
            result = self._on_result(verdict.call, result)
        # From here on the result is real: it is kept even if the turn is cancelled right now.
        self._results[index] = result
        self._judge.note_end(verdict)
        self._agent.send_nowait(ToolEnd(verdict.call.id, result, result.is_error))
        scope.end(result)

    def _is_cut_off(self, verdict: "Verdict", result: ToolResult) -> bool:
        """Whether a call failed for want of a budget, and goes on when it is made with another."""
        is_spent = result.is_error and not self._agent.has_budget
        return is_spent and continues(self._tools, verdict.call)

    async def _execute(self, index: int, context: AgentContext) -> ToolResult:
        verdict, on_run = self._verdicts[index], context.on_run

        async def begin(
            call: ToolRun, run: Callable[[], Awaitable[ToolResult]], own: AgentContext
        ) -> ToolResult:
            def start() -> Awaitable[ToolResult]:
                self._started.add(index)
                return run()

            found = None
            if own.resources.contains(Substitutes):
                found = await substitute_result(own, call)
            return await on_run(call, start, own) if found is None else found

        context.on_run = begin
        with continue_runs(*name_call(self._agent.session, verdict.call.id)):
            return await self._tools.execute(verdict.call.name, verdict.input, context)

    def _context(self, index: int) -> AgentContext:
        verdict = self._verdicts[index]
        context = self._agent.context.with_tool_use_id(verdict.call.id)
        context.workspace = self._folders.get(index, context.workspace)
        # The context is this call's own, so a tool that changes it allows nothing to the next call.
        context.allowed_paths = (*context.allowed_paths, *verdict.paths)
        context.command = verdict.command
        context.approval = verdict.approval
        context.on_search = partial(self._judge.screen_reads, verdict)
        return context


def _note_change(
    result: ToolResult,
    what: str,
    input: dict[str, object],  # noqa: A002
) -> ToolResult:
    """Tell the model that its call ran with other arguments."""
    note = TextBlock(f"[{what} to {serde.dumps(input).decode()}]")
    return replace(result, content=(note, *result.content))
