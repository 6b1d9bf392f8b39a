"""`execute_plan`: start subtasks, record their progress, and handle failures.

The order of writes makes a kill harmless. The start of a subtask and its session are stored before
it starts. A tool call is stored in that session before it starts. A result is stored before any
subtask that waits for it starts. A run that is loaded therefore knows which subtasks ended, which
have not begun, and which were cut off; `trace` finds out what the latter left behind.
"""

import heapq
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, TypeVarTuple, Unpack

import msgspec
import trio
from msgspec import UNSET

from greenroom.agents import Tools
from greenroom.agents._internal import Toolbox, pass_permissions
from greenroom.core import AgentState, BudgetExceededError, ConfigurationError
from greenroom.flow.error_context import ErrorClass, ErrorContext, RecoveryDecision
from greenroom.flow.errors import PlanError
from greenroom.flow.graph import is_above_zero, is_count
from greenroom.flow.plan import Plan, find_tool
from greenroom.flow.plan_run import (
    FailureReason,
    PlanEnd,
    PlanRecorder,
    PlanRevision,
    PlanRun,
    SubtaskMove,
    SubtaskReview,
    SubtaskStatus,
    Undo,
)
from greenroom.flow.resume import find_inspection
from greenroom.flow.revision import Failure, Planner, ReplanPolicy, SubtaskRecovery
from greenroom.flow.subtask_runner import SubtaskRunner
from greenroom.permissions import PermissionManager
from greenroom.resilience._internal import Attempts
from greenroom.runtime import AgentHandle, AgentInternals
from greenroom.runtime._internal import run_each
from greenroom.session import AgentSession
from greenroom.tools import ToolRegistry

Ts = TypeVarTuple("Ts")

_POLICY = ReplanPolicy()
_TRIES = {RecoveryDecision.RETRY, RecoveryDecision.GO_ON, RecoveryDecision.ASK_PERSON}
_POSSIBLE = frozenset({*_TRIES, RecoveryDecision.GIVE_UP})


