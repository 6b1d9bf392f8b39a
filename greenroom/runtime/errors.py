"""The errors of the runtime alone; `greenroom.core.errors` draws the whole tree."""

from greenroom.core import GreenroomError


class AgentNotRunningError(GreenroomError):
    """The agent has ended, so it takes no more messages; `outcome` says how it ended."""

    remedy = "look at `outcome`, and spawn the agent again"

    def __init__(self, message: str, *, outcome: object = None, hint: str = "") -> None:
        """Keep the outcome, which is None while the agent is still ending."""
        super().__init__(message, hint=hint)
        self.outcome = outcome


class RuntimeClosedError(GreenroomError):
    """The runtime is not open: its `async with` block is not entered yet, or has been left."""

    remedy = "spawn and ask inside the block `async with AgentRuntime() as runtime:`"


class SupervisionError(GreenroomError):
    """A supervisor has ended, given up, or stopped an agent for the sake of others.

    `__cause__` is the crash that led to it.
    """

    remedy = "look at `__cause__` for the crash, and fix that"


class InvalidAnswerError(GreenroomError, ValueError):
    """The input of an answer does not fit the `fields` of its question, which is still open."""

    remedy = "answer again with what the message asks for"
