"""The tool calls of one reply: judged, approved, recorded, run, and answered in order.

`run_tools` takes the calls through a `_Gate`. A tool may run agents itself: `Caller` is what the
agent of the call passes down to them, such as the permissions that they are held to.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    contextmanager,
    nullcontext,
)
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from greenroom.agents.agent_result import RunReport
from greenroom.agents.file_checkpoints import FileCheckpoints
from greenroom.agents.verdict import Judge, Verdict
from greenroom.core import (
    AgentContext,
    AgentState,
    BudgetExceededError,
    ConfigurationError,
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
from greenroom.runtime import AgentInternals, ToolCallScope
from greenroom.session import SessionStore
from greenroom.tools import ToolRegistry, run_each


async def run_tools(
    agent: AgentInternals,
    tool_uses: Sequence[ToolUseBlock],
    tools: ToolRegistry,
    permissions: PermissionManager,
    *,
    limit: int = 5,
    checkpoints: FileCheckpoints | None = None,
    on_result: Callable[[ToolUseBlock, ToolResult], ToolResult] | None = None,
) -> tuple[ToolResultBlock, ...]:
    """Run the tools that a reply asks for, as far as the rules and the person allow.

    Instruments may change a call's input first; the model is told so. Each call is judged, and a
    person is asked where the rules say so, one call after the other. Then the history, with the
    calls and the record that they start, is made durable. Only then the calls run: side by side, at
    most `limit` at once, if all of them are marked concurrent, else in order, and within the
    concurrency that budgets allow. Immediately before it runs, each call is judged again, and
    refused if it is no longer what was approved.

    Denied and impossible calls are answered with the reason, and so is a call for which a budget
    has nothing left; when the others have ended, that budget's scope ends. Every call gives one
    `ToolStart` and one `ToolEnd`. The results are appended as one message, in the calls' order,
    even if the turn is interrupted: calls that had ended keep their results.

    With `checkpoints`, the files that the calls may change are kept before any of them starts, and
    compared when all have ended.

    `on_result` gets each call with its result as soon as it ends, and returns the result for the
    model and the subscribers. `ToolResult.could_run` is false for a call that could not run.

    Agents that the tools run (`Agent.run`) are held to these permissions as well.

    Returns:
        The results, in the calls' order.

    Raises:
        SessionError: the calls could not be made durable; none of them started.
        BudgetExceededError: a budget had no tool call left; every call was still answered.
    """
    judge = Judge(agent, tools, permissions)
    await judge.restore_answers()
    phase = agent.state.phase
    with ExitStack() as calls:
        calls.enter_context(pass_permissions(agent, permissions))
        gate = _Gate(agent, tools, judge, on_result)
        for call in tool_uses:
            await gate.judge(calls.enter_context(agent.tool_call(call)))
        async with gate.watch_files(checkpoints):
            await gate.announce()
            try:
                await gate.run(limit)
            finally:
                blocks = gate.blocks()
                if blocks:
                    agent.session.add_message(Message.user(blocks))
    # They survive this process at once, and a power cut with the next reply's commit.
    await agent.session.save(flush=False)
    agent.set_state(AgentState.processing(phase))
    if gate.budget_error is not None:
        raise gate.budget_error
    return blocks


class _Gate:
    """The stages that the calls of one reply go through."""

    def __init__(
        self,
        agent: AgentInternals,
        tools: ToolRegistry,
        judge: Judge,
        on_result: Callable[[ToolUseBlock, ToolResult], ToolResult] | None,
    ) -> None:
        self._agent = agent
        self._tools = tools
        self._judge = judge
        self._on_result = on_result
        self._calls: list[tuple[Verdict, ToolCallScope]] = []
        self._results: dict[Verdict, ToolResult] = {}
        self.budget_error: BudgetExceededError | None = None
        """The error of a spent budget that kept an allowed call from running."""

    async def judge(self, scope: ToolCallScope) -> None:
        """Decide about one call; ask a person if the rules say so."""
        verdict = await self._judge.judge(scope.call)
        self._calls.append((verdict, scope))

    async def announce(self) -> None:
        """Make it durable that the allowed calls start."""
        agent = self._agent
        agent.session.mark_tools_started(v.call.id for v, _ in self._calls if v.refusal is None)
        try:
            await agent.session.save()
        except BaseException:
            agent.session.conversation.withdraw_tools_started()  # nothing starts now
            raise
        if self._calls:
            agent.set_state(AgentState.executing_tool(self._calls[0][0].call.name))

    def watch_files(self, checkpoints: FileCheckpoints | None) -> AbstractAsyncContextManager[None]:
        """Keep and compare the files that the calls may change, around the block."""
        if checkpoints is None:
            return nullcontext()
        context = self._agent.context
        return checkpoints.around(
            (verdict.call.id, verdict.tool, verdict.tool.effects(verdict.input, context))
            for verdict, _ in self._calls
            if verdict.refusal is None and verdict.tool is not None
        )

    async def run(self, limit: int) -> None:
        """Run the calls: side by side where each tool is marked concurrent, else one by one."""
        tools = [self._tools.get(verdict.call.name) for verdict, _ in self._calls]
        concurrent = all(tool is not None and tool.concurrent for tool in tools)
        runs = [partial(self._run_within, *each) for each in self._calls]
        await run_each(runs, limit if concurrent else 1)

    def blocks(self) -> tuple[ToolResultBlock, ...]:
        """Return the results so far, in the calls' order."""
        return tuple(
            self._results[verdict].block(verdict.call.id)
            for verdict, _ in self._calls
            if verdict in self._results
        )

    async def _run_within(self, verdict: Verdict, scope: ToolCallScope) -> None:
        """Run one call within its scope, or answer it with the reason why it can't run."""
        refusal = verdict.refusal
        if refusal is None:
            try:
                async with scope.running():
                    await self._run(verdict, scope)
            except BudgetExceededError as error:
                self.budget_error = self.budget_error or error
                name = verdict.call.name
                refusal = ToolResult.error(f"{name} was not run: {error.message}.")
            else:
                return
        await self._run(verdict, scope, refusal)

    async def _run(
        self, verdict: Verdict, scope: ToolCallScope, refusal: ToolResult | None = None
    ) -> None:
        name, arguments, context = verdict.call.name, verdict.input, self._make_context(verdict)
        info = self._tools.info(name, arguments) if verdict.refusal is None else None
        await self._agent.send(ToolStart(verdict.call.id, name, arguments, info))
        refusal = refusal or await self._judge.recheck(verdict, context)
        result = refusal or await self._tools.execute(name, arguments, context)
        for note in verdict.notes:
            result = replace(result, content=(*result.content, TextBlock(f"[{note}]")))
        if verdict.is_edited:
            result = _note_change(result, "The user changed the arguments", arguments)
        elif scope.is_rewritten:
            result = _note_change(result, "The arguments were changed", arguments)
        if self._on_result is not None:
            result = self._on_result(verdict.call, result)
        # From here on the result is real: it is kept even if the turn is cancelled right now.
        self._results[verdict] = result
        self._agent.send_nowait(ToolEnd(verdict.call.id, result, result.is_error))
        scope.end(result)

    def _make_context(self, verdict: Verdict) -> AgentContext:
        context = self._agent.context.with_tool_use_id(verdict.call.id)
        # The context is this call's own, so a tool that changes it allows nothing to the next call.
        context.allowed_paths = (*context.allowed_paths, *verdict.paths)
        context.command = verdict.command
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


