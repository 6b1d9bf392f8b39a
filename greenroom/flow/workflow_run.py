"""The progress of a workflow: completed steps, and the state of the current one.

Everything is stored in records of the session and loaded from there. "workflow.step" records have
the beginning and the steps, which are the same for the same state and nodes, but for their times.
"workflow.node" records have the start and the changes of each node, in the order in which they
happened.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeAlias, TypeVar, cast

import msgspec

from greenroom.agents import AgentResult
from greenroom.core._internal import EMPTY, Wire, clip, freeze_fields, serde
from greenroom.flow.errors import WorkflowError
from greenroom.flow.unit import (
    WORKFLOW_NODE,
    WORKFLOW_STEP,
    NodeRecord,
    Unit,
    UnitLog,
    WorkflowBegin,
)
from greenroom.flow.workflow_state import START, Changes, StateSchema, Values
from greenroom.session import AgentSession

StateT = TypeVar("StateT")


class WorkflowStep(Wire, frozen=True, tag="step"):
    """A completed step.

    Attributes:
        number: its number, from 1.
        updates: the changes of its nodes by name; for a node that ran over a list, a list of the
            changes for each item. Empty in the session, where the records of the nodes have them.
        next: the nodes of the next step; empty if the run has ended.
        run: the number of the run in its session, from 1.
        at: when it was completed, if that is on record.
    """

    number: int
    updates: Changes = EMPTY
    next: tuple[str, ...] = ()
    run: int = 1
    at: datetime | None = None

    def __post_init__(self) -> None:
        freeze_fields(self, "updates")

    def __str__(self) -> str:
        then = ", ".join(self.next) or "the end"
        return clip(f"workflow: step {self.number}: {', '.join(self.updates)} → {then}", 200)


@dataclass(frozen=True, kw_only=True)
class WorkflowRun(AgentResult[object], Generic[StateT]):
    """The result or the progress of a workflow: an `AgentResult` with its state.

    Its `output` is the field that the workflow names as its output, or else the state.

    Attributes:
        state: the state after its last step; None if the run has not begun.
        steps: the completed steps, with the changes of each node.
        next: the nodes that run next; empty if it is completed.
    """

    state: StateT
    steps: tuple[WorkflowStep, ...]  # type: ignore[assignment]  # these are what it takes
    next: tuple[str, ...]


_Entry: TypeAlias = WorkflowBegin | WorkflowStep


def last_entry(session: AgentSession) -> _Entry | None:
    """Return the last step of a session, or the beginning of a run without steps.

    Raises:
        WorkflowError: it can't be read.
    """
    record = session.last_record(WORKFLOW_STEP)
    with _convert_errors(session):
        found: _Entry | None = serde.convert(record, _Entry | None)
    return found


@contextmanager
def _convert_errors(session: AgentSession) -> Iterator[None]:
    """Raise a `WorkflowError` for records that can't be read."""
    try:
        yield
    except msgspec.ValidationError as error:
        raise WorkflowError(f"a run of {session.session_id} can't be read: {error}") from None


def read_nodes(session: AgentSession, run: int) -> list[NodeRecord]:
    """Return the starts and ends of the units of a run.

    Raises:
        WorkflowError: they can't be read.
    """
    with _convert_errors(session):
        nodes = serde.convert(session.records(WORKFLOW_NODE), list[NodeRecord])
    return [each for each in nodes if each.run == run]


class WorkflowProgress(Generic[StateT]):
    """The state of a run, and the units of the current step that have begun and ended."""

    def __init__(
        self, schema: StateSchema[StateT], session: AgentSession, begin: WorkflowBegin
    ) -> None:
        self.schema = schema
        self.begin = begin
        self.ready = begin.next
        self.values = schema.merge({}, [(START, begin.state)])
        """The state after the last step."""
        self.steps: list[WorkflowStep] = []
        self.units = UnitLog(session, begin.run)
        """The units of the current step."""

    @classmethod
    def load(
        cls, schema: StateSchema[StateT], session: AgentSession
    ) -> "WorkflowProgress[StateT] | None":
        """Read the last run of a session; None if it has no run.

        Raises:
            WorkflowError: it does not fit the workflow.
        """
        with _convert_errors(session):
            entries = serde.convert(session.records(WORKFLOW_STEP), list[_Entry])
        begins = [each for each in entries if isinstance(each, WorkflowBegin)]
        if not begins:
            return None
        progress, run = cls(schema, session, begins[-1]), begins[-1].run
        own = deque(read_nodes(session, run))
        for step in entries:
            if isinstance(step, WorkflowStep) and step.run == run:
                progress._replay(own)
                progress.close(progress.merge(), step.next, step.at)
        progress._replay(own)
        return progress

    def _replay(self, nodes: deque[NodeRecord]) -> None:
        """Apply the records of the current step, and remove them from those of the run."""
        while nodes and nodes[0].step == self.units.step:
            self.units.apply(nodes.popleft())

    def state(self) -> StateT:
        """Return a copy of the state after the last step."""
        return self.schema.make(self.values)

    def merge(self) -> Values:
        """Return the state after the current step, whose nodes have all ended.

        Raises:
            WorkflowError: two of them set a field that has no reducer.
        """
        return self.schema.merge(
            self.values, ((str(unit), each) for unit, each in self._changes_in_order())
        )

    def close(self, values: Values, ready: tuple[str, ...], at: datetime | None) -> WorkflowStep:
        """Complete the current step, at this time, and return it."""
        updates: Changes = {}
        for unit, changes in self._changes_in_order():
            if unit.item is None:
                updates[unit.node] = changes
            else:
                cast("list[object]", updates.setdefault(unit.node, [])).append(changes)
        step = WorkflowStep(self.units.step, updates, ready, self.units.run, at)
        self.steps.append(step)
        self.values, self.ready, self.units = values, ready, self.units.next_step()
        return step

    def _changes_in_order(self) -> list[tuple[Unit, Changes]]:
        places = {name: place for place, name in enumerate(self.ready)}
        ends = self.units.ends.items()
        return sorted(ends, key=lambda end: (places[end[0].node], end[0].item or 0))