async def execute_plan(
    agent: AgentInternals,
    plan_or_run: Plan | PlanRun,
    worker: Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]] | None,
    *args: *Ts,
    concurrency: int = 5,
    policy: ReplanPolicy = _POLICY,
    planner: Planner | None = None,
    recovery: SubtaskRecovery | None = None,
    patience: float | None = None,
    on_end: Callable[[PlanRun, str], Awaitable[None]] | None = None,
    tools: Tools = (),
    permissions: PermissionManager | None = None,
    undo: Undo | None = None,
) -> PlanRun:
    """Execute a plan, with as much parallelism as its graph allows, and return the finished run.

    A subtask with a `tool` is one call of it through `run_tools`, with the usual permissions and
    records; whether a tool is marked concurrent does not matter, since the plan decides what may
    run in parallel. Any other subtask is a subagent: it gets the goal as its first input, from the
    sender "plan", and the result of that turn is the subtask's, else its text. The input's metadata
    has the id of the `subtask`, and a `correlation_id` that all its tries have, even after a kill.
    Both are subagents of `agent`, under its budgets, and end with its turn.

    A failed subtask blocks those that wait for it, and nothing else. With a `planner` the plan is
    revised according to the `policy`; completed subtasks are never repeated. If the new plan
    repeats a call (the same tool, the same arguments), a person is asked, unless the tool may be
    called twice or reported that the call failed. Failures are part of the returned run; they raise
    no exception.

    Each change is a record in the agent's session and a `Custom("plan.step")` chunk, so the state
    can be read at any moment: `PlanRun.load(session)`. Pass a loaded run to continue it: a subtask
    that was cut off is run again if none of its calls had started, and continues its conversation
    if its agent had only used its model. A call that may have had its effect is repeated if its
    tool allows that (read-only or idempotent); otherwise a person is asked. If they decline, the
    subtask has failed; if no person can be asked, it stays pending, with the session in which it
    was cut off. So does a subtask that a spent budget stops.

    Args:
        agent: the agent whose plan it is; call this inside of one of its turns.
        plan_or_run: a plan, or a run to continue.
        worker: the agent function of subtasks without a tool; None if all have one.
        *args: further arguments of the worker.
        concurrency: how many subtasks run at once; fewer if the agent has room for fewer subagents
            (`RuntimeLimits.subagents`).
        policy: when the plan is revised.
        planner: revises the plan; without one it is never revised.
        recovery: decides first what to do about a failed subtask, such as a `RecoveryPolicy`;
            without it no subtask is tried twice.
        patience: seconds of silence of a subtask's agent and its subagents after which it is
            interrupted and the subtask fails. They count from its first chunk on, but not while a
            person is asked. None for no limit.
        on_end: called with the run and the id of a subtask that has ended, before others that wait
            for it start; what it raises ends the execution. If it does not return, it is called
            again when the run goes on.
        tools: the tools that subtasks may name: functions, tools, or a registry.
        permissions: the rules for their calls, which also apply to subagents. By default the
            functions among the tools may run, since the program passed them; other calls are asked
            about.
        undo: undoes what completed subtasks have done, if the plan ends with failures; see
            `PlanRun.undo`.

    Raises:
        PlanError: a subtask names an unknown tool, or needs a worker that is missing; or the plan
            is too long for a record.
        ConfigurationError: `concurrency` is not a whole number of at least 1, or `patience` is
            not above 0.
        TurnError: the agent has no room for another subagent.
        BudgetExceededError: a budget of the agent is spent; what it has stopped is pending.
        SessionError: the session can't be written; nothing unrecorded has started.
        GreenroomError: the planner failed; its `PlanError` only ends the revisions.

    Example:
        ```python
        plan = Plan("a trip", [
            Subtask("flight", "Book a flight", tool="book_flight", arguments={"to": "Oslo"}),
            Subtask("hotel", "Find a hotel for the night of {flight.day}", after=["flight"]),
        ])
        run = await execute_plan(agent, plan, worker, tools=[book_flight])
        print(run.results, run.errors)
        ```
    """
    if not is_count(concurrency):
        raise ConfigurationError(f"concurrency is {concurrency!r}", hint="1 runs them one by one")
    if patience is not None and not is_above_zero(patience):
        raise ConfigurationError(f"patience is {patience!r}", hint="give a number above 0")
    box, room = Toolbox.of(tools), max(1, agent.subagent_room)
    rules = box.permissions(box.policy if permissions is None else permissions, agent.context)
    run = plan_or_run if isinstance(plan_or_run, PlanRun) else PlanRun(plan_or_run)
    check = partial(_check, tools=box.registry, has_worker=worker is not None)
    check(run)
    recorder = PlanRecorder(agent, run)
    recorder.has_reviews = on_end is not None

    def spawn(session: AgentSession, name: str) -> AgentHandle:
        assert worker is not None  # `_check` refuses a plan that needs a missing worker
        return agent.spawn(session, worker, *args, report=False, name=name)

    inspect = find_inspection(worker)
    runner = SubtaskRunner(agent, recorder, box.registry, rules, spawn, inspect, patience)
    width = min(concurrency, room)
    execution = _Execution(runner, width, policy, planner, recovery, check, on_end)
    with nullcontext() if permissions is None else pass_permissions(agent, rules):
        run = await execution.run_all()
        is_failed = run.is_over and not run.is_completed
        if undo is None or not is_failed:
            return run
        await recorder.undo_completed(undo)
        return recorder.run


def _check(run: PlanRun, *, tools: ToolRegistry, has_worker: bool) -> None:
    """Check that every remaining subtask can run."""
    for subtask in run.plan.subtasks:
        if run.state(subtask.id).status is SubtaskStatus.COMPLETED:
            continue
        if subtask.tool:
            find_tool(subtask, tools)
        elif not has_worker:
            raise PlanError(f"{subtask.id} has no tool, and no worker was passed")


