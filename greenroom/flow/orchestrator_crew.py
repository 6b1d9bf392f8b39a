"""`Crew`: the agents of an orchestrator, chosen by their capabilities to execute its plan."""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import isawaitable

import msgspec
import trio

from greenroom.agents import Agent, RunContext
from greenroom.agents._internal import find_cycle, find_lives, list_tools
from greenroom.core import AgentContext, AgentState, Custom, ToolError, TurnStatus, Usage
from greenroom.core._internal import Wire, serde, strip_partials
from greenroom.flow.error_context import ErrorClass
from greenroom.flow.errors import PlanError
from greenroom.flow.execute import execute_plan
from greenroom.flow.members import Member, ask_member, bind_deps, name_members
from greenroom.flow.pattern import TeamTurn
from greenroom.flow.plan import Plan, Subtask
from greenroom.flow.plan_run import PLAN_STEP, FailureReason, PlanRun, Undo, find_open_run
from greenroom.flow.resume import NOTHING, Trace, find_inspection
from greenroom.flow.revision import Failure, Planner, ReplanPolicy, SubtaskDecision
from greenroom.flow.subtask_runner import name_subtask
from greenroom.resilience import Backoff, Retry
from greenroom.runtime import AgentInternals
from greenroom.session import AgentSession
from greenroom.tools import ToolRegistry, tool

WORK = "team.work"
"""The kind of the records."""


class Stint(Wire, frozen=True):
    """One period of work of an agent, recorded in the orchestrator's session at its start and end.

    After a kill, the record shows which agent produced a result, but not its usage.

    Attributes:
        agent: its name.
        run: the number of the plan in the session, from 1.
        subtask: its subtask; empty if it helped another agent.
        session_id: its conversation.
        seconds: how long it took.
        usage: tokens of its model calls.
    """

    agent: str
    run: int
    subtask: str
    session_id: str
    seconds: float
    usage: Usage = Usage()


@dataclass(frozen=True, eq=False)
class CrewMember:
    """One agent of a team.

    Attributes:
        name: its unique name in the team; a second agent of the same name gets a number.
        run: the agent function.
        capabilities: words for what it is good at; without any it may get every task.
        description: what it is good for, for the model that plans.
    """

    name: str
    run: Member
    capabilities: tuple[str, ...] = ()
    description: str = ""

    @classmethod
    def gather(cls, agents: Iterable[Member]) -> tuple["CrewMember", ...]:
        """Return a worker for each agent of a team.

        Raises:
            ConfigurationError: there are no agents, or one has an invalid name.
            TypeError: one of them is not an agent function.
        """
        return tuple(cls._of(name, agent) for name, agent in name_members(agents).items())

    @classmethod
    def _of(cls, name: str, agent: Member) -> "CrewMember":
        inner = strip_partials(agent)
        capabilities = tuple(getattr(inner, "capabilities", ()))
        return cls(name, agent, capabilities, str(getattr(inner, "description", "")))

    def can(self, capability: str) -> bool:
        """Whether it is good at something, or has this name."""
        wanted = capability.casefold()
        return wanted in (self.name.casefold(), *(each.casefold() for each in self.capabilities))


def _count_plans(agent: AgentInternals) -> int:
    """Return the number of plans in a session."""
    steps = agent.session.records(PLAN_STEP)
    return sum(isinstance(step, dict) and step.get("type") == "begin" for step in steps)


_POLICY = ReplanPolicy(retry=Retry(attempts=5, backoff=Backoff(first=0.0)))
_HELP_WAIT = 60.0  # seconds that a worker waits for help if all others are busy


