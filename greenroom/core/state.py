"""The states of an agent, and the one table of moves between them.

An agent is *idle* while it waits for input. An input makes it *processing*; from there it may be
*waiting for permission*, *executing a tool* or *waiting for a subagent*, and comes back to
processing or straight to idle. *Done* and *failed* are final: nothing leaves them. A move that is
not in the table is a mistake in the caller's code and raises `TurnError`; staying in a state is
always legal, so that the tool that an agent executes may change.
"""

from enum import StrEnum

from greenroom.core.serde import Wire


class StateKind(StrEnum):
    """The kinds of state."""

    IDLE = "idle"
    PROCESSING = "processing"
    WAITING_FOR_PERMISSION = "waiting_for_permission"
    EXECUTING_TOOL = "executing_tool"
    WAITING_FOR_SUBAGENT = "waiting_for_subagent"
    DONE = "done"
    FAILED = "failed"


_BUSY = frozenset(
    {
        StateKind.PROCESSING,
        StateKind.WAITING_FOR_PERMISSION,
        StateKind.EXECUTING_TOOL,
        StateKind.WAITING_FOR_SUBAGENT,
    }
)
_FINAL = frozenset({StateKind.DONE, StateKind.FAILED})

TRANSITIONS: dict[StateKind, frozenset[StateKind]] = {
    StateKind.IDLE: frozenset({StateKind.IDLE}) | _BUSY | _FINAL,
    StateKind.PROCESSING: frozenset({StateKind.IDLE}) | _BUSY | _FINAL,
    StateKind.WAITING_FOR_PERMISSION: frozenset({StateKind.IDLE}) | _BUSY | _FINAL,
    StateKind.EXECUTING_TOOL: frozenset({StateKind.IDLE}) | _BUSY | _FINAL,
    StateKind.WAITING_FOR_SUBAGENT: frozenset({StateKind.IDLE}) | _BUSY | _FINAL,
    StateKind.DONE: frozenset(),
    StateKind.FAILED: frozenset(),
}
"""Every legal move, from each kind of state to those that may follow it."""


class AgentState(Wire, frozen=True):
    """What an agent is doing: a kind, and in `detail` the phase, tool, subagent or message it is about.

    Example:
        >>> str(AgentState.executing_tool("Bash"))
        'executing tool: Bash'
    """

    kind: StateKind
    detail: str = ""

    @classmethod
    def idle(cls) -> "AgentState":
        """Waiting for input."""
        return cls(StateKind.IDLE)

    @classmethod
    def processing(cls, phase: str = "") -> "AgentState":
        """Working on an input, most of the time inside a model call; the phase is any word for it."""
        return cls(StateKind.PROCESSING, phase)

    @classmethod
    def waiting_for_permission(cls) -> "AgentState":
        """Waiting for a person's decision."""
        return cls(StateKind.WAITING_FOR_PERMISSION)

    @classmethod
    def executing_tool(cls, name: str) -> "AgentState":
        """Running a tool; of several at once, the first."""
        return cls(StateKind.EXECUTING_TOOL, name)

    @classmethod
    def waiting_for_subagent(cls, session_id: str) -> "AgentState":
        """Waiting for the subagent of this session."""
        return cls(StateKind.WAITING_FOR_SUBAGENT, session_id)

    @classmethod
    def done(cls) -> "AgentState":
        """Ended as it should."""
        return cls(StateKind.DONE)

    @classmethod
    def failed(cls, message: str) -> "AgentState":
        """Ended by an error, which the message names."""
        return cls(StateKind.FAILED, message)

    @property
    def phase(self) -> str:
        """The phase of the work, such as "planning"; empty where none was named, or not processing."""
        return self.detail if self.kind is StateKind.PROCESSING else ""

    @property
    def is_final(self) -> bool:
        """Whether the agent has ended."""
        return self.kind in _FINAL

    def may_become(self, other: "AgentState") -> bool:
        """Whether the table allows the move to `other`."""
        return other.kind in TRANSITIONS[self.kind]

    def __str__(self) -> str:
        words = self.kind.replace("_", " ")
        return f"{words}: {self.detail}" if self.detail else words