@dataclass
class _Execution:
    """One execution of a plan: starts subtasks, and handles failures."""

    runner: SubtaskRunner
    concurrency: int
    policy: ReplanPolicy
    planner: Planner | None
    recovery: SubtaskRecovery | None
    check: Callable[[PlanRun], None]
    on_end: Callable[[PlanRun, str], Awaitable[None]] | None
    consecutive: int = 0  # failures since something was completed
    is_stopped: bool = False  # nothing else starts before the plan is revised
    spent: str = ""  # the error of a budget of the agent, with which the execution ends
    tries: Counter[str] = field(default_factory=Counter)  # failed tries in this execution

    @property
    def agent(self) -> AgentInternals:
        return self.runner.agent

    @property
    def recorder(self) -> PlanRecorder:
        return self.runner.recorder

    @property
    def run(self) -> PlanRun:
        return self.recorder.run

    async def run_all(self) -> PlanRun:
        """Run what can run, revise the plan after a failure, and repeat until nothing is left."""
        await self.agent.session.save(flush=False)
        for id_ in self.run.ids(SubtaskStatus.COMPLETED, SubtaskStatus.FAILED):
            await self._review_end(id_)
        while True:
            self.agent.set_state(AgentState.processing("executing"))
            await self._run_ready()
            if self.spent:
                raise BudgetExceededError(self.spent)
            failure = self._find_failure()
            if failure is None or not await self._revise(failure):
                self.agent.set_state(AgentState.processing())
                return self.run

    async def _run_ready(self) -> None:
        """Run subtasks until none is running or may start, in the plan's order."""
        plan, done = self.run.plan, {*self.run.ids(SubtaskStatus.COMPLETED)}
        places = {id_: place for place, id_ in enumerate(plan.ids)}
        ready = [(places[id_], id_) for id_ in self.run.ready()]

        async def work(id_: str) -> None:
            await self._run_subtask(id_)
            if self.run.state(id_).status is SubtaskStatus.COMPLETED:
                done.add(id_)
                for each in plan.dependents(id_):
                    is_pending = self.run.state(each).status is SubtaskStatus.PENDING
                    if is_pending and done.issuperset(plan[each].after):
                        heapq.heappush(ready, (places[each], each))

        await run_each(
            lambda: heapq.heappop(ready)[1] if ready and not self.is_stopped else None,
            work,
            self.concurrency,
        )

    async def _run_subtask(self, id_: str) -> None:
        """Run a subtask with all its retries."""
        pause = await self._run_once(id_, is_again=False)
        while pause is not None:
            await trio.sleep(pause)
            pause = await self._run_once(id_, is_again=True)
        if self.run.state(id_).status is not SubtaskStatus.PENDING:
            await self._review_end(id_)

    async def _review_end(self, id_: str) -> None:
        """Have the end of a subtask reviewed, unless it was."""
        if self.on_end is not None and self.run.state(id_).awaits_review:
            await self.on_end(self.run, id_)
            self.recorder.write(SubtaskReview(id_))
            await self.agent.session.save(flush=False)

    async def _run_once(self, id_: str, *, is_again: bool) -> float | None:
        """Run a subtask once, record how it ended; return the seconds until another try, if any."""
        end = await self.runner.run(self.run.plan[id_], is_again=is_again)
        pause, doubt = None, self.policy.find_doubt(end.result)
        if doubt:
            end = SubtaskMove(id_, SubtaskStatus.FAILED, error=doubt, reason=FailureReason.UNSURE)
        if end.status is SubtaskStatus.FAILED:
            pause = await self._handle_failure(end)
        else:
            self.recorder.write(end)
        if self.run.state(id_).status is SubtaskStatus.COMPLETED:
            self.consecutive = 0
        await self.agent.session.save(flush=False)
        return pause

    async def _handle_failure(self, end: SubtaskMove) -> float | None:
        """Decide about a failure and record both; return the seconds until another try, if any.

        A person may be asked, which can take hours. If that is interrupted, the subtask is pending
        with its failure, about which the next execution decides.
        """
        id_, is_refused = end.id, end.reason is FailureReason.CUT_OFF
        self.consecutive += 1
        self.tries[id_] += 1
        session_id, run = self.run.state(id_).session_id, self.run.apply(end)
        failure = replace(self._make_failure(run, id_), session_id=session_id)
        try:
            decided = _Decided() if is_refused else await self._decide(run, failure)
        except BaseException:
            left = {"status": SubtaskStatus.PENDING, "is_undecided": True}
            self.recorder.write(msgspec.structs.replace(end, **left, session_id=session_id))
            raise
        if decided.result is not UNSET:
            self.runner.record_result(failure.subtask, decided.result, session_id)
            return None
        if end.error_class is ErrorClass.SPENT and self._is_put_off(decided, failure.error):
            pending, error = SubtaskStatus.PENDING, "" if self.spent else failure.error
            move = SubtaskMove(id_, pending, error=error, session_id=end.session_id, call=end.call)
            self.recorder.write(move)
            return None
        is_given_up = decided.decision == "give_up"
        self.recorder.write(msgspec.structs.replace(end, is_given_up=is_given_up))
        return None if is_refused or is_given_up else self._apply_decision(failure, decided)

    def _is_put_off(self, decided: "_Decided", error: str) -> bool:
        """Whether a subtask without a budget stays pending, since no other plan can help now."""
        if not self.agent.has_budget:
            self.is_stopped, self.spent = True, error
        return bool(self.spent) or not self._may_revise or decided.decision == "give_up"

    def _apply_decision(self, failure: Failure, decided: "_Decided") -> float | None:
        """Apply a decision; return the seconds until another try, if any."""
        id_, (decision, context, _) = failure.subtask.id, decided
        pause = None
        if decision in ("retry", "go_on"):
            pause = context.seconds if context else self._plan_retry(failure)
        if pause is not None:
            if context:  # a subtask may have completed in the meantime
                self.consecutive = max(0, self.consecutive - 1)
            pending = SubtaskMove(
                id_, SubtaskStatus.PENDING, failures=failure.failures - 1 if context else None
            )
            if decision == "go_on":  # with the error, its last reply is not taken for a result
                pending = msgspec.structs.replace(
                    pending, error=failure.error, session_id=failure.session_id
                )
            self.recorder.write(pending)
            return pause
        if decision == "replan" or self.policy.is_due(failure, self.consecutive):
            self.is_stopped |= self._may_revise
        return None

    def _plan_retry(self, failure: Failure) -> float | None:
        """Return the seconds until another try by the policy's `Retry`, if it allows one."""
        retry = msgspec.structs.replace(self.policy.retry, retryable=lambda error: True)
        attempts = Attempts(retry, nests=False)  # `recovery` has decided that
        attempts.number = failure.failures  # those before a kill count as well
        return attempts.plan(PlanError(failure.error))

    async def _decide(self, run: PlanRun, failure: Failure) -> "_Decided":
        """Ask the recovery, if any, about a failure, and a person if it says so."""
        if self.recovery is None:
            return _Decided()
        found = await self.recovery.recover(run, failure)
        context = found if isinstance(found, ErrorContext) else None
        decision = found.decision if isinstance(found, ErrorContext) else found
        if context:
            self.agent.send_nowait(context.chunk())
        if decision not in failure.possible:
            return _Decided("give_up")
        if decision != "ask_person":
            return _Decided(decision, context)
        settled = await self.runner.ask(
            failure.subtask,
            " again",
            f"It has failed, and may have had its effect: {failure.error}",
            "it has failed, and may not be run twice without your consent",
        )
        if settled.refusal is not None:
            return await self._decide(run, replace(failure, possible=failure.possible - _TRIES))
        return _Decided("retry", context, settled.result)

    def _make_failure(self, run: PlanRun, id_: str) -> Failure:
        state = run.state(id_)
        return Failure(
            subtask=run.plan[id_],
            error=state.error,
            reason=state.reason or FailureReason.WORKER,
            failures=state.failures,
            tools=self.runner.tools,
            error_class=state.error_class,
            attempt=max(1, self.tries[id_]),
            possible=_POSSIBLE if self.planner is None else _POSSIBLE | {RecoveryDecision.REPLAN},
        )

    def _find_failure(self) -> Failure | None:
        """Return the failure to revise the plan for: the first in the plan's order."""
        for id_ in self.run.ids(SubtaskStatus.FAILED):
            state = self.run.state(id_)
            if state.reason is not FailureReason.CUT_OFF and not state.is_given_up:
                return self._make_failure(self.run, id_)
        return None

    @property
    def _may_revise(self) -> bool:
        is_left = self.run.revisions < self.policy.revisions
        return self.planner is not None and is_left and not self.run.error

    async def _revise(self, failure: Failure) -> bool:
        """Have the plan revised; return whether there is a new plan."""
        if self.planner is None or self.run.error:
            return False
        self.agent.set_state(AgentState.processing("replanning"))
        try:
            revised = self.run.revise(await self._next_plan(failure, self.planner))
            self.check(revised)
            self.recorder.write(PlanRevision(revised.plan))
        except PlanError as error:
            self.recorder.write(PlanEnd(str(error)))
        self.is_stopped, self.consecutive = False, 0
        await self.agent.session.save(flush=False)
        return not self.run.error

    async def _next_plan(self, failure: Failure, planner: Planner) -> Plan:
        if self._may_revise:
            return await planner.revise(self.run, failure)
        again = f"{failure.subtask.id} has failed: {failure.error}"
        raise PlanError(
            f"the plan was revised {self.run.revisions} times, and {again}",
            hint="try a smaller goal",
        )


class _Decided(NamedTuple):
    """What is done about a failure, and the result if a person says that it has run after all."""

    decision: str = ""
    context: ErrorContext | None = None
    result: object = UNSET
