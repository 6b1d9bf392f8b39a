"""What the agents of one runtime share, such as a pool of processes, ends with the runtime."""

import inspect
import logging

import trio

from greenroom.core import ResourceMap

logger = logging.getLogger("greenroom.runtime")


async def close_resources(resources: ResourceMap, grace: float) -> None:
    """Close each value that has an `aclose()`, the newest first; a cancel can't cut this short.

    One that fails, or does not answer within `grace` seconds, is logged and stops no other.
    """
    for value in reversed(tuple(resources)):
        close = getattr(value, "aclose", None)
        if not inspect.iscoroutinefunction(close):
            continue
        with trio.CancelScope(shield=True, deadline=trio.current_time() + grace) as scope:
            try:
                await close()
            except Exception:
                logger.exception("%s could not be closed", type(value).__name__)
        if scope.cancelled_caught:
            logger.error("%s was not closed within %g seconds", type(value).__name__, grace)
    resources.clear()
