"""Assign subtasks to workers: the most suitable one that is free, and another one after a failure.

A crew is a planner, since it has to know each plan; a recovery, since a failed subtask goes to the
next worker; and the agent function of all subtasks, in whose place a worker runs. So a subtask has
one agent and one session, as in any plan, and the next worker continues that conversation.
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import isawaitable

import msgspec
import trio

from greenroom.agents import Agent, RunContext, Runnable, find_cycle
from greenroom.core import AgentContext, Custom, PlanError, ToolError, TurnStatus
from greenroom.planning import (
    ErrorClass,
    Failure,
    FailureReason,
    Plan,
    Planner,
    PlanRun,
    Subtask,
    SubtaskDecision,
)
from greenroom.runtime import AgentInternals
from greenroom.teams.members import ask_member
from greenroom.teams.orchestrator_report import WORK, Stint
from greenroom.teams.worker import Worker
from greenroom.tools import ToolRegistry, tool

_HELP_WAIT = 60.0  # seconds that a worker waits for help if all others are busy


class Crew:
    """The workers of an orchestrator for one goal."""

    def __init__(
        self,
        agent: AgentInternals,
        workers: Sequence[Worker],
        planner: Planner,
        deps: object,
        *,
        number: int,
        limit: int,
        patience: float | None,
    ) -> None:
        """Take the workers, in order of preference."""
        self._agent = agent
        self._workers = workers
        self._planner = planner
        self._deps = deps
        self._number = number
        self._limit = limit
        self._help_wait = min(_HELP_WAIT, _HELP_WAIT if patience is None else patience / 2)
        self._subtasks: dict[str, Subtask] = {}
        self._task_counts: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._assignments: dict[str, str] = {}
        self._failed_pairs: set[tuple[str, str]] = set()
        self._waiting: list[_Task] = []

    async def plan(self, goal: str, tools: ToolRegistry, context: str) -> Plan:
        """Have a plan made."""
        return self.note_subtasks(await self._planner.plan(goal, tools, context))

    async def revise(self, run: PlanRun, failure: Failure) -> Plan:
        """Have a plan revised."""
        return self.note_subtasks(await self._planner.revise(run, failure))

    def note_subtasks(self, plan: Plan) -> Plan:
        """Note the subtasks of a plan, and return the plan."""
        self._subtasks |= {subtask.id: subtask for subtask in plan.subtasks}
        return plan

    async def recover(self, run: PlanRun, failure: Failure) -> SubtaskDecision:
        """Let another worker continue a subtask if its worker failed."""
        id_ = failure.subtask.id
        name = self._assignments.pop(id_, "")
        if failure.error_class is ErrorClass.SPENT:
            return "give_up"
        if not name or failure.reason is not FailureReason.WORKER:
            return "replan"
        self._failures[name] += 1
        self._failed_pairs.add((id_, name))
        return "go_on"

    async def work(self, agent: AgentInternals) -> None:
        """Run a subtask: assign the best free worker, and run it in place of this agent."""
        subtask = self._subtasks[agent.lineage[-1]]
        able = self._find_able(subtask.capability)
        if not able:
            await self._refuse(agent, f"no agent can do {subtask.capability!r}")
            return
        able = [each for each in able if not (way := find_cycle(each.run))]
        if not able:
            await self._refuse(
                agent,
                f"the agent for {subtask.capability!r} waits for this very answer ({way})",
            )
            return
        fresh = [each for each in able if (subtask.id, each.name) not in self._failed_pairs]
        async with self._assign(fresh or able, subtask.goal) as worker:
            self._assignments[subtask.id] = worker.name
            data: dict[str, object] = {"subtask": subtask.id, "agent": worker.name}
            agent.send_nowait(Custom("team.assigned", data, f"{worker.name} does {subtask.id}"))
            await self._run(agent, worker, (worker,), subtask.id)

    async def help(self, seat: "Seat", capability: str, question: str) -> str:
        """Ask another worker a question on behalf of one, and return the answer.

        Raises:
            ToolError: no worker can help, all that could are busy, or the one that was asked
                failed.
        """
        chain = " → ".join(each.name for each in seat.chain)
        able = list[Worker]()
        for each in self._find_able(capability):
            if way := find_cycle(each.run):
                chain = way
            elif each not in seat.chain:
                able.append(each)
        if not able:
            raise ToolError(
                f"no other agent can do {capability!r} ({chain} wait for this)",
                hint=self._describe(),
            )
        with trio.move_on_after(self._help_wait) as wait:
            async with self._assign(able, question) as worker:
                wait.deadline = float("inf")
                run = partial(self._run, worker=worker, chain=(*seat.chain, worker))
                result = await ask_member(seat.agent, run, question, name=worker.name)
                if result.status is TurnStatus.COMPLETED:
                    return result.text
                raise ToolError(f"{worker.name} did not answer: {result.error or result.status}")
        raise ToolError(
            f"all agents that can do {capability!r} are busy; go on without help, or ask again later"
        )

    async def _run(
        self, agent: AgentInternals, worker: Worker, chain: tuple[Worker, ...], subtask: str = ""
    ) -> None:
        """Run a worker as this agent, and record its stint."""
        agent.context.resources.insert(Seat(self, agent, chain))
        run = worker.run
        if not isinstance(run, Agent):
            # It may act without calls, even if the agent before it used a model.
            agent.session.set_model("", "")
        begun, note = trio.current_time(), partial(self._agent.session.add_record, WORK)
        stint = Stint(worker.name, self._number, subtask, agent.session.session_id, 0.0)
        note(msgspec.to_builtins(stint))
        await self._agent.session.save(flush=False)
        try:
            await (run(agent, self._deps) if isinstance(run, Runnable) else run(agent))
        finally:
            stint = msgspec.structs.replace(
                stint, seconds=trio.current_time() - begun, usage=agent.usage
            )
            note(msgspec.to_builtins(stint))

    async def _refuse(self, agent: AgentInternals, why: str) -> None:
        async for message in agent.inputs():
            async with agent.turn(message):
                raise PlanError(why, hint=self._describe())

    def _describe(self) -> str:
        return describe_workers(self._workers)

    def _find_able(self, capability: str) -> list[Worker]:
        """Return the workers with a capability, or else those that may get every task."""
        able = [each for each in self._workers if not capability or each.can(capability)]
        return able or [each for each in self._workers if not each.capabilities]

    @asynccontextmanager
    async def _assign(self, able: Sequence[Worker], goal: str) -> AsyncIterator[Worker]:
        """Reserve the best of these workers for the block; waiting tasks are served in order."""
        task = _Task(able, self._choose(able, goal))
        if task.worker is None:
            self._waiting.append(task)
        else:
            self._task_counts[task.worker.name] += 1
        try:
            if task.worker is None:
                await task.is_served.wait()
            assert task.worker is not None
            yield task.worker
        finally:
            self._release(task)

    def _choose(self, able: Sequence[Worker], goal: str) -> Worker | None:
        """Return the best of these workers that has room for another task, if any."""
        free = [each for each in able if self._task_counts[each.name] < self._limit]
        return min(free, key=partial(self._rank, goal=goal.casefold()), default=None)

    def _release(self, task: "_Task") -> None:
        """Pass a task's worker on to the task that has waited longest for it."""
        worker = task.worker
        if worker is None:
            self._waiting.remove(task)
            return
        following = next((each for each in self._waiting if worker in each.able), None)
        if following is None:
            self._task_counts[worker.name] -= 1
        else:
            self._waiting.remove(following)
            following.worker = worker
            following.is_served.set()

    def _rank(self, worker: Worker, goal: str) -> tuple[int, int]:
        """Return a sort key: most capabilities mentioned in the goal, then fewest failures."""
        named = sum(each.casefold() in goal for each in worker.capabilities)
        return -named, self._failures[worker.name]


