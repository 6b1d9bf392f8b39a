"""The state of an agent: what it does at the moment.

An agent is *idle* while it waits for input. An input makes it *processing*; from there it may be
*waiting for permission*, *executing a tool* or *waiting for a subagent*, and comes back to
processing or straight to idle. *Done* and *failed* are final, and that is the one rule of moves: an
agent that has not ended may be in any state after any other, and one that has ended stays as it is.
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


_FINAL = frozenset({StateKind.DONE, StateKind.FAILED})
_PROCESSING = StateKind.PROCESSING  # a name of its own: members of an enum are slow to get on 3.11


class AgentState(Wire, frozen=True):
    """What an agent is doing: a kind, and its `detail`: a phase, tool, subagent or message.

    Example:
        >>> str(AgentState.executing_tool("Bash"))
        'executing tool: Bash'
    """

    kind: StateKind
    detail: str = ""

    @staticmethod
    def idle() -> "AgentState":
        """Waiting for input."""
        return _IDLE

    @classmethod
    def processing(cls, phase: str = "") -> "AgentState":
        """Working on an input, usually in a model call; the phase is a word of your own."""
        return cls(_PROCESSING, phase)

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

    @staticmethod
    def done() -> "AgentState":
        """Ended without an error."""
        return _DONE

    @classmethod
    def failed(cls, message: str) -> "AgentState":
        """Ended by an error; the message says which."""
        return cls(StateKind.FAILED, message)

    @property
    def phase(self) -> str:
        """The phase of the work, such as "planning"; empty without one."""
        return self.detail if self.kind is _PROCESSING else ""

    @property
    def is_final(self) -> bool:
        """Whether the agent has ended; no other state follows."""
        return self.kind in _FINAL

    def __str__(self) -> str:
        words = self.kind.replace("_", " ")
        return f"{words}: {self.detail}" if self.detail else words


_IDLE, _DONE = AgentState(StateKind.IDLE), AgentState(StateKind.DONE)
