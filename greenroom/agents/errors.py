"""The errors of runs of agents; `greenroom.core.errors` draws the whole tree."""

from greenroom.core import GreenroomError, SessionError


class GuardError(GreenroomError):
    """A guard has rejected an input or a reply; the message has the reason, not the text."""

    remedy = "say it differently, or look at the guard"


class NoProgressError(GreenroomError):
    """An agent has made the same call again and again, or calls that could not run."""

    remedy = "look at the calls in `result.messages`; say more in instructions or tool results"


class HandoffLimitError(GreenroomError):
    """Too many handoffs in one turn; the message names the agents in order."""

    remedy = "say in the agents' descriptions and instructions which of them answers what"


class AlreadyAnsweredError(SessionError):
    """A question is no longer open: it was answered before, or the conversation went on."""

    remedy = "load the session: `open_questions` lists what can still be answered"
