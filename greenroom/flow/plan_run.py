"""`PlanRun`: a plan and the state of its subtasks, as an immutable value.

A change is a `PlanStep`: it makes a new `PlanRun`, and is a record of the session and a chunk. The
records are replayed to load a run.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias, cast

import msgspec
from msgspec.structs import asdict, replace

from greenroom.core import Custom, utc_now
from greenroom.core._internal import (
    EMPTY,
    JSON,
    MAX_ERROR_TEXT,
    Wire,
    clip,
    freeze,
    freeze_fields,
    serde,
)
from greenroom.flow.error_context import ErrorClass
from greenroom.flow.errors import PlanError
from greenroom.flow.plan import Plan, Subtask
from greenroom.flow.unit import Start
from greenroom.runtime import AgentInternals
from greenroom.session import AgentSession
from greenroom.session._internal import LONGEST_RECORD

PLAN_STEP = "plan.step"
"""The kind of the records, and of the `Custom` chunks."""

UNKNOWN = "it has run, but its result is not known"
"""The error of a completed subtask of which a person says just that it has run."""

_LONGEST_RESULT = 64 * 1024
_CLIPPED_RESULT = 16_000

Undo: TypeAlias = Callable[[Subtask, object], Awaitable[object]]
"""Undoes what a completed subtask has done; gets the subtask and its result."""


class SubtaskStatus(StrEnum):
    """The status of a subtask; it is blocked if it waits, directly or not, for a failed one."""

    PENDING = "pending"
    EXECUTING = "executing"
    COMPLETED = "completed"
    FAILED = "failed"
    BLOCKED = "blocked"


class FailureReason(StrEnum):
    """Why a subtask failed.

    Attributes:
        TOOL: its call returned an error, or was denied.
        WORKER: its agent did not complete its turn.
        INPUT: it refers to a result that does not exist.
        CUT_OFF: it was interrupted, and a person decided not to run it again.
        UNSURE: its agent was less sure of the result than `ReplanPolicy.confidence`.
    """

    TOOL = "tool"
    WORKER = "worker"
    INPUT = "input"
    CUT_OFF = "cut_off"
    UNSURE = "unsure"


_P, _E, _C, _F, _B = SubtaskStatus
TRANSITIONS = MappingProxyType(
    {
        _P: frozenset({_E, _F, _B}),
        _E: frozenset({_C, _F, _P}),  # pending again: it was cut off, and may have had an effect
        _C: frozenset[SubtaskStatus](),
        _F: frozenset({_P}),  # it is tried again
        _B: frozenset({_P}),
    }
)
"""The legal transitions of a subtask; a result is final."""

_COLORS: Mapping[str, str] = {
    _E: "fill:#ffe9a8,stroke:#b98900",
    _C: "fill:#cdeccd,stroke:#3c8c3c",
    _F: "fill:#f6c6c6,stroke:#b03030",
    _B: "fill:#e4e4e4,stroke:#909090,stroke-dasharray:4",
}
"""The Mermaid style of each status but pending."""


class SubtaskState(Wire, frozen=True):
    """The state of one subtask.

    Attributes:
        status: its status.
        result: its result once it is completed, a JSON value.
        error: why it failed, is blocked, or is uncertain; `UNKNOWN` if its result is not known.
        reason: the kind of failure; if it is pending, of one that nobody has decided about yet.
        error_class: the kind of error of such a failure.
        is_given_up: whether it has failed, and the plan is not to be revised for that.
        failures: how often it has failed.
        session_id: the session in which it runs or was interrupted; empty once it has ended.
        is_undone: whether `PlanRun.undo` has undone what it did.
        awaits_review: whether it has ended, and `on_end` of `execute_plan` is still to return.
    """

    status: SubtaskStatus = SubtaskStatus.PENDING
    result: object = None
    error: str = ""
    reason: FailureReason | None = None
    error_class: ErrorClass = ErrorClass.FAILED
    is_given_up: bool = False
    failures: int = 0
    session_id: str = ""
    is_undone: bool = False
    awaits_review: bool = False

    def __post_init__(self) -> None:
        freeze_fields(self, "result")


class PlanBegin(Wire, frozen=True, tag="begin"):
    """A run begins with this plan, or continues from these states, which then lack results."""

    plan: Plan
    revisions: int = 0
    states: dict[str, SubtaskState] = cast("dict[str, SubtaskState]", EMPTY)
    error: str = ""
    at: datetime | None = None

    def __post_init__(self) -> None:
        freeze_fields(self, "states")

    def __str__(self) -> str:
        count = len(self.plan.subtasks)
        subtasks = f"{count} subtask{'' if count == 1 else 's'}"
        if not self.states:
            return f"plan: {subtasks}"
        done = sum(state.status is SubtaskStatus.COMPLETED for state in self.states.values())
        return f"plan: goes on, {done} of {subtasks} done"


class PlanRevision(Wire, frozen=True, tag="revise"):
    """The plan was revised into this one."""

    plan: Plan
    at: datetime | None = None

    def __str__(self) -> str:
        return f"plan: revised, {len(self.plan.subtasks)} subtasks"


class SubtaskMove(Wire, frozen=True, tag="move"):
    """A subtask's status changed; the fields are those of its `SubtaskState`.

    `call` is a hash of the call that starts, if its tool may not be called twice. A failure has it
    as well unless the tool itself reported the failure, since the call may have had its effect.
    `is_undecided` says of a pending one that it has failed, and nobody has decided about that.
    """

    id: str
    status: SubtaskStatus
    result: object = None
    error: str = ""
    reason: FailureReason | None = None
    session_id: str = ""
    failures: int | None = None
    call: str = ""
    at: datetime | None = None
    error_class: ErrorClass = ErrorClass.FAILED
    is_given_up: bool = False
    is_undecided: bool = False
    awaits_review: bool = False

    def __post_init__(self) -> None:
        freeze_fields(self, "result")

    def __str__(self) -> str:
        why = f": {' '.join(self.error.split())}" if self.error else ""
        return clip(f"plan: {self.id} {self.status}{why}", 200)


class PlanEnd(Wire, frozen=True, tag="end"):
    """The plan is no longer revised, for this reason."""

    error: str
    at: datetime | None = None

    def __str__(self) -> str:
        return clip(f"plan: no longer revised: {self.error}", 200)


class SubtaskUndo(Wire, frozen=True, tag="undo"):
    """What a completed subtask had done was undone."""

    id: str
    at: datetime | None = None

    def __str__(self) -> str:
        return f"plan: {self.id} undone"


class SubtaskReview(Wire, frozen=True, tag="review"):
    """The end of a subtask was reviewed, or needed no review, so others may get its result."""

    id: str
    at: datetime | None = None

    def __str__(self) -> str:
        return ""  # who was asked knows, and often nobody was


PlanStep: TypeAlias = PlanBegin | PlanRevision | SubtaskMove | SubtaskReview | SubtaskUndo | PlanEnd
"""One change of a run, and when it was recorded."""


class PlanRun(Wire, frozen=True):  # noqa: PLW1641 (its states are a dict)
    """A plan and the state of its subtasks; methods that change it return a new run.

    Runs with the same states are equal, whenever they began and in whatever order things happened.
    A change that is not legal raises a `PlanError`.

    Attributes:
        plan: the plan after its revisions.
        states: the state of each subtask, in the plan's order.
        revisions: how often the plan was revised.
        error: why the plan is no longer revised; empty if it may be.
        started_at: when it began (UTC, to the second); None before it is executed.

    Example:
        >>> from greenroom.flow.plan import Plan, Subtask
        >>> hotel = Subtask("hotel", "Sleep", after=["flight"])
        >>> plan = Plan("a trip", [Subtask("flight", "Fly"), hotel])
        >>> run = PlanRun(plan).start("flight", "s-1").complete("flight", {"price": 120})
        >>> run.results, run.ready()
        ({'flight': {'price': 120}}, ('hotel',))
        >>> run.start("hotel", "s-2").fail("hotel", "fully booked").is_over
        True
    """

    plan: Plan
    states: dict[str, SubtaskState] = cast("dict[str, SubtaskState]", EMPTY)
    revisions: int = 0
    error: str = ""
    started_at: datetime | None = None

    def __eq__(self, other: object) -> bool:
        """Whether the other has the same plan and states, whenever it began."""
        if not isinstance(other, PlanRun):
            return NotImplemented
        facts = ((each.plan, each.states, each.revisions, each.error) for each in (self, other))
        return next(facts) == next(facts)

    def __post_init__(self) -> None:
        """Add missing states, and put them in the plan's order."""
        if tuple(self.states) != self.plan.ids:  # hardly ever: a move costs no loop
            nothing = SubtaskState()
            states = {each.id: self.states.get(each.id, nothing) for each in self.plan.subtasks}
            msgspec.structs.force_setattr(self, "states", states)
        freeze_fields(self, "states")

    @classmethod
    def load(cls, session: AgentSession) -> "PlanRun":
        """Return the current state of the last run in a session, loaded or live.

        Raises:
            PlanError: the session has no run, or it can't be read.
        """
        run: PlanRun | None = None
        try:
            for record in last_records(session):
                run = cls.follow(run, record)
        except PlanError as error:
            raise PlanError(f"a plan of {session.session_id}: {error.message}") from None
        if run is None:
            hint = "execute_plan writes it into the session of the agent that it is given"
            raise PlanError(f"{session.session_id} holds no plan", hint=hint)
        return run

    @classmethod
    def follow(cls, run: "PlanRun | None", step: object) -> "PlanRun | None":
        """Return the run after the step in a `Custom("plan.step")` chunk; None before it begins.

        Raises:
            PlanError: the step can't be read, or does not fit because other steps were missed.

        Example:
            >>> plan = {"goal": "", "subtasks": [{"id": "a", "goal": "Look"}]}
            >>> PlanRun.follow(None, {"type": "begin", "plan": plan}).ready()
            ('a',)
        """
        try:
            read = serde.convert(step, PlanStep)
        except msgspec.ValidationError as error:
            raise PlanError(f"a step of the plan can't be read: {error}") from None
        if isinstance(read, PlanBegin):
            return cls(read.plan, read.states, read.revisions, read.error, read.at)
        return None if run is None else run.apply(read)

    def state(self, id: str) -> SubtaskState:  # noqa: A002 (the field's word for it)
        """Return the state of a subtask; a `PlanError` if there is none."""
        return self.states[self.plan[id].id]

    def ids(self, *statuses: SubtaskStatus) -> tuple[str, ...]:
        """Return the ids of the subtasks with one of these statuses, in the plan's order."""
        return tuple(id_ for id_, state in self.states.items() if state.status in statuses)

    @property
    def results(self) -> dict[str, object]:
        """The results of the completed subtasks, by id, in the plan's order."""
        return freeze({id_: self.states[id_].result for id_ in self.ids(SubtaskStatus.COMPLETED)})

    @property
    def errors(self) -> dict[str, str]:
        """Why subtasks failed or are blocked, by id, in the plan's order."""
        not_done = self.ids(SubtaskStatus.FAILED, SubtaskStatus.BLOCKED)
        return {id_: self.states[id_].error for id_ in not_done}

    def ready(self) -> tuple[str, ...]:
        """Return the ids of the subtasks that could start now, in the plan's order."""
        ready = self.plan.ready(self.ids(SubtaskStatus.COMPLETED))
        return tuple(id_ for id_ in ready if self.states[id_].status is SubtaskStatus.PENDING)

    @property
    def is_completed(self) -> bool:
        """Whether all subtasks are completed."""
        return len(self.ids(SubtaskStatus.COMPLETED)) == len(self.states)

    @property
    def is_over(self) -> bool:
        """Whether no subtask is running or could start."""
        return not self.ids(SubtaskStatus.PENDING, SubtaskStatus.EXECUTING)

    def to_mermaid(self) -> str:
        """Draw the plan as a Mermaid flowchart, coloured by status."""
        kinds = {id_: str(state.status) for id_, state in self.states.items()}
        return self.plan.to_mermaid(kinds, _COLORS)

    async def undo(self, agent: AgentInternals, undo: Undo) -> "PlanRun":
        """Undo what the completed subtasks have done, the last first; return the run.

        Each is on record once it is undone (`SubtaskState.is_undone`), and not undone again. After
        a kill in between, the function is called once more for the same subtask, so it should do
        nothing if there is nothing left to undo.

        Args:
            agent: the agent whose plan it is; call this inside of one of its turns. What is still
                running has to be stopped first.
            undo: an async function of a subtask and its result. What it raises ends this, and the
                next call goes on there.

        Raises:
            SessionError: the session can't be written.

        Example:
            ```python
            async def cancel(subtask: Subtask, result: object) -> None:
                if subtask.tool == "book_flight":
                    await cancel_flight(result)

            await PlanRun.load(agent.session).undo(agent, cancel)
            ```
        """
        recorder = PlanRecorder(agent, self)
        await recorder.undo_completed(undo)
        return recorder.run

    def start(self, id: str, session_id: str) -> "PlanRun":  # noqa: A002 (as above)
        """Start a subtask, whose dependencies are completed, in this session."""
        return self.apply(SubtaskMove(id, SubtaskStatus.EXECUTING, session_id=session_id))

    def complete(self, id: str, result: object = None) -> "PlanRun":  # noqa: A002 (as above)
        """Complete a subtask; a result of more than 64 KB becomes a text with its middle cut out.

        Raises:
            PlanError: the subtask is not running.
            InvalidJSONError: the result is not a JSON value.
        """
        return self.apply(SubtaskMove(id, SubtaskStatus.COMPLETED, result=result))

    def fail(
        self,
        id: str,  # noqa: A002 (as above)
        error: str,
        reason: FailureReason = FailureReason.WORKER,
    ) -> "PlanRun":
        """Mark a subtask as failed, and block those that wait for it."""
        return self.apply(SubtaskMove(id, SubtaskStatus.FAILED, error=error, reason=reason))

    def reset(self, id: str, session_id: str = "", error: str = "") -> "PlanRun":  # noqa: A002
        """Make a subtask pending again, after a failure or an interrupt in this session."""
        move = SubtaskMove(id, SubtaskStatus.PENDING, session_id=session_id, error=error)
        return self.apply(move)

    def revise(self, plan: Plan) -> "PlanRun":
        """Continue with another plan.

        Completed subtasks stay as they are, even if the new plan lacks or changes them. So do
        interrupted ones that may have had an effect.

        Raises:
            PlanError: the new plan conflicts with those subtasks.
        """
        stays = {id_ for id_, state in self.states.items() if _is_fixed(state)}
        left_out = (each for each in self.plan.subtasks if each.id in stays and each.id not in plan)
        kept = (self.plan[each.id] if each.id in stays else each for each in plan.subtasks)
        merged = Plan(self.plan.goal, (*left_out, *kept))
        states = {
            id_: state if id_ in stays else SubtaskState(failures=state.failures)
            for id_, state in self.states.items()
        }
        run = replace(self, plan=merged, states=states, revisions=self.revisions + 1)
        return run._block_dependents()

    def apply(self, step: PlanStep) -> "PlanRun":
        """Return the run after a change."""
        match step:
            case PlanBegin():
                return PlanRun(step.plan, step.states, step.revisions, step.error, step.at)
            case PlanRevision():
                return self.revise(step.plan)
            case PlanEnd():
                return replace(self, error=step.error)
            case SubtaskReview() | SubtaskUndo():
                is_undo = isinstance(step, SubtaskUndo)
                about = {"is_undone": True} if is_undo else {"awaits_review": False}
                state = replace(self.state(step.id), **about)
                return replace(self, states={**self.states, step.id: state})
            case SubtaskMove():
                return self._move(step)

    def steps(self) -> Iterator[PlanStep]:
        """Yield steps that lead to this run."""
        yield PlanBegin(self.plan, self.revisions, at=self.started_at)
        for id_ in self.plan.order():
            state = self.states[id_]
            facts = asdict(state)
            is_undone = facts.pop("is_undone")
            move = SubtaskMove(id_, **facts, is_undecided=bool(state.status is _P and state.reason))
            if state.status in (_C, _E):
                yield replace(move, status=_E)
            if state.status in (_C, _F) or (state.status is _P and state != SubtaskState()):
                yield move
            if is_undone:
                yield SubtaskUndo(id_)
        if self.error:
            yield PlanEnd(self.error)

    def _move(self, move: SubtaskMove) -> "PlanRun":
        before, after = self.state(move.id), move.status
        if after not in TRANSITIONS[before.status] and not (before.status is after is _P):
            raise PlanError(f"{move.id} is {before.status}, and can't become {after}")
        if any(self.states[each].status is not _C for each in self.plan[move.id].after):
            raise PlanError(f"{move.id} can't start: its dependencies are not completed")
        failures = before.failures + (after is _F)
        is_failure = after is _F or move.is_undecided
        state = SubtaskState(
            status=after,
            result=_copy_result(move.result) if after is _C else None,
            error=clip(move.error, MAX_ERROR_TEXT),
            reason=move.reason if is_failure else None,
            error_class=move.error_class if is_failure else ErrorClass.FAILED,
            is_given_up=move.is_given_up,
            failures=failures if move.failures is None else move.failures,
            session_id=move.session_id if after in (_E, _P) else "",
            awaits_review=move.awaits_review,
        )
        run = replace(self, states={**self.states, move.id: state})
        return run._block_dependents() if _F in (before.status, after) else run

    def _block_dependents(self) -> "PlanRun":
        """Block the subtasks that wait for a failed one, and unblock the others."""
        states = dict(self.states)
        for id_ in self.plan.order():
            if states[id_].status in (_P, _B):
                causes = [each for each in self.plan[id_].after if states[each].status in (_F, _B)]
                error = f"it waits for {', '.join(causes)}"
                if causes:
                    states[id_] = replace(states[id_], status=_B, error=error)
                elif states[id_].status is _B:
                    states[id_] = replace(states[id_], status=_P, error="")
        return replace(self, states=states)


