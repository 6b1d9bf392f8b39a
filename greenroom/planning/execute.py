"""Carrying out a plan: what starts when, what is written down before and after, what a failure leads to.

The order of things makes a kill harmless. That a subtask starts, and in which session, is durable before it
starts. A tool call is durable in that session before it starts. A result is on record before anything that
waits for it starts. So a run that is read back knows of each subtask whether it has ended, has not begun,
or was cut off; of the last kind `trace` says what it has left behind.
"""

import heapq
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from graphlib import TopologicalSorter
from typing import TypeAlias, TypeVarTuple, Unpack

import msgspec
import trio

from greenroom.agents import Toolbox, calling
from greenroom.core import (
    DECIDED_BY_ITSELF,
    AgentState,
    Answer,
    ConfigurationError,
    Custom,
    PlanError,
    RuleDecision,
    TurnStatus,
    leaves,
    serde,
)
from greenroom.permissions import PermissionManager
from greenroom.planning.error_context import Decision, ErrorClass, ErrorContext, classify
from greenroom.planning.plan import Plan, Subtask
from greenroom.planning.plan_run import (
    PLAN_STEP,
    FailureReason,
    PlanBegin,
    PlanEnd,
    PlanRevision,
    PlanRun,
    PlanStep,
    SubtaskMove,
    SubtaskStatus,
)
from greenroom.planning.references import fill
from greenroom.planning.revision import Failure, Planner, Recovered, Recovery, ReplanPolicy
from greenroom.planning.silence import unless_silent
from greenroom.planning.subtask_call import SubtaskCall
from greenroom.planning.trace import Trace, find_trace, reopen, trace_call, trace_worker
from greenroom.runtime import AgentHandle, AgentInternals, try_ask
from greenroom.session import AgentSession
from greenroom.tools import ToolRegistry, may_repeat

__all__ = ["execute_plan", "toolbox_of"]

Ts = TypeVarTuple("Ts")

Spawn: TypeAlias = Callable[[AgentSession, str], AgentHandle]
"""Starts the agent of a subtask, in a session and with a name."""

_POLICY = ReplanPolicy()
_TRIES = {Decision.RETRY, Decision.GO_ON, Decision.ASK_PERSON}
_POSSIBLE = frozenset({*_TRIES, Decision.GIVE_UP})
_GO_ON = "Go on where you left off."
_TAKE_OVER = "Take this over: go on where the work has stopped, and do nothing of it twice."


