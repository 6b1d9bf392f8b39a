"""A unit of work: a subtask, a node or one of its items, a member of a team. It starts and ends.

Starts and ends are records of the session of the agent whose work it is. `UnitLog` keeps those of
the members that a pattern asks in one turn.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import msgspec

from greenroom.core import utc_now
from greenroom.core._internal import JSON, Wire, freeze_fields, serde
from greenroom.flow.errors import WorkflowError
from greenroom.session import AgentSession
from greenroom.session._internal import LONGEST_RECORD

WORKFLOW_STEP = "workflow.step"
"""The kind of the records of beginnings and steps, and of the `Custom` chunks about them."""

WORKFLOW_NODE = "workflow.node"
"""The kind of the records of the starts and ends of units."""


@dataclass(frozen=True)
class Start:
    """The last start of a unit.

    Attributes:
        session_id: the session in which it ran; empty if it is a function.
        at: when it started, if that is on record.
        count: how often it has started.
        after: the last message of its session before it started first.
    """

    session_id: str = ""
    at: datetime | None = None
    count: int = 1
    after: str = ""

    def __str__(self) -> str:
        often = "once" if self.count == 1 else f"{self.count} times, the last time"
        at = f" at {self.at:%Y-%m-%d %H:%M:%S} UTC" if self.at else ""
        return f"It was started {often}{at}."


class Unit(Wire, frozen=True):
    """A unit of work of a workflow or a team: a node or member, or one of its items or rounds."""

    node: str
    item: int | None = None

    def __str__(self) -> str:
        return self.node if self.item is None else f"{self.node}[{self.item}]"


class WorkflowBegin(Wire, frozen=True, tag="begin"):
    """A run begins with this state and these nodes, at this time.

    `run` counts the runs of a session from 1.
    """

    state: dict[str, object]
    next: tuple[str, ...]
    run: int = 1
    at: datetime | None = None

    def __post_init__(self) -> None:
        freeze_fields(self, "state")

    def __str__(self) -> str:
        return f"workflow: begins with {', '.join(self.next) or 'nothing'}"


class NodeRecord(Wire, frozen=True):
    """The start or the end of a unit.

    Attributes:
        changes: its changes; None at its start.
        session_id: at its start, its session if it is an agent.
        at: when it was recorded.
        after: at its start, the id of the last message that its session had before.
    """

    run: int
    step: int
    unit: Unit
    changes: dict[str, object] | None = None
    session_id: str = ""
    at: datetime | None = None
    after: str = ""

    def __post_init__(self) -> None:
        freeze_fields(self, "changes")


_OUTPUT = "output"


class UnitLog:
    """The members that a pattern asks in one turn: which have started, and what they answered.

    A turn that was cut off begins again with the same log: whoever has answered is not asked again.
    The n-th time that a member of some name is asked is the same unit each time.
    """

    def __init__(self, session: AgentSession, *, goes_on: bool) -> None:
        self._session = session
        self._asked: Counter[str] = Counter()
        self.starts: dict[Unit, Start] = {}
        self.ends: dict[Unit, object] = {}
        with convert_errors(session):
            begins = serde.convert(_list_begins(session), list[WorkflowBegin])
        last = begins[-1] if begins else WorkflowBegin({}, (), 0)
        if goes_on and last.run and not last.next:
            self._run = last.run
            self._read()
        else:
            self._run = last.run + 1
            begin = WorkflowBegin({}, (), self._run, utc_now())
            session.add_record(WORKFLOW_STEP, serde.loads(serde.encode(begin)))

    def _read(self) -> None:
        with convert_errors(self._session):
            records = serde.convert(self._session.records(WORKFLOW_NODE), list[NodeRecord])
        for record in records:
            if record.run == self._run:
                self._note(record)

    def _note(self, record: NodeRecord) -> None:
        if record.changes is None:
            self.starts[record.unit] = next_start(self.starts.get(record.unit), record)
        else:
            self.ends[record.unit] = record.changes[_OUTPUT]

    def next_unit(self, name: str) -> Unit:
        """Return the unit for the next time that a member of this name is asked."""
        count = self._asked[name]
        self._asked[name] += 1
        return Unit(name, count or None)

    def start(self, unit: Unit, member: AgentSession) -> None:
        """Record that a unit starts in a member's session; save this one before it does."""
        before, session_id = self.starts.get(unit), member.session_id
        after = before.after if before else _last_id(member)
        self._record(NodeRecord(self._run, 1, unit, None, session_id, utc_now(), after))

    def is_begun(self, unit: Unit, member: AgentSession) -> bool:
        """Whether a unit that has started in a member's session has got its input there."""
        start = self.starts.get(unit)
        return start is not None and not (start.after and start.after == _last_id(member))

    def end(self, unit: Unit, output: object) -> None:
        """Record what a unit has answered, unless that is too long: its own session has it."""
        record = NodeRecord(self._run, 1, unit, {_OUTPUT: output}, at=utc_now())
        if len(serde.encode(record)) <= LONGEST_RECORD:
            self._record(record)

    def _record(self, record: NodeRecord) -> None:
        self._note(record)
        self._session.add_record(WORKFLOW_NODE, serde.loads(serde.encode(record)))


def _list_begins(session: AgentSession) -> list[JSON]:
    """List the records of beginnings; a session may have had a workflow before, with steps."""
    records = session.records(WORKFLOW_STEP)
    return [each for each in records if isinstance(each, dict) and each.get("type") == "begin"]


@contextmanager
def convert_errors(session: AgentSession) -> Iterator[None]:
    """Raise a `WorkflowError` for records that can't be read."""
    try:
        yield
    except msgspec.ValidationError as error:
        raise WorkflowError(f"a run of {session.session_id} can't be read: {error}") from None


def _last_id(session: AgentSession) -> str:
    """Return the id of the last message of a session; empty if there is none."""
    return session.history[-1].id if session.history else ""


def next_start(before: Start | None, record: NodeRecord) -> Start:
    """Return the start of a unit by its record, after earlier ones."""
    count = before.count + 1 if before else 1
    return Start(record.session_id, record.at, count, record.after)
