"""Tells that a memory has failed; the turn goes on without it."""

import logging

from greenroom.core import Custom, GreenroomError
from greenroom.core._internal import describe_error, log_error
from greenroom.runtime import AgentInternals

_log = logging.getLogger("greenroom.memory")


async def report_failure(agent: AgentInternals, what: str, error: Exception) -> None:
    """Publish `Custom("memory.failed")`; an error that is not ours is also logged, as a bug.

    Args:
        agent: the agent whose turn goes on.
        what: what was not done, such as "nothing was recalled".
        error: what the memory raised.
    """
    is_ours = isinstance(error, GreenroomError)
    if not is_ours:
        log_error(_log, what, error, logging.WARNING)
    text = f"{what}: {error if is_ours else describe_error(error)}"
    await agent.send(Custom("memory.failed", {"error": type(error).__name__}, text))
