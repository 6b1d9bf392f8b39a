"""Silence: how an agent that does nothing is told from one that takes its time."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from greenroom.runtime import AgentHandle

T = TypeVar("T")


async def interrupt_if_silent(
    handle: AgentHandle, patience: float | None, ask: Callable[[], Awaitable[T]]
) -> T | None:
    """Wait for an answer; interrupt the agent once it has published nothing for so many seconds.

    Its first chunk is waited for without an end, since it may have to wait until it can begin. Nor does
    the time count in which a person is asked, by it or by an agent below it. Without `patience` it may be
    silent as long as it likes. None says that it was interrupted.
    """
    if patience is None:
        return await ask()
    answer: T | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_watch, handle, patience, nursery.cancel_scope)
        answer = await ask()
        nursery.cancel_scope.cancel()
    if answer is None:
        await handle.interrupt()
    return answer


async def _watch(handle: AgentHandle, patience: float, asking: trio.CancelScope) -> None:
    async with handle.subscribe("all") as chunks:
        chunk = await anext(chunks, None)
        while chunk is not None:
            with trio.move_on_after(patience) as wait:
                chunk = await anext(chunks, None)
            if wait.cancelled_caught and not await handle.pending():
                asking.cancel()
                return