def _is_fixed(state: SubtaskState) -> bool:
    """Whether a revised plan can't change a subtask: it is completed, or may have had an effect."""
    is_uncertain = state.status in (_P, _E) and state.session_id
    return state.status is _C or state.reason is FailureReason.CUT_OFF or bool(is_uncertain)


def last_records(session: AgentSession) -> tuple[JSON, ...]:
    """Return the records of the last plan of a session."""
    found = session.records(PLAN_STEP)
    kinds = [each.get("type") if isinstance(each, dict) else None for each in found]
    return found[max((n for n, kind in enumerate(kinds) if kind == "begin"), default=0) :]


def find_open_run(session: AgentSession, goal: str, *, was_answered: bool) -> PlanRun | None:
    """Return the last run if it has this goal and is unfinished or unanswered, else None.

    Args:
        session: the session of the agent that executes plans.
        goal: the goal, in the same words.
        was_answered: whether the session was answered before this turn (`is_answered`).

    Raises:
        PlanError: the last run of the session can't be read.
    """
    run = PlanRun.load(session) if session.records(PLAN_STEP) else None
    is_open = run is not None and run.plan.goal == goal and not (was_answered and run.is_over)
    return run if is_open else None


def find_start(session: AgentSession, id_: str) -> Start:
    """Return the last start of a subtask in the last plan of a session.

    Each has a session of its own; a start in the same one only takes over how the last has ended.
    """
    starts: dict[str, object] = {}
    for record in last_records(session):
        match record:
            case {"type": "move", "id": one, "status": "executing", **more} if one == id_:
                starts.setdefault(str(more.get("session_id", "")), more.get("at"))
    session_id, at = next(reversed(starts.items()), ("", None))
    return Start(session_id, serde.convert(at, datetime | None), len(starts))