async def execute_plan(
    agent: AgentInternals,
    plan_or_run: Plan | PlanRun,
    worker: Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]] | None,
    *args: *Ts,
    limit: int = 5,
    policy: ReplanPolicy = _POLICY,
    planner: Planner | None = None,
    recovery: Recovery | None = None,
    patience: float | None = None,
    tools: Iterable[object] | ToolRegistry | None = None,
    permissions: PermissionManager | None = None,
) -> PlanRun:
    """Carry out a plan, as many subtasks at once as its graph allows, and return what became of it.

    A subtask with a `tool` is one call of it through `run_tools`: judged, asked about and recorded as any
    other; whether a tool is marked concurrent does not matter, since the plan says what may run side by
    side. Any other subtask is a subagent: it gets the goal as its first input, from the sender "plan" and
    with the subtask's id in its metadata, and the result of that turn is the subtask's, else its text.
    Both are subagents of `agent`, under its budgets, and end with its turn.

    A failure blocks those that wait for it, and nothing else. With a `planner` the plan is revised as the
    `policy` says; what is completed is never done again. A failure is a part of the run that is returned,
    and no exception.

    Each change is a record in the agent's session and a `Custom("plan.step")` chunk, so the state can be
    read at any moment: `PlanRun.load(session)`. Give a run that was loaded, and it goes on: a subtask that
    was cut off is run again where none of its calls had started, and goes on where its agent had only
    asked its model. A call that may have had its effect is made again where its tool says that it may be
    (read-only or idempotent); of any other a person is asked. If that is denied, the subtask has failed;
    if nobody can be asked, it stays pending, with the session it was cut off in.

    Args:
        agent: the agent whose plan it is; call this inside of one of its turns.
        plan_or_run: a plan, or a run to go on with.
        worker: the agent function of subtasks without a tool; None where there are none.
        *args: what else it is given.
        limit: how many subtasks run at once; fewer where the agent has room for fewer subagents
            (`RuntimeLimits.subagents`).
        policy: when the plan is revised.
        planner: who revises it; without one it is not.
        recovery: decides first what comes of a failed subtask, such as a `RecoveryPolicy`; without it no
            subtask is tried twice.
        patience: seconds of silence after which a subtask's agent is interrupted, and the subtask has
            failed: no chunk of it or of an agent below it. They count from its first chunk on, and not
            while a person is asked. None waits for as long as it takes.
        tools: what subtasks may name: functions, tools, or a registry.
        permissions: the rules for their calls, to which agents below are held as well. By default the
            functions among the tools may run, since the program has passed them; others are asked about.

    Raises:
        PlanError: a subtask names a tool that is not among `tools`, or wants a worker and there is none.
        ConfigurationError: `limit` is below 1.
        TurnError: the agent has no room for a single subagent more.
        SessionError: the session can't be written; nothing that was not on record has started.
        GreenroomError: what the planner raises, but for its `PlanError`: that ends the revisions.

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
    if limit < 1:
        raise ConfigurationError(f"limit is {limit}", hint="1 runs one subtask after the other")
    box = toolbox_of(tools)
    held = permissions if permissions is not None else box.policy
    run = plan_or_run if isinstance(plan_or_run, PlanRun) else PlanRun(plan_or_run)
    _check(run.plan, box.registry, has_worker=worker is not None)

    def spawn(session: AgentSession, name: str) -> AgentHandle:
        assert worker is not None  # `_check` has seen to that
        return agent.spawn(session, worker, *args, report=False, name=name)

    execution = _Execution(
        agent,
        run,
        spawn,
        limit=min(limit, max(1, agent.subagent_room)),
        policy=policy,
        planner=planner,
        recovery=recovery,
        patience=patience,
        tools=box.registry,
        permissions=box.permissions(held, agent.context),
    )
    with nullcontext() if permissions is None else calling(agent, execution.permissions):
        await execution.run_all()
    agent.set_state(AgentState.processing())
    return execution.run


def toolbox_of(tools: Iterable[object] | ToolRegistry | None) -> Toolbox:
    """Make a toolbox of what a program passes as tools.

    Raises:
        ToolError: something can't be a tool.
    """
    if not isinstance(tools, ToolRegistry):
        return Toolbox.of(tools or ())
    found = (tools.get(name) for name in tools.list_tools())
    return Toolbox.of(each.tool for each in found if each is not None)


def _check(plan: Plan, tools: ToolRegistry, *, has_worker: bool) -> None:
    """Refuse a plan of which some part could never run."""
    for subtask in plan.subtasks:
        if subtask.tool and tools.get(subtask.tool) is None:
            known = ", ".join(tools.list_tools()) or "none"
            raise PlanError(
                f"{subtask.id}: there is no tool {subtask.tool!r}", hint=f"tools: {known}"
            )
        if not subtask.tool and not has_worker:
            raise PlanError(f"{subtask.id} has no tool, and there is no worker to do it")


class _Execution:
    """One execution of a plan: the run as it stands, and what is to start next."""

    def __init__(
        self,
        agent: AgentInternals,
        run: PlanRun,
        spawn: Spawn,
        *,
        limit: int,
        policy: ReplanPolicy,
        planner: Planner | None,
        recovery: Recovery | None,
        patience: float | None,
        tools: ToolRegistry,
        permissions: PermissionManager,
    ) -> None:
        self.run = run
        self.permissions = permissions
        self._agent = agent
        self._spawn = spawn
        self._limit = limit
        self._policy = policy
        self._planner = planner
        self._recovery = recovery
        self._patience = patience
        self._tools = tools
        self._running = 0
        self._in_a_row = 0  # failures since something was completed
        self._is_stopped = False  # the plan is to be revised, so nothing else starts
        self._given_up: set[str] = set()
        self._tries = Counter[str]()  # that have failed in this execution
        self._error_classes: dict[str, ErrorClass] = {}  # of the last failures

    async def run_all(self) -> None:
        """Run what can run, revise the plan where that failed, and so on until neither leads further."""
        self._begin()
        await self._agent.session.save(flush=False)
        while True:
            self._agent.set_state(AgentState.processing("executing"))
            await self._work()
            failure = self._find_failure()
            if failure is None or not await self._revise(failure):
                return

    def _begin(self) -> None:
        """Write the run down; one that the session holds already is told to the subscribers alone."""
        if _is_stored(self.run, self._agent.session):
            self._tell(_goes_on(self.run))
        else:
            steps = list(self.run.steps())
            self.run = PlanRun(self.run.plan)
            for step in steps:
                self._write(step)
        for id_ in self.run.ids(SubtaskStatus.EXECUTING):  # the process ended while it ran
            session_id = self.run.state(id_).session_id
            self._write(SubtaskMove(id_, SubtaskStatus.PENDING, session_id=session_id))

    def _write(self, step: PlanStep) -> None:
        """Make a change, in memory, in the session and for the subscribers; the next save stores it."""
        self.run = self.run.apply(step)
        if isinstance(step, SubtaskMove) and step.status is SubtaskStatus.COMPLETED:
            kept = self.run.state(step.id).result  # a long result is shortened
            step = SubtaskMove(step.id, step.status, kept)
        self._agent.session.add_record(PLAN_STEP, self._tell(step))

    def _tell(self, step: PlanStep) -> dict[str, object]:
        """Publish a step; return it as JSON."""
        data = serde.loads_object(msgspec.json.encode(step).decode())
        self._agent.send_nowait(Custom(PLAN_STEP, data, str(step)))
        return data

    # -- what starts when -----------------------------------------------------------------------

    async def _work(self) -> None:
        """Run subtasks until none runs and none may start."""
        frontier = _Frontier(self.run)
        try:
            async with trio.open_nursery() as nursery:
                self._fill(frontier, nursery)
        except BaseExceptionGroup as group:
            errors = [each for each in leaves(group) if not isinstance(each, trio.Cancelled)]
            if len(errors) == 1:
                raise errors[0] from errors[0].__cause__
            raise

    def _fill(self, frontier: "_Frontier", nursery: trio.Nursery) -> None:
        while self._running < self._limit and not self._is_stopped:
            id_ = frontier.take()
            if id_ is None:
                return
            self._running += 1
            nursery.start_soon(self._attend, id_, frontier, nursery, name=f"subtask {id_}")

    async def _attend(self, id_: str, frontier: "_Frontier", nursery: trio.Nursery) -> None:
        """Run a subtask, as often as that is tried, and then what it has made room for."""
        try:
            while await self._try(id_):
                pass
        finally:
            self._running -= 1
        if self.run.state(id_).status is SubtaskStatus.COMPLETED:
            frontier.complete(id_)
        self._fill(frontier, nursery)

    async def _try(self, id_: str) -> bool:
        """Run a subtask once, and write down what came of it; True where it is to be tried again."""
        end = await self._attempt(self.run.plan[id_])
        session_id = self.run.state(id_).session_id
        self._write(end)
        pause = None
        if end.status is SubtaskStatus.FAILED:
            self._in_a_row += 1
            self._tries[id_] += 1
            if end.reason is not FailureReason.CUT_OFF:
                pause = await self._recover(replace(self._failure(id_), session_id=session_id))
        else:
            self._in_a_row = 0
        await self._agent.session.save(flush=False)
        if pause is None:
            return False
        await trio.sleep(pause)
        return True

    async def _recover(self, failure: Failure) -> float | None:
        """Decide what comes of a failure; return the seconds until another try, None without one."""
        subtask, found = failure.subtask, await self._decide(failure)
        is_counted = not isinstance(found, ErrorContext)
        decision = found.decision if isinstance(found, ErrorContext) else found
        if decision in ("retry", "go_on") and (
            not is_counted or failure.failures < self._policy.same_subtask
        ):
            session_id = failure.session_id if decision == "go_on" else ""
            failures = None if is_counted else failure.failures - 1
            if not is_counted:  # something may have been completed while a person was asked
                self._in_a_row = max(0, self._in_a_row - 1)
            pending = SubtaskMove(
                subtask.id,
                SubtaskStatus.PENDING,
                error=failure.error if session_id else "",  # so what it has said is no result
                session_id=session_id,
                failures=failures,
            )
            self._write(pending)
            return found.seconds if isinstance(found, ErrorContext) else 0.0
        if decision == "give_up":
            self._given_up.add(subtask.id)
            return None
        if decision == "replan" or self._policy.is_due(subtask, self._in_a_row):
            self._is_stopped |= self._may_revise
        return None

    async def _decide(self, failure: Failure) -> Recovered | None:
        """Ask what comes of a failure, and a person where that is the answer; None if nobody says."""
        if self._recovery is None:
            return None
        found = await self._recovery.recover(self.run, failure)
        if isinstance(found, ErrorContext):
            self._agent.send_nowait(found.chunk())
        decision = found.decision if isinstance(found, ErrorContext) else found
        if decision != "ask_person":
            return found
        if Decision.ASK_PERSON not in failure.possible:
            return "give_up"
        answer = await self._ask_again(failure)
        if answer.decision is not RuleDecision.ALLOW:
            return await self._decide(replace(failure, possible=failure.possible - _TRIES))
        if isinstance(found, ErrorContext):
            return msgspec.structs.replace(found, decision=Decision.RETRY)
        return "retry"

    async def _ask_again(self, failure: Failure) -> Answer:
        """Ask a person whether a subtask that has failed is to be run again."""
        subtask = failure.subtask
        doing = f"{subtask.goal}\nIt has failed, and may have had its effect: {failure.error}"
        return await self._agent.request_permission(
            subtask.tool or "plan",
            f"Run the subtask {subtask.id} again",
            details=doing.strip(),
            input=subtask.arguments,
            reason="it has failed, and nothing says that it may be run twice",
        )

    # -- one subtask ----------------------------------------------------------------------------

    async def _attempt(self, subtask: Subtask) -> SubtaskMove:
        """Run a subtask, or find out what became of it; return the move that it ends with."""
        trace, before = Trace("nothing"), self.run.state(subtask.id)
        if cut_off_in := before.session_id:
            trace = await self._look_back(cut_off_in, subtask)
            if trace.kind == "result" and not before.error:
                self._write(SubtaskMove(subtask.id, SubtaskStatus.EXECUTING, session_id=cut_off_in))
                return _known(trace, subtask)
        try:
            filled = fill(subtask, self.run, self._types(subtask.tool))
        except PlanError as error:
            self._error_classes[subtask.id] = ErrorClass.MISSING
            return _failed(subtask, str(error), FailureReason.INPUT)
        if trace.kind == "unsure":
            refusal = await self._ask(filled, trace.doubt, cut_off_in)
            if refusal is not None:
                return refusal
        session = await self._open_session(trace)
        start = SubtaskMove(subtask.id, SubtaskStatus.EXECUTING, session_id=session.session_id)
        self._write(start)
        try:
            await self._agent.session.save()
            return await self._run(filled, session, _words(filled, session, before.error))
        except BaseException:
            self._cut_off(subtask, session)
            raise

    async def _open_session(self, trace: Trace) -> AgentSession:
        """Make the session of a subtask, which begins with what was said before it was cut off."""
        if trace.session is None:
            return AgentSession.new("subtask")
        return await reopen(trace.session, self._agent.session)

    async def _look_back(self, session_id: str, subtask: Subtask) -> Trace:
        session = self._agent.session
        look = trace_call if subtask.tool else trace_worker
        trace = await find_trace(session_id, [session.session_id], session.store, look)
        tool = self._tools.get(subtask.tool)
        if trace.kind == "unsure" and tool is not None and may_repeat(tool):
            return Trace("nothing")
        return trace

    def _types(self, name: str) -> dict[str, object]:
        """Return what types the arguments of a tool have, as far as its schema says."""
        tool = self._tools.get(name)
        properties = tool.parameters.get("properties") if tool is not None else None
        if not isinstance(properties, dict):
            return {}
        return {key: each.get("type") for key, each in properties.items() if isinstance(each, dict)}

    async def _ask(self, subtask: Subtask, doubt: str, session_id: str) -> SubtaskMove | None:
        """Ask a person whether a subtask that may have had its effect is to be run again."""
        doing = f"{subtask.goal}\nIt was cut off, and {doubt}: it may have had its effect already."
        answer = await self._agent.request_permission(
            subtask.tool or "plan",
            f"Run the subtask {subtask.id} again",
            details=doing.strip(),
            input=subtask.arguments,
            reason="it was cut off in the middle",
        )
        if answer.decision is RuleDecision.ALLOW:
            return None
        error = f"it was cut off, and {doubt}; {answer.message or 'it is not to be run again'}"
        if answer.by in DECIDED_BY_ITSELF:  # somebody else may be asked another time
            return SubtaskMove(
                subtask.id, SubtaskStatus.PENDING, error=error, session_id=session_id
            )
        return _failed(subtask, error, FailureReason.CUT_OFF)

    async def _run(self, subtask: Subtask, session: AgentSession, text: str) -> SubtaskMove:
        """Run a subtask in its session, and end its agent."""
        call = SubtaskCall(subtask, self._tools, self.permissions) if subtask.tool else None
        if call is not None:
            handle = self._agent.spawn(session, call, report=False, name=subtask.id)
        else:
            handle = self._spawn(session, subtask.id)
        try:
            end = await self._result(handle, text, subtask)
            await handle.shutdown()
            if call is not None and self._error_classes.get(subtask.id) is ErrorClass.FAILED:
                self._error_classes[subtask.id] = call.error_class  # its turn knows no more
        finally:
            with trio.CancelScope(shield=True):
                await handle.shutdown(grace=0)
        return end

    async def _result(self, handle: AgentHandle, text: str, subtask: Subtask) -> SubtaskMove:
        metadata = {"subtask": subtask.id}
        ask = partial(try_ask, handle, text, sender="plan", metadata=metadata)
        result = await unless_silent(handle, self._patience, ask)
        if result is None:
            self._error_classes[subtask.id] = ErrorClass.TIMEOUT
            return _failed(subtask, f"it was silent for {self._patience:g} seconds")
        if result.status is not TurnStatus.COMPLETED:
            is_stopped = result.status is TurnStatus.INTERRUPTED
            error_class = ErrorClass.DENIED if is_stopped else classify(result.kind)
            self._error_classes[subtask.id] = error_class
            return _failed(subtask, result.error or f"its turn was {result.status}")
        value = result.text if result.value is msgspec.UNSET else result.value
        return SubtaskMove(subtask.id, SubtaskStatus.COMPLETED, value)

    def _cut_off(self, subtask: Subtask, session: AgentSession) -> None:
        """Write down that a subtask was cut off; a call that has ended all the same keeps its result."""
        trace = trace_call(session) if subtask.tool else None
        if trace is not None and trace.kind == "result":
            self._write(_known(trace, subtask))
        else:
            left = session.session_id if session.history else ""
            self._write(SubtaskMove(subtask.id, SubtaskStatus.PENDING, session_id=left))

    # -- what a failure leads to ----------------------------------------------------------------

    def _failure(self, id_: str) -> Failure:
        state = self.run.state(id_)
        return Failure(
            subtask=self.run.plan[id_],
            error=state.error,
            reason=state.reason or FailureReason.WORKER,
            failures=state.failures,
            tools=self._tools,
            error_class=self._error_classes.get(id_, ErrorClass.FAILED),
            attempt=max(1, self._tries[id_]),
            possible=_POSSIBLE if self._planner is None else _POSSIBLE | {Decision.REPLAN},
        )

    def _find_failure(self) -> Failure | None:
        """Return the failure to revise the plan for: the first in its order, whichever came first."""
        for id_ in self.run.ids(SubtaskStatus.FAILED):
            if (
                self.run.state(id_).reason is not FailureReason.CUT_OFF
                and id_ not in self._given_up
            ):
                return self._failure(id_)
        return None

    @property
    def _may_revise(self) -> bool:
        is_left = self.run.revisions < self._policy.revisions
        return self._planner is not None and is_left and not self.run.error

    async def _revise(self, failure: Failure) -> bool:
        """Have the plan revised; False where there is no other plan."""
        if self._planner is None or self.run.error:
            return False
        self._is_stopped, self._in_a_row = False, 0
        self._agent.set_state(AgentState.processing("replanning"))
        try:
            plan = await self._next_plan(failure, self._planner)
            self._write(PlanRevision(self.run.revise(plan).plan))
        except PlanError as error:
            self._write(PlanEnd(str(error)))
        await self._agent.session.save(flush=False)
        return not self.run.error

    async def _next_plan(self, failure: Failure, planner: Planner) -> Plan:
        if self._may_revise:
            return await planner.revise(self.run, failure)
        again = f"{failure.subtask.id} has failed: {failure.error}"
        raise PlanError(
            f"the plan was revised {self.run.revisions} times, and {again}",
            hint="a smaller goal may be within reach",
        )


def _words(subtask: Subtask, session: AgentSession, error: str) -> str:
    """Return what the agent of a subtask is told, in a session that may hold the work of another one."""
    if not session.history:
        return subtask.goal or subtask.tool
    return f"{_TAKE_OVER} It had stopped with: {error}" if error else _GO_ON


def _failed(subtask: Subtask, error: str, reason: FailureReason | None = None) -> SubtaskMove:
    reason = reason or (FailureReason.TOOL if subtask.tool else FailureReason.WORKER)
    return SubtaskMove(subtask.id, SubtaskStatus.FAILED, error=error, reason=reason)


def _known(trace: Trace, subtask: Subtask) -> SubtaskMove:
    if trace.error:
        return _failed(subtask, trace.error)
    return SubtaskMove(subtask.id, SubtaskStatus.COMPLETED, trace.result)


class _Frontier:
    """What can start next, in the plan's order; each subtask comes once."""

    def __init__(self, run: PlanRun) -> None:
        self._sorter = TopologicalSorter({each.id: each.after for each in run.plan.subtasks})
        self._sorter.prepare()
        self._place = {each.id: place for place, each in enumerate(run.plan.subtasks)}
        self._status = {id_: state.status for id_, state in run.states.items()}
        self._ready: list[tuple[int, str]] = []
        self._collect()

    def take(self) -> str | None:
        return heapq.heappop(self._ready)[1] if self._ready else None

    def complete(self, id_: str) -> None:
        self._sorter.done(id_)
        self._collect()

    def _collect(self) -> None:
        while found := self._sorter.get_ready():
            for id_ in found:
                if self._status[id_] is SubtaskStatus.COMPLETED:
                    self._sorter.done(id_)
                elif self._status[id_] is SubtaskStatus.PENDING:
                    heapq.heappush(self._ready, (self._place[id_], id_))


def _goes_on(run: PlanRun) -> PlanBegin:
    """Say where a run stands that goes on; its results may be too long for a chunk."""
    states = {id_: msgspec.structs.replace(state, result=None) for id_, state in run.states.items()}
    return PlanBegin(run.plan, run.revisions, states, run.error)


def _is_stored(run: PlanRun, session: AgentSession) -> bool:
    if not session.records(PLAN_STEP):
        return False
    return PlanRun.load(session) == run