class Crew:
    """The workers of an orchestrator for one goal."""

    def __init__(
        self,
        turn: TeamTurn,
        workers: Sequence[CrewMember],
        planner: Planner,
        *,
        concurrency: int,
        patience: float | None,
        undo: Undo | None = None,
    ) -> None:
        self.workers = workers
        self._agent = agent = turn.agent
        self._deps = turn.deps
        self._planner = planner
        self._concurrency = concurrency
        self._patience = patience
        self._undo = undo
        self._help_wait = min(_HELP_WAIT, _HELP_WAIT if patience is None else patience / 2)
        goal, was_answered = turn.message.text, turn.was_answered
        self._open_run = find_open_run(agent.session, goal, was_answered=was_answered)
        self._number = _count_plans(agent) + (self._open_run is None)
        self._subtasks: dict[str, Subtask] = {}
        self._failures: Counter[str] = Counter()
        self._assignments: dict[str, str] = {}
        self._failed_pairs: set[tuple[str, str]] = set()
        self._busy: Counter[CrewMember] = Counter()  # how many tasks each has
        self._waiting: dict[_WaitingTask, None] = {}  # in their order

    @property
    def stints(self) -> tuple[Stint, ...]:
        """The stints of this run, oldest first, each by its last record."""
        stints = (serde.convert(record, Stint) for record in self._agent.session.records(WORK))
        mine = (each for each in stints if each.run == self._number)
        return tuple({each.session_id: each for each in mine}.values())

    async def carry_out(self, goal: str) -> PlanRun:
        """Make a plan and have the workers execute it, or go on with one that is open."""
        run = self._open_run
        if run is None:
            self._agent.set_state(AgentState.processing("planning"))
            plan = await self.plan(goal, ToolRegistry(), "")
            run = PlanRun(msgspec.structs.replace(plan, goal=goal))  # by which it is found again
        self.note_subtasks(run.plan)
        return await execute_plan(
            self._agent,
            run,
            self,
            concurrency=len(self.workers) * self._concurrency,
            policy=_POLICY,
            planner=None if isinstance(self._planner, Plan) else self,
            recovery=self,
            patience=self._patience,
            undo=self._undo,
        )

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

    def inspect(self, session: AgentSession) -> Trace:
        """Find out what became of a worker, which is none if no stint in the session began."""
        lives = find_lives(session)
        name = next((each.agent for each in self.stints if each.session_id in lives), "")
        worker = next((each for each in self.workers if each.name == name), None)
        return NOTHING if worker is None else find_inspection(worker.run)(session)

    async def __call__(self, agent: AgentInternals) -> None:
        """Run a subtask: assign the best free worker, and run it in place of this agent."""
        subtask = self._subtasks[agent.lineage[-1]]
        able, chain = self._find_able(subtask.capability)
        if not able:
            waits = f"the agent for {subtask.capability!r} waits for this very answer ({chain})"
            await self._refuse(agent, waits if chain else f"no agent can do {subtask.capability!r}")
            return
        fresh = [each for each in able if (subtask.id, each.name) not in self._failed_pairs]
        last = self._find_last_worker(subtask.id) if agent.session.history else ""
        same = [each for each in fresh if each.name == last]  # it knows the calls that are left
        begun = trio.current_time()
        async with self._assign(same or fresh or able, subtask.goal) as worker:
            self._assignments[subtask.id] = worker.name
            correlation_id = name_subtask(self._agent, subtask.id)
            data: dict[str, object] = {
                "subtask": subtask.id,
                "agent": worker.name,
                "correlation_id": correlation_id,
                "waited": round(trio.current_time() - begun, 3),
            }
            agent.send_nowait(Custom("team.assigned", data, f"{worker.name} does {subtask.id}"))
            await self._run(agent, worker, (worker,), subtask.id)

    def _find_last_worker(self, subtask: str) -> str:
        """Return the name of the worker that had this subtask last; empty if none had."""
        return next((each.agent for each in reversed(self.stints) if each.subtask == subtask), "")

    async def help(self, caller: "CrewContext", capability: str, question: str) -> str:
        """Ask another worker a question on behalf of one, and return the answer."""
        able, chain = self._find_able(capability)
        able = [each for each in able if each not in caller.chain]
        if not able:
            chain = chain or " → ".join(each.name for each in caller.chain)
            raise ToolError(
                f"no other agent can do {capability!r} ({chain} wait for it)",
                hint=self._describe(),
            )
        with trio.move_on_after(self._help_wait) as wait:
            async with self._assign(able, question) as worker:
                wait.deadline = float("inf")
                run = partial(self._run, worker=worker, chain=(*caller.chain, worker))
                result = await ask_member(caller.agent, run, question, name=worker.name)
                if result.status is TurnStatus.COMPLETED:
                    return result.text
                raise ToolError(f"{worker.name} did not answer: {result.error or result.status}")
        raise ToolError(
            f"all agents that can do {capability!r} are busy; go on without help, or ask later"
        )

    async def _run(
        self,
        agent: AgentInternals,
        worker: CrewMember,
        chain: tuple[CrewMember, ...],
        subtask: str = "",
    ) -> None:
        """Run a worker as this agent, and record its stint."""
        agent.context.resources.insert(CrewContext(self, agent, chain))
        run = worker.run
        if not isinstance(run, Agent):
            # Unlike the agent before it, it may act without recorded calls.
            agent.session.set_model("", "")
        begun, note = trio.current_time(), partial(self._agent.session.add_record, WORK)
        stint = Stint(worker.name, self._number, subtask, agent.session.session_id, 0.0)
        note(msgspec.to_builtins(stint))
        await self._agent.session.save(flush=False)
        try:
            await bind_deps(run, self._deps)(agent)
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
        return describe_workers(self.workers)

    def _find_able(self, capability: str) -> tuple[list[CrewMember], str]:
        """Return the workers with a capability, or else those that may get every task.

        One that waits for the work itself is left out; the chain of those that wait is returned.
        """
        able = [each for each in self.workers if not capability or each.can(capability)]
        able = able or [each for each in self.workers if not each.capabilities]
        chains = {each: find_cycle(each.run) for each in able}
        free = [each for each in able if not chains[each]]
        return free, next(filter(None, chains.values()), "")

    @asynccontextmanager
    async def _assign(self, able: Sequence[CrewMember], goal: str) -> AsyncIterator[CrewMember]:
        """Reserve the best of these workers for the block; waiting tasks are served in order."""
        worker = self._choose(able, goal.casefold())
        if worker is None:
            worker = await self._wait_for_worker(able)
        else:
            self._busy[worker] += 1
        try:
            yield worker
        finally:
            self._free(worker)

    async def _wait_for_worker(self, able: Sequence[CrewMember]) -> CrewMember:
        """Wait for the first of these workers, all of which are busy, that is free for the task."""
        task = _WaitingTask(able)
        self._waiting[task] = None
        try:
            await task.is_served.wait()
        except BaseException:
            self._waiting.pop(task, None)
            if task.worker is not None:  # a Ctrl-C struck just when it was served
                self._free(task.worker)
            raise
        assert task.worker is not None
        return task.worker

    def _free(self, worker: CrewMember) -> None:
        """Give the place that a task had at a worker to the first that waits for it, if any."""
        task = next((each for each in self._waiting if worker in each.able), None)
        if task is None:
            self._busy[worker] -= 1
            return
        del self._waiting[task]
        task.worker = worker
        task.is_served.set()

    def _choose(self, able: Sequence[CrewMember], goal: str) -> CrewMember | None:
        """Return the best of these workers that has room for another task, if any.

        That is the one with most capabilities mentioned in the goal, then with fewest failures.
        """

        def rank(worker: CrewMember) -> tuple[int, int]:
            named = sum(each.casefold() in goal for each in worker.capabilities)
            return -named, self._failures[worker.name]

        free = (each for each in able if self._busy[each] < self._concurrency)
        return min(free, key=rank, default=None)


