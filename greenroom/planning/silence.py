"""Interrupt an agent that is silent for too long."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from greenroom.runtime import AgentHandle

T = TypeVar("T")


async def interrupt_if_silent(
    handle: AgentHandle, patience: float | None, ask: Callable[[], Awaitable[T]]
) -> T | None:
    """Wait for an answer, and interrupt the agent if it publishes no chunk for `patience` seconds.

    The time before its first chunk does not count, since it may have to wait until it can start.
    Neither does the time in which it or one of its subagents waits for a person. Without `patience`
    there is no limit.

    Returns:
        The answer, or None if the agent was interrupted.
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
