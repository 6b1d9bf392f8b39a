"""A limit on how many threads work on files at once."""

from collections.abc import Callable
from typing import TypeVar

import trio

T = TypeVar("T")


class FileThreads:
    """Runs blocking work in threads, so many at once; the others wait their turn.

    It may be made before trio runs, and used in one run after another: each has threads of its own.

    Example:
        >>> threads = FileThreads("example", 2)
        >>> trio.run(threads.run, lambda: sum(range(10)))
        45
    """

    def __init__(self, name: str, most: int) -> None:
        """Name the threads, and say how many work at once."""
        self._most = most
        # A limiter belongs to one run of trio.
        self._limiter: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar(name)

    @property
    def limiter(self) -> trio.CapacityLimiter:
        """What bounds the threads of this run of trio."""
        try:
            return self._limiter.get()
        except LookupError:
            limiter = trio.CapacityLimiter(self._most)
            self._limiter.set(limiter)
            return limiter

    async def run(self, work: Callable[[], T]) -> T:
        """Do this work in a thread, to its end even if it is cancelled.

        Work that takes long may call `trio.from_thread.check_cancelled`.
        """
        return await trio.to_thread.run_sync(work, limiter=self.limiter)
