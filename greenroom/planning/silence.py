"""Silence: how an agent that does nothing is told from one that takes its time."""

from collections.abc import Callable

import trio

from greenroom.runtime import AgentHandle

__all__ = ["watch"]


async def watch(handle: AgentHandle, patience: float, give_up: Callable[[], None]) -> None:
    """Wait until an agent has ended, or has published nothing for so many seconds; then give it up.

    Its first chunk is waited for without an end, since it may have to wait until it can begin. Nor does
    the time count in which a person is asked, by it or by an agent below it.
    """
    async with handle.subscribe("all") as chunks:
        chunk = await anext(chunks, None)
        while chunk is not None:
            with trio.move_on_after(patience) as wait:
                chunk = await anext(chunks, None)
            if wait.cancelled_caught and not await handle.pending():
                give_up()
                return