def _copy_result(result: object) -> JSON:
    """Return a copy of a result, shortened if it is too long."""
    plain = serde.plain(result, "a subtask's result")
    encoded = serde.dumps(plain)
    if len(encoded) <= _LONGEST_RESULT:
        return plain
    return clip(plain if isinstance(plain, str) else encoded.decode(), _CLIPPED_RESULT)


class PlanRecorder:
    """Keeps the current run of an agent, and records and publishes each change of it."""

    has_reviews = False  # whether what ends from now on awaits one

    def __init__(self, agent: AgentInternals, run: PlanRun) -> None:
        """Take a run, and record it as a whole unless the session has it already."""
        self._agent = agent
        self.run = run
        stored = PlanRun.load(agent.session) if agent.session.records(PLAN_STEP) else None
        if stored == run:
            self.run = stored
            # Its results may be too long for a chunk.
            states = {id_: replace(state, result=None) for id_, state in run.states.items()}
            self._publish(PlanBegin(run.plan, run.revisions, states, run.error, stored.started_at))
        else:
            self.run = PlanRun(run.plan)
            for step in run.steps():
                self.write(step)
        for id_ in self.run.ids(SubtaskStatus.EXECUTING):  # the process ended while it ran
            session_id = self.run.state(id_).session_id
            self.write(SubtaskMove(id_, SubtaskStatus.PENDING, session_id=session_id))

    def write(self, step: PlanStep) -> None:
        """Apply a step, add it to the session and publish it; the next save stores it.

        Raises:
            PlanError: the step is illegal or too long for a record; nothing was changed.
        """
        step = replace(step, at=step.at or utc_now())
        if isinstance(step, SubtaskMove) and step.status in (_C, _F) and self.has_reviews:
            step = replace(step, awaits_review=True)
        run = self.run.apply(step)
        if isinstance(step, SubtaskMove):
            step = replace(step, result=run.state(step.id).result)  # shortened if it was long
        if (length := len(serde.encode(step))) > LONGEST_RECORD:
            raise PlanError(
                f"the plan is too long: {length:,} of {LONGEST_RECORD:,} bytes",
                hint="shorten goals and arguments, and keep long texts in files",
            )
        self.run = run
        self._agent.session.add_record(PLAN_STEP, self._publish(step))

    def _publish(self, step: PlanStep) -> dict[str, object]:
        """Publish a step; return it as JSON."""
        data = serde.loads_object(serde.encode(step).decode())
        self._agent.send_nowait(Custom(PLAN_STEP, data, str(step)))
        return data

    async def undo_completed(self, undo: Undo) -> None:
        """Undo what the completed subtasks have done, the last first, as `PlanRun.undo` does."""
        for id_ in reversed(self.run.plan.order()):
            state = self.run.state(id_)
            if state.status is SubtaskStatus.COMPLETED and not state.is_undone:
                await undo(self.run.plan[id_], state.result)
                self.write(SubtaskUndo(id_))
                await self._agent.session.save()
