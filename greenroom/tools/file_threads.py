"""Threads for work on files, apart from those of function tools, which calls that never end may fill."""

from collections.abc import Callable
from typing import TypeVar

import trio

T = TypeVar("T")

_MAX_THREADS = 8
_threads: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("file threads")


async def in_thread(work: Callable[[], T]) -> T:
    """Run file work in a thread; it may call `trio.from_thread.check_cancelled` where it is long."""
    return await trio.to_thread.run_sync(work, limiter=_limiter())


def _limiter() -> trio.CapacityLimiter:
    try:
        return _threads.get()
    except LookupError:
        limiter = trio.CapacityLimiter(_MAX_THREADS)
        _threads.set(limiter)
        return limiter
