"""The errors of plans, workflows and teams; `greenroom.core.errors` draws the whole tree."""

from greenroom.core import GreenroomError


class TeamError(GreenroomError):
    """A member of a team has failed, or can't be asked; the message names it and says why."""

    remedy = "look at the member's own turn, or go on without it, if the pattern can"


class PlanError(GreenroomError, ValueError):
    """A plan can't be made, is inconsistent, or is used in an impossible order."""

    remedy = "correct the subtask that the message names, or ask a planner for another plan"


class WorkflowError(GreenroomError, ValueError):
    """A workflow's graph is inconsistent, or one of its nodes can't do what the graph says."""

    remedy = "correct the node, edge or field in the message; resume=True keeps what was done"


class WorkflowLimitError(WorkflowError):
    """A workflow has used up its steps, or one of its nodes its seconds."""

    remedy = "allow more steps or seconds and go on with resume=True, or end the cycle sooner"


class ConflictError(GreenroomError):
    """Several agents find no common answer: too few answered, or they contradict each other."""

    remedy = "pass a strategy that always decides, such as by_authority or ask_person"


class StaleWriteError(GreenroomError):
    """A write was based on an old version of a value; nothing was written.

    Attributes:
        key: the key of the value.
        version: its current version, 0 if it has no value.
    """

    remedy = "read the value again, and write over its current `version`"

    def __init__(self, message: str, *, key: str = "", version: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.key = key
        self.version = version


class BlackboardFullError(GreenroomError):
    """A blackboard is at its limit of keys, or a value is too long for it."""

    remedy = "overwrite existing keys, or keep long values in files and their names on the board"
