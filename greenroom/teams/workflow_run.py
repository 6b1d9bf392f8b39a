"""A workflow while it runs: which steps it has taken, and how far the one is that it takes.

Everything is in the records of the session, and read back from there. "workflow.step" has the beginning
and the steps, which are the same for the same state and nodes. "workflow.node" says when each node began and
what it came to, in the order in which that happened.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import msgspec

from greenroom.core import PermissionRequest, TurnStatus, Wire, WorkflowError, clip
from greenroom.session import AgentSession
from greenroom.teams.workflow_graph import START
from greenroom.teams.workflow_state import Changes, StateSchema, Values

__all__ = [
    "WORKFLOW_NODE",
    "WORKFLOW_STEP",
    "NodeEnd",
    "NodeStart",
    "Progress",
    "Unit",
    "WorkflowBegin",
    "WorkflowRun",
    "WorkflowStep",
]

StateT = TypeVar("StateT")

WORKFLOW_STEP = "workflow.step"
"""The kind of the records of steps, and of the `Custom` chunks about them."""

WORKFLOW_NODE = "workflow.node"
"""The kind of the records of single nodes."""


class Unit(Wire, frozen=True):
    """What runs at once: a node, or a node with one of its items."""

    node: str
    item: int | None = None

    def __str__(self) -> str:
        return self.node if self.item is None else f"{self.node}[{self.item}]"


class WorkflowBegin(Wire, frozen=True, tag="begin"):
    """A run begins with this state, and these nodes."""

    state: Changes
    next: tuple[str, ...]

    def __str__(self) -> str:
        return f"workflow: begins with {', '.join(self.next) or 'nothing'}"


class WorkflowStep(Wire, frozen=True, tag="step"):
    """A step that was taken.

    Attributes:
        number: the first has 1.
        updates: what its nodes have changed, by their names; of a node that ran for each item of a
            list, the changes of each. Not in the record, since those of the nodes have it.
        next: the nodes of the next step; none where the run has ended.
    """

    number: int
    updates: Changes = {}
    next: tuple[str, ...] = ()

    def __str__(self) -> str:
        then = ", ".join(self.next) or "the end"
        return clip(f"workflow: step {self.number}: {', '.join(self.updates)} → {then}", 200)


class NodeStart(Wire, frozen=True, tag="start"):
    """A node begins: in which run and step, and in which session if it is an agent."""

    run: int
    step: int
    unit: Unit
    session_id: str = ""


class NodeEnd(Wire, frozen=True, tag="end"):
    """A node has ended, with these changes; or a person has said that it is not to be run again."""

    run: int
    step: int
    unit: Unit
    changes: Changes = {}
    is_skipped: bool = False


_StepRecord: TypeAlias = WorkflowBegin | WorkflowStep
_NodeRecord: TypeAlias = NodeStart | NodeEnd


@dataclass(frozen=True, kw_only=True)
class WorkflowRun(Generic[StateT]):
    """How far a workflow has come.

    Attributes:
        state: the state behind its last step.
        steps: the steps that it has taken, with what each node has changed.
        status: completed; interrupted, where it can be resumed; or waiting, for answers to `pending`.
        next: the nodes that run next; none where it is completed.
        pending: what it has asked, with `approve="later"`.
        session: where all of it is on record.
    """

    state: StateT
    steps: tuple[WorkflowStep, ...]
    status: TurnStatus
    next: tuple[str, ...]
    session: AgentSession
    pending: tuple[PermissionRequest, ...] = ()


class Progress(Generic[StateT]):
    """The state of a run, and what of the step in hand has begun and ended."""

    def __init__(self, schema: StateSchema[StateT], begin: WorkflowBegin, run: int) -> None:
        """Begin a run, the n-th of its session."""
        self.schema = schema
        self.begin = begin
        self.run = run
        self.ready = begin.next
        self.values: list[Values] = [schema.merge({}, [(START, begin.state)])]
        """The state at the beginning, and behind each step."""
        self.steps: list[WorkflowStep] = []
        self.begun: dict[Unit, NodeStart] = {}
        self.ended: dict[Unit, NodeEnd] = {}

    @classmethod
    def load(cls, schema: StateSchema[StateT], session: AgentSession) -> "Progress[StateT] | None":
        """Read the last run of a session; None where there is none.

        Raises:
            WorkflowError: it does not fit the workflow.
        """
        try:
            steps = msgspec.convert(session.records(WORKFLOW_STEP), tuple[_StepRecord, ...])
            nodes = msgspec.convert(session.records(WORKFLOW_NODE), tuple[_NodeRecord, ...])
        except msgspec.ValidationError as error:
            raise WorkflowError(f"the run of {session.session_id} can't be read: {error}") from None
        places = [place for place, each in enumerate(steps) if isinstance(each, WorkflowBegin)]
        if not places:
            return None
        begin = steps[places[-1]]
        assert isinstance(begin, WorkflowBegin)
        progress = cls(schema, begin, len(places))
        own = (each for each in nodes if each.run == progress.run)
        progress._replay((each for each in steps[places[-1] + 1 :]), own)
        return progress

    def _replay(self, steps: Iterable[_StepRecord], nodes: Iterator[_NodeRecord]) -> None:
        by_step: dict[int, list[_NodeRecord]] = {}
        for each in nodes:
            by_step.setdefault(each.step, []).append(each)
        for step in steps:
            self._take(by_step.get(self.number, ()))
            self.close(self.merged(), step.next)
        self._take(by_step.get(self.number, ()))

    def _take(self, nodes: Iterable[_NodeRecord]) -> None:
        for each in nodes:
            self.take(each)

    @property
    def number(self) -> int:
        """The number of the step in hand."""
        return len(self.steps) + 1

    @property
    def now(self) -> Values:
        """The state behind the last step."""
        return self.values[-1]

    def state(self) -> StateT:
        """Return a copy of the state behind the last step."""
        return self.schema.make(self.now)

    def take(self, record: NodeStart | NodeEnd) -> None:
        """Note what became of a node."""
        if isinstance(record, NodeStart):
            self.begun[record.unit] = record
        else:
            self.ended[record.unit] = record

    def merged(self) -> Values:
        """Return the state behind the step in hand, whose nodes have all ended.

        Raises:
            WorkflowError: two of them set a field that has no reducer.
        """
        return self.schema.merge(
            self.now, ((str(each.unit), each.changes) for each in self._ends())
        )

    def close(self, values: Values, ready: tuple[str, ...]) -> WorkflowStep:
        """Note that the step in hand is taken, and return it."""
        updates: Changes = {}
        for each in self._ends():
            if each.unit.item is None:
                updates[each.unit.node] = each.changes
            else:
                items = updates.setdefault(each.unit.node, [])
                assert isinstance(items, list)
                items.append(each.changes)
        step = WorkflowStep(self.number, updates, ready)
        self.steps.append(step)
        self.values.append(values)
        self.ready = ready
        self.begun, self.ended = {}, {}
        return step

    def _ends(self) -> list[NodeEnd]:
        places = {name: place for place, name in enumerate(self.ready)}
        return sorted(
            self.ended.values(), key=lambda end: (places[end.unit.node], end.unit.item or 0)
        )