@dataclass(eq=False)
class _Task:
    """A task with its worker, or waiting for one."""

    able: Sequence[Worker]
    worker: Worker | None
    is_served: trio.Event = field(default_factory=trio.Event)


@dataclass(frozen=True)
class Seat:
    """The context of a worker: its crew, its agent, and the chain of workers that wait, itself the last."""

    crew: Crew
    agent: AgentInternals
    chain: tuple[Worker, ...]

    @classmethod
    def from_context(cls, context: AgentContext) -> "Seat":
        """Return the seat of the calling agent.

        Raises:
            ToolError: the agent does not work for an orchestrator.
        """
        seat = context.resources.get(cls)
        if seat is None:
            raise ToolError("this agent has no team that could help")
        return seat


@tool(category="agent", requires_permission=False, concurrent=True, timeout=24 * 3600.0)
async def ask_for_help(capability: str, question: str, seat: Seat) -> str:
    """Ask another agent of your team, and wait for its answer.

    Args:
        capability: what it has to be good at, or its name.
        question: all that it has to know: it sees nothing of this conversation.
        seat: given by the runtime.
    """
    return await seat.crew.help(seat, capability, question)


def add_help_tool(worker: Worker) -> Worker:
    """Add `ask_for_help` to the tools of an `Agent`; return any other agent function unchanged."""
    agent = worker.run
    if not isinstance(agent, Agent):
        return worker
    given = agent.tools
    if not callable(given):
        return replace(worker, run=agent.replace_tools([*given, ask_for_help]))

    async def tools(context: RunContext[object]) -> list[object]:
        found = given(context)
        return [*(await found if isawaitable(found) else found), ask_for_help]

    return replace(worker, run=agent.replace_tools(tools))


def describe_workers(workers: Sequence[Worker]) -> str:
    """Describe the workers, one per line."""
    return "\n".join(
        f"- {each.name}: {', '.join(each.capabilities) or 'anything'}. {each.description}".rstrip()
        for each in workers
    )
