"""`plan_and_execute`: an agent that plans, executes and answers; `run_task` runs it once."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from msgspec.structs import replace

from greenroom.agents import Agent, AgentResult, Tools, stream_reply
from greenroom.agents._internal import Approve, Toolbox
from greenroom.core import AgentState, ConfigurationError, Message
from greenroom.core._internal import clip
from greenroom.flow.execute import execute_plan
from greenroom.flow.graph import is_count
from greenroom.flow.members import Member, bind_deps
from greenroom.flow.model_planner import (
    ModelPlanner,
    describe_errors,
    describe_plan,
    describe_results,
)
from greenroom.flow.pattern import Pattern, TeamTurn
from greenroom.flow.plan_run import PlanRun, Undo, find_open_run
from greenroom.flow.recovery_policy import RecoveryPolicy
from greenroom.flow.review import ReviewedPlanner, ReviewWord, read_review
from greenroom.flow.revision import Planner, ReplanPolicy, SubtaskRecovery
from greenroom.llm import LLMProvider
from greenroom.llm._internal import find_model
from greenroom.memory import Memory
from greenroom.memory._internal import EntryOrigin, describe_recalled, report_failure
from greenroom.permissions import PermissionManager
from greenroom.resilience import Budget
from greenroom.runtime import AgentInternals, AgentRuntime
from greenroom.runtime._internal import check_agent_function
from greenroom.session import AgentSession, SessionStore
from greenroom.tools import ToolRegistry

Recall: TypeAlias = Callable[[str], Awaitable[str]]
"""Returns text that may help with a goal, such as memories."""

_POLICY = ReplanPolicy()
_LONGEST_MEMORY = 10_000  # characters

_WORKER = (
    "Do the one piece of work that you are given, and answer with its result and nothing else."
)

_SYNTHESIS = """\
You are given a goal, and the results of the subtasks of a plan for it. Answer the person who had
the goal: use every result, and say plainly what could not be done, and why. Mention the plan itself
only where that helps.\
"""


def plan_and_execute(
    llm: LLMProvider | str,
    tools: Tools = (),
    *,
    planner: Planner | None = None,
    worker: Member | None = None,
    permissions: PermissionManager | None = None,
    memory: Memory | None = None,
    recall: Recall | None = None,
    review: bool | Iterable[ReviewWord] = False,
    concurrency: int = 5,
    max_subtasks: int = 20,
    policy: ReplanPolicy = _POLICY,
    recovery: SubtaskRecovery | None = None,
    undo: Undo | None = None,
    name: str = "planner",
    description: str = "",
) -> Pattern[str]:
    """Return an agent that answers each input by a plan: make it, execute it, sum up the results.

    It runs, nests and is delegated to like an `Agent`. Its phases are states: "planning",
    "executing", "replanning" and "answering". It works on one input at a time; others wait.

    If a turn was interrupted, or the process ended before the answer, `run(None, session=id)` goes
    on with the plan; so does the same goal in the same words.

    Args:
        llm: the model that plans, works and answers, or its name.
        tools: the tools of subtasks and of their agents.
        planner: makes the plan; by default `ModelPlanner(llm)`. It can be a `Plan` of your own.
        worker: the agent function of subtasks without a tool; by default an `Agent` with the tools.
        permissions: the rules; by default as `execute_plan` and `Agent` say.
        memory: what is known about a goal is recalled for the planner, and each goal is added with
            its answer.
        recall: an async function of the goal; its result is added to the planner's request as well.
            If it raises an exception, the plan is made without it.
        review: where a person has to approve: True for every plan before it starts, revised ones
            too; or some of "plan", "revision", "subtask" (the end of each, before others get its
            result) and "unsure" (a result that states a `confidence` below one half). After a
            denial with a message, the planner is asked again with that message, at most twice.
        concurrency: how many subtasks run at once.
        max_subtasks: the most subtasks in a plan that the model makes.
        policy: when a plan is revised.
        recovery: what to do about a failed subtask before the plan is revised. A `RecoveryPolicy`
            also handles errors of the model, but not those of your own `planner` or `worker`.
        undo: undoes what completed subtasks have done if the plan ends with failures; see
            `PlanRun.undo`.
        name: the name for people, logs and models.
        description: what it is good for, for a model that may call it.

    Raises:
        ConfigurationError: a number is too low.
        ToolError: something in `tools` can't be a tool.
        TypeError: the worker is not an agent function.

    Example:
        >>> from greenroom.flow import plan_and_execute
        >>> from greenroom.flow.plan import Plan, Subtask
        >>> from greenroom.testing import ScriptedProvider
        >>> def count(text: str) -> int:
        ...     "Count letters."
        ...     return len(text)
        >>> plan = Plan("", [Subtask("count", "Count", tool="count", arguments={"text": "archon"})])
        >>> planner = plan_and_execute(ScriptedProvider("6 letters."), [count], planner=plan)
        >>> planner.run_sync("How long is the word?").output
        '6 letters.'
    """
    for what, number in (("concurrency", concurrency), ("max_subtasks", max_subtasks)):
        if not is_count(number):
            raise ConfigurationError(f"{what} is {number!r}", hint="give 1 or more")
    if worker is not None:
        check_agent_function(worker)
    registry, words = Toolbox.of(tools).registry, read_review(review)

    async def work(turn: TeamTurn) -> str:
        """Make and execute a plan, or continue a run, and summarise the results."""
        agent, goal = turn.agent, turn.message.text
        run = find_open_run(agent.session, goal, was_answered=turn.was_answered)
        model = find_model(llm, agent.context.resources)
        if isinstance(recovery, RecoveryPolicy):
            model = recovery.model(model)
        reviewed = ReviewedPlanner(
            planner or ModelPlanner(model, max_subtasks=max_subtasks), agent, words
        )
        if run is None:
            agent.set_state(AgentState.processing("planning"))
            context = await _recall(agent, goal, memory, recall)
            plan = await reviewed.plan(goal, registry, context)
            run = PlanRun(replace(plan, goal=goal))  # by which the run is found again
        run = await execute_plan(
            agent,
            run,
            bind_deps(worker or _make_worker(model, registry, permissions), turn.deps),
            concurrency=concurrency,
            policy=policy,
            planner=reviewed,
            recovery=recovery,
            tools=registry,
            permissions=permissions,
            on_end=reviewed.review_end if reviewed.reviews_ends else None,
            undo=undo,
        )
        answer = await _synthesise(agent, model, run)
        await _remember(agent, memory, goal, answer)
        return answer

    return Pattern(name, work, description=description)


async def run_task(
    goal: str,
    llm: LLMProvider | str,
    tools: Tools = (),
    *,
    planner: Planner | None = None,
    worker: Member | None = None,
    permissions: PermissionManager | None = None,
    memory: Memory | None = None,
    review: bool | Iterable[ReviewWord] = False,
    recovery: SubtaskRecovery | None = None,
    session: AgentSession | str | None = None,
    store: SessionStore | None = None,
    runtime: AgentRuntime | None = None,
    approve: Approve | None = None,
    budget: Budget | None = None,
) -> AgentResult[str]:
    """Plan a task, execute the plan, and return the answer: `plan_and_execute(…).run(goal)`.

    It always ends: a plan has at most 20 subtasks and 3 revisions, an agent 10 steps, and every
    model and tool call a time-out; `budget` sets lower limits. Inside an agent's tool call or task
    it is a subagent of that agent, and ends with its turn. Elsewhere calls that no rule allows are
    denied, unless `approve` decides; `result.denials` lists them.

    The arguments are those of `plan_and_execute`, which plans and works, and of `Agent.run`, which
    says where; `budget` is for the whole task, such as `Budget(seconds=60)`.

    Raises:
        ConfigurationError: an argument makes no sense, or the model can't be opened.
        ToolError: something in `tools` can't be a tool.
        SessionError: the session can't be loaded, or is in use.

    Example:
        >>> from functools import partial
        >>> import trio
        >>> from greenroom.flow.plan import Plan, Subtask
        >>> from greenroom.testing import ScriptedProvider
        >>> plan = Plan("", [Subtask("name", "Name a word")])
        >>> llm = ScriptedProvider("Archon.", "It is archon.")
        >>> trio.run(partial(run_task, "A word?", llm, planner=plan)).output
        'It is archon.'
    """
    task = plan_and_execute(
        llm,
        tools,
        planner=planner,
        worker=worker,
        permissions=permissions,
        memory=memory,
        review=review,
        recovery=recovery,
        name="task",
    )
    return await task.run(
        goal, session=session, store=store, runtime=runtime, approve=approve, budget=budget
    )


def _make_worker(
    llm: LLMProvider, tools: ToolRegistry, permissions: PermissionManager | None
) -> Agent[None, str]:
    return Agent(
        llm,
        instructions=_WORKER,
        tools=tools,
        permissions=permissions,
        name="worker",
    )


async def _recall(
    agent: AgentInternals, goal: str, memory: Memory | None, recall: Recall | None
) -> str:
    """Return what is known about a goal; publish the failure of a memory that is broken."""
    found = []
    try:
        if memory is not None:
            found.append(describe_recalled(await memory.recall(goal)))
        if recall is not None:
            found.append(str.strip(await recall(goal)))  # a TypeError for what is not a text
    except Exception as error:  # noqa: BLE001  # whatever it raises, there can be a plan
        await report_failure(agent, "nothing was recalled", error)
    return "\n\n".join(filter(None, found))


async def _remember(agent: AgentInternals, memory: Memory | None, goal: str, answer: str) -> None:
    """Add a goal and its answer to the memory; publish the failure of one that is broken."""
    if memory is None:
        return
    text = clip(f"The task: {goal}\nThe answer: {answer}", _LONGEST_MEMORY)
    session_id, origin = agent.session.session_id, EntryOrigin.AGENT
    try:
        await memory.add(text, origin=origin, session_id=session_id)
    except Exception as error:  # noqa: BLE001  # whatever it raises, there is an answer
        await report_failure(agent, "the answer was not remembered", error)


async def _synthesise(agent: AgentInternals, llm: LLMProvider, run: PlanRun) -> str:
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
    return (await stream_reply(agent, llm, messages=prompt, instructions=_SYNTHESIS)).text
