"""The agent functions: `plan_and_execute`, with `run_task` around it, and `react`."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TypeAlias

import trio

from greenroom.agents import Agent, find_model, stream_reply
from greenroom.core import (
    AUTOMATIC_DECIDERS,
    AgentState,
    GreenroomError,
    Message,
    PlanError,
    RuleDecision,
    TurnError,
    TurnStatus,
)
from greenroom.flow.execute import execute_plan, toolbox_of, tools_of
from greenroom.flow.model_planner import (
    ModelPlanner,
    describe_errors,
    describe_plan,
    describe_results,
)
from greenroom.flow.plan import Plan
from greenroom.flow.plan_run import PLAN_STEP, PlanRun
from greenroom.flow.recovery_policy import RecoveryPolicy
from greenroom.flow.resume import find_goal, is_answered
from greenroom.flow.revision import Planner, ReplanPolicy, SubtaskRecovery
from greenroom.flow.text_tools import TextTools
from greenroom.llm import LLMProvider
from greenroom.memory import report_failure
from greenroom.permissions import PermissionManager
from greenroom.resilience import Budget
from greenroom.runtime import AgentHandle, AgentInternals, AgentRuntime, spawn_subagent
from greenroom.session import AgentSession, InMemoryStore
from greenroom.tools import ToolRegistry

Recall: TypeAlias = Callable[[str], Awaitable[str]]
"""Returns text that may help with a goal, such as memories."""

WorkerFunction: TypeAlias = Callable[[AgentInternals], Awaitable[object]]

_POLICY = ReplanPolicy()
_PROPOSALS = 3
_GRACE = 2.0  # seconds for the clean-up of a cancelled task, as in `handle.interrupt`

_WORKER = (
    "Do the one piece of work that you are given, and answer with its result and nothing else."
)

_SYNTHESIS = """\
You are given a goal, and the results of the subtasks of a plan for it. Answer the person who had
the goal: use every result, and say plainly what could not be done, and why. Mention the plan itself
only where that helps.\
"""


async def plan_and_execute(
    agent: AgentInternals,
    llm: LLMProvider | str,
    tools: Iterable[object] | ToolRegistry = (),
    *,
    planner: Planner | None = None,
    worker: WorkerFunction | None = None,
    permissions: PermissionManager | None = None,
    recall: Recall | None = None,
    review: bool = False,
    concurrency: int = 5,
    policy: ReplanPolicy = _POLICY,
    recovery: SubtaskRecovery | None = None,
) -> None:
    """Answer each input by making a plan, executing it, and summarising the results.

    This is an agent function for `runtime.spawn(session, plan_and_execute, llm, tools)`; pass
    keyword arguments with `functools.partial`. Its phases are states: "planning", "executing",
    "replanning" and "answering". It works on one input at a time; others wait in order.

    If the turn was interrupted or the process ended before the answer, send the same goal again to
    continue: `handle.ask(goal)`.

    Args:
        agent: given by the runtime.
        llm: the model that plans, works and answers, or its name.
        tools: the tools of subtasks and of their agents.
        planner: makes the plan; by default `ModelPlanner(llm)`. It can be a `Plan` of your own.
        worker: the agent function of subtasks without a tool; by default an `Agent` with the tools.
        permissions: the rules; by default as `execute_plan` and `Agent` say.
        recall: an async function of the goal; its result is added to the planner's request, such as
            memories of earlier work. If it raises an exception, the plan is made without it.
        review: whether a person has to approve the plan before it starts. After a denial with a
            message, the planner is asked again with that message, at most twice.
        concurrency: how many subtasks run at once.
        policy: when a plan is revised.
        recovery: what to do about a failed subtask before the plan is revised. A `RecoveryPolicy`
            also handles errors of the model, but not those of your own `planner` or `worker`.

    Raises:
        ConfigurationError: the model can't be opened.
        ToolError: something in `tools` can't be a tool.
    """
    work = _PlanAndExecute(
        llm,
        tools,
        planner=planner,
        worker=worker,
        permissions=permissions,
        recall=recall,
        review=review,
        concurrency=concurrency,
        policy=policy,
        recovery=recovery,
    )
    await work.run(agent)


async def run_task(
    goal: str,
    llm: LLMProvider | str,
    tools: Iterable[object] | ToolRegistry = (),
    *,
    planner: Planner | None = None,
    worker: WorkerFunction | None = None,
    permissions: PermissionManager | None = None,
    recovery: SubtaskRecovery | None = None,
    budget: Budget | None = None,
) -> str:
    """Plan a task, execute the plan, and return the answer.

    It always ends: a plan has at most 20 subtasks and 3 revisions, an agent 10 steps, and every
    model and tool call a time-out; `budget` sets lower limits. Inside an agent's tool call or task
    it is a subagent of that agent, and ends with its turn. Elsewhere it has its own runtime, stores
    nothing and asks no person: calls that no rule allows are denied.

    Args:
        goal: what is to be done, in words.
        llm: the model, or its name.
        tools: as for `plan_and_execute`, as are the others.
        planner: makes the plan.
        worker: the agent function of subtasks without a tool.
        permissions: the rules.
        recovery: what to do about errors.
        budget: limits for the whole task, such as `Budget(seconds=60)`.

    Raises:
        PlanError: no plan could be made.
        TurnError: it was interrupted.
        GreenroomError: the task failed, such as by a `ModelError` or a `BudgetExceededError`.

    Example:
        >>> from functools import partial
        >>> import trio
        >>> from greenroom.flow import Plan, Subtask
        >>> from greenroom.testing import ScriptedProvider
        >>> def count(text: str) -> int:
        ...     "Count letters."
        ...     return len(text)
        >>> plan = Plan("", [Subtask("count", "Count", tool="count", arguments={"text": "archon"})])
        >>> llm = ScriptedProvider("6 letters.")
        >>> trio.run(partial(run_task, "How long?", llm, [count], planner=plan))
        '6 letters.'
    """
    work = _PlanAndExecute(
        llm, tools, planner=planner, worker=worker, permissions=permissions, recovery=recovery
    )
    session = AgentSession.new("task")
    handle = spawn_subagent(session, work.run, report=False, budget=budget)
    if handle is not None:
        return await _ask(handle, goal, work)
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(session, work.run, unattended="deny", budget=budget)
        answer = await _ask(handle, goal, work)
    return answer  # noqa: RET504 (a runtime may swallow what its block raises)


async def _ask(handle: AgentHandle, goal: str, work: "_PlanAndExecute") -> str:
    """Wait for the answer to a task, and raise the error that ended it, if any."""
    try:
        result = await handle.ask(goal)
    finally:
        with trio.move_on_after(_GRACE, shield=True):
            await handle.shutdown(grace=0)
        handle.kill()
    if work.last_error is not None:
        raise work.last_error
    if result.status is not TurnStatus.COMPLETED:
        raise TurnError(f"the task was {result.status}", hint=result.error)
    return result.text


@dataclass
class _PlanAndExecute:
    """The arguments of `plan_and_execute`, and the work on its inputs."""

    llm: LLMProvider | str
    tools: Iterable[object] | ToolRegistry
    _: KW_ONLY
    planner: Planner | None = None
    worker: WorkerFunction | None = None
    permissions: PermissionManager | None = None
    recall: Recall | None = None
    review: bool = False
    concurrency: int = 5
    policy: ReplanPolicy = _POLICY
    recovery: SubtaskRecovery | None = None
    last_error: GreenroomError | None = None

    async def run(self, agent: AgentInternals) -> None:
        """Answer each input of an agent; continue the last run if it has the same goal."""
        async for message in agent.inputs():
            was_answered = is_answered(agent.session)
            async with agent.turn(message):
                goal = find_goal(agent.session, message)
                run = find_open_run(agent.session, goal, was_answered=was_answered)
                try:
                    await self.answer(agent, goal, run)
                except GreenroomError as error:
                    self.last_error = error
                    raise

    async def answer(self, agent: AgentInternals, goal: str, run: PlanRun | None) -> None:
        """Make and execute a plan, or continue a run, and summarise the results."""
        llm = find_model(self.llm, agent.context.resources)
        if isinstance(self.recovery, RecoveryPolicy):
            llm = self.recovery.model(llm)
        tools = toolbox_of(self.tools).registry
        planner = self.planner or ModelPlanner(llm)
        run = await execute_plan(
            agent,
            run or await self._plan(agent, planner, tools, goal),
            self.worker or self._worker(llm, tools),
            concurrency=self.concurrency,
            policy=self.policy,
            planner=planner,
            recovery=self.recovery,
            tools=tools,
            permissions=self.permissions,
        )
        await _synthesise(agent, llm, run)

    def _worker(self, llm: LLMProvider, tools: ToolRegistry) -> WorkerFunction:
        given = tools_of(tools)
        return Agent(
            llm, instructions=_WORKER, tools=given, permissions=self.permissions, name="worker"
        )

    async def _plan(
        self, agent: AgentInternals, planner: Planner, tools: ToolRegistry, goal: str
    ) -> Plan:
        """Have a plan made, and approved by a person if `review` is set.

        Raises:
            PlanError: the planner made no plan, or the person does not approve it.
        """
        agent.set_state(AgentState.processing("planning"))
        context = await _recall(agent, self.recall, goal) if self.recall is not None else ""
        plan = await planner.plan(goal, tools, context)
        proposals = 1
        while self.review and (change := await _review(agent, plan)):
            if proposals == _PROPOSALS:
                raise PlanError(f"none of {proposals} plans was approved", hint=change)
            proposed = f"A plan that was proposed:\n{describe_plan(plan)}"
            context = f"{context}\n\n{proposed}\nWhat is to be changed: {change}".strip()
            plan = await planner.plan(goal, tools, context)
            proposals += 1
        return plan


def find_open_run(session: AgentSession, goal: str, *, was_answered: bool) -> PlanRun | None:
    """Return the last run if it has this goal and is unfinished or unanswered, else None.

    Args:
        session: the session of the agent that executes plans.
        goal: the goal, in the same words; `find_goal` finds it.
        was_answered: whether the session was answered before this turn (`is_answered`).

    Raises:
        PlanError: the last run of the session can't be read.
    """
    run = PlanRun.load(session) if session.records(PLAN_STEP) else None
    is_open = run is not None and run.plan.goal == goal and not (was_answered and run.is_over)
    return run if is_open else None


async def _recall(agent: AgentInternals, recall: Recall, goal: str) -> str:
    """Return the recalled text; if that fails, publish the failure and return an empty text."""
    try:
        return await recall(goal)
    except Exception as error:  # noqa: BLE001  # whatever it raises, there can be a plan
        await report_failure(agent, "nothing was recalled", error)
        return ""


async def _review(agent: AgentInternals, plan: Plan) -> str:
    """Ask a person to approve a plan; return the change that they want, if any.

    Raises:
        PlanError: the person declines, or no person can be asked.
    """
    answer = await agent.request_permission(
        "plan",
        "Start this plan",
        details=f"{plan.goal}\n{describe_plan(plan)}",
        reason="the plan is to be reviewed before it starts",
    )
    if answer.decision is RuleDecision.ALLOW:
        return ""
    if answer.message and answer.by not in AUTOMATIC_DECIDERS:
        return answer.message
    raise PlanError(f"the plan was not approved: {answer.message or 'a person declined it'}")


async def _synthesise(agent: AgentInternals, llm: LLMProvider, run: PlanRun) -> None:
    """Let the model summarise the results of the plan."""
    agent.set_state(AgentState.processing("answering"))
    parts = [
        f"The goal:\n{run.plan.goal}",
        f"The plan:\n{describe_plan(run.plan)}",
        f"The results:\n{describe_results(run)}",
        f"What was not done:\n{describe_errors(run)}",
    ]
    if run.error:
        parts.append(f"Why there is no other plan:\n{run.error}")
    prompt = [Message.user("\n\n".join(parts))]
    await stream_reply(agent, llm, messages=prompt, system=_SYNTHESIS)


async def react(
    agent: AgentInternals,
    llm: LLMProvider,
    tools: Sequence[object] = (),
    permissions: PermissionManager | None = None,
    instructions: str = "",
    max_steps: int = 10,
    recovery: RecoveryPolicy | None = None,
) -> None:
    """Answer each input by thought, action and observation, with a model without native tool calls.

    It is an `Agent` whose model is wrapped in `TextTools`: its steps and requests to reformat are
    limited, a repeated action gets a warning and then ends the turn, and an unknown tool is
    answered with the list of tools. `Custom` chunks report each step: `react.thought` (`text`),
    `react.action` (`id`, `tool`, `arguments`) and `react.observation` (`id`, `text`, `is_error`).

    Args:
        agent: given by the runtime.
        llm: the model.
        tools: functions and tools, as for `Agent`.
        permissions: the rules for its calls, as for `Agent`.
        instructions: the system prompt, before the tools and the format.
        max_steps: model calls in a turn; at the last one it has to answer.
        recovery: what to do about errors of the model; each is published as a `recovery` chunk.

    Raises:
        ConfigurationError: an argument makes no sense.

    Example:
        >>> from greenroom.testing import ScriptedProvider, run_agent
        >>> from greenroom.tools import calculator
        >>> llm = ScriptedProvider(
        ...     "I multiply. Action: {'tool': 'calculator', 'args': {'expression': '15 * 3'}}",
        ...     "Thought: The result is 45. Final Answer: 45",
        ... )
        >>> run_agent(react, llm, [calculator], inputs="What is 15 times 3?").text
        '45'
    """
    loop = Agent(
        TextTools(llm) if recovery is None else recovery.model(llm, use_text_tools=True),
        instructions=instructions,
        tools=tools,
        permissions=permissions,
        max_steps=max_steps,
        name="react",
    )
    await loop(agent)