MAX_DEPTH = 8
"""How deep `Agent`s may be nested: a tool that runs its own agent would never end."""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """What an agent passes down to the agents that its tools run.

    Attributes:
        permissions: the permissions that hold for its calls.
        context: the context that its rules are applied in.
        store: where its session lives.
        report: the report of the innermost `Agent`, linked to those of the agents above.
    """

    permissions: PermissionManager | None = None
    context: AgentContext | None = None
    store: SessionStore | None = None
    report: RunReport | None = None

    @property
    def agents(self) -> tuple[object, ...]:
        """The `Agent`s that the code runs inside, from the outermost."""
        return self.report.agents if self.report else ()


_NO_CALLER = Caller()
_caller: ContextVar[Caller] = ContextVar("greenroom_caller", default=_NO_CALLER)


def pass_permissions(
    agent: AgentInternals, permissions: PermissionManager
) -> AbstractContextManager[None]:
    """Apply these permissions to the agents that the block runs."""
    store = agent.session.store
    caller = dataclasses.replace(
        current_caller(), permissions=permissions, context=agent.context, store=store
    )
    return _pass_down(caller)


def report_to(report: RunReport) -> AbstractContextManager[None]:
    """List the denials of agents that the block runs in this report as well."""
    return _pass_down(dataclasses.replace(current_caller(), report=report))


@contextmanager
def _pass_down(caller: Caller) -> Iterator[None]:
    token = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(token)


def current_caller() -> Caller:
    """Return what the agent around the code passes down.

    A task of the application may inherit it without being part of that agent: see `find_caller`.
    """
    return _caller.get()


def find_caller(context: AgentContext) -> Caller:
    """Return what is passed down to an agent; an empty `Caller` if it is not a subagent."""
    return _NO_CALLER if context.parent_session_id is None else current_caller()


def limit_to_caller(
    own: PermissionManager, context: AgentContext, consents: Iterable[str]
) -> PermissionManager:
    """Return an agent's permissions, which for a subagent are limited by its caller's.

    Args:
        own: the agent's own permissions.
        context: the agent's context.
        consents: the names of functions that the program consented to by passing them.
    """
    caller = find_caller(context)
    if caller.permissions is None or caller.context is None:
        return own
    return own.beneath(caller.permissions, context=caller.context, consents=consents)


@contextmanager
def track_turn(report: RunReport, agent: object, context: AgentContext) -> Iterator[None]:
    """Report the block as a turn of an agent: who waits for it, what is denied, how it ends."""
    # A root agent that another agent's tool started is not held to that agent's rules.
    caller = find_caller(context)
    report.above, report.agent = caller.report, agent
    try:
        with _pass_down(dataclasses.replace(caller, report=report)):
            yield
    except BaseException as error:
        report.fail(error)
        raise


def find_cycle(agent: object) -> str:
    """Return the cycle of waiting agents that a run of this one would close, or an empty text."""
    waiting = current_caller().agents
    identities = [getattr(each, "identity", each) for each in waiting]
    if getattr(agent, "identity", agent) not in identities:
        return ""
    return " → ".join(str(getattr(each, "name", each)) for each in (*waiting, agent))


def check_depth(agent: object, above: tuple[object, ...]) -> None:
    """Refuse to run an agent inside too many others.

    Raises:
        ConfigurationError: there are too many.
    """
    if len(above) >= MAX_DEPTH:
        names = " → ".join(str(getattr(each, "name", each)) for each in (*above, agent))
        raise ConfigurationError(
            f"{MAX_DEPTH} agents run inside each other: {names}",
            hint="check whether an agent runs itself through one of its tools",
        )
