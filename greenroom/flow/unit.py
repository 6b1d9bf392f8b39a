"""A unit of work: a subtask, a node or one of its items, a member of a team. It starts and ends.

Starts and ends are records of the session of the agent whose work it is, which `UnitLog` writes and
follows.
"""

from dataclasses import dataclass
from datetime import datetime

from greenroom.core import utc_now
from greenroom.core._internal import Wire, freeze_fields, serde
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


class UnitLog:
    """The units of one step of a run: which have started, and how those that have ended did.

    Each start and each end is a record of the session of the agent whose work it is.
    """

    def __init__(self, session: AgentSession, run: int, step: int = 1) -> None:
        self._session = session
        self.run = run
        self.step = step
        self.starts: dict[Unit, Start] = {}
        self.ends: dict[Unit, dict[str, object]] = {}

    def next_step(self) -> "UnitLog":
        """Return the log of the next step, in which no unit has started yet."""
        return UnitLog(self._session, self.run, self.step + 1)

    def apply(self, record: NodeRecord) -> None:
        """Take note of what a record of this step says."""
        if record.changes is not None:
            self.ends[record.unit] = record.changes
            return
        before = self.starts.get(record.unit)
        count = before.count + 1 if before else 1
        self.starts[record.unit] = Start(record.session_id, record.at, count, record.after)

    def start(self, unit: Unit, session_id: str = "", after: str = "") -> None:
        """Record that a unit starts, in a session if it is an agent; save that before it does."""
        self._add(NodeRecord(self.run, self.step, unit, None, session_id, utc_now(), after))

    def end(self, unit: Unit, changes: dict[str, object]) -> None:
        """Record that a unit has ended, with its changes.

        Raises:
            WorkflowError: they are too long.
        """
        self._add(NodeRecord(self.run, self.step, unit, changes, at=utc_now()))

    def _add(self, record: NodeRecord) -> None:
        add_record(self._session, WORKFLOW_NODE, record, f"what {record.unit} returned")
        self.apply(record)


def add_record(session: AgentSession, kind: str, record: Wire, what: str) -> None:
    """Add a record to a session.

    Raises:
        WorkflowError: what it holds is too long.
    """
    encoded = serde.encode(record)
    if len(encoded) > LONGEST_RECORD:
        raise WorkflowError(
            f"{what} has {len(encoded):,} bytes as JSON, of at most {LONGEST_RECORD:,}",
            hint="keep long values in files, and the names of these in the state",
        )
    session.add_record(kind, serde.loads(encoded))