@dataclass(eq=False)
class _WaitingTask:
    """A task that waits for one of these workers, and the one that it is given."""

    able: Sequence[CrewMember]
    worker: CrewMember | None = None
    is_served: trio.Event = field(default_factory=trio.Event)


@dataclass(frozen=True)
class CrewContext:
    """The context of a worker: its crew, its agent, and the workers that wait for each other."""

    crew: Crew
    agent: AgentInternals
    chain: tuple[CrewMember, ...]

    @classmethod
    def from_context(cls, context: AgentContext) -> "CrewContext":
        """Return the context of the calling agent."""
        caller = context.resources.get(cls)
        if caller is None:
            raise ToolError("this agent has no team that could help")
        return caller


@tool(category="agent", requires_permission=False, concurrent=True, timeout=24 * 3600.0)
async def ask_for_help(capability: str, question: str, caller: CrewContext) -> str:
    """Ask another agent of your team, and wait for its answer.

    Args:
        capability: what it has to be good at, or its name.
        question: the question, with everything it needs: it sees nothing of this conversation.
        caller: given by the runtime.
    """
    return await caller.crew.help(caller, capability, question)


def add_help_tool(worker: CrewMember) -> CrewMember:
    """Add `ask_for_help` to the tools of an `Agent`; return any other agent function unchanged."""
    agent = worker.run
    if not isinstance(agent, Agent):
        return worker
    given = agent.tools
    if not callable(given):
        return replace(worker, run=agent.replace_tools([*list_tools(given), ask_for_help]))

    async def tools(context: RunContext[object]) -> list[object]:
        found = given(context)
        return [*list_tools(await found if isawaitable(found) else found), ask_for_help]

    return replace(worker, run=agent.replace_tools(tools))


def describe_workers(workers: Sequence[CrewMember]) -> str:
    """Describe the workers, one per line."""
    return "\n".join(
        f"- {each.name}: {', '.join(each.capabilities) or 'anything'}. {each.description}".rstrip()
        for each in workers
    )
