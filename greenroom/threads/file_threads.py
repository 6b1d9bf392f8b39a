"""A limit on how many threads work on files at once."""

from collections.abc import Callable
from typing import TypeVar

import trio

T = TypeVar("T")


class FileThreads:
    """Runs blocking work in threads, up to a limit; further work waits its turn.

    It may be created before trio runs, and used in several runs: each has its own limit.

    Example:
        >>> threads = FileThreads("example", 2)
        >>> trio.run(threads.run, lambda: sum(range(10)))
        45
    """

    def __init__(self, name: str, most: int) -> None:
        """Set the limiter's name and how many threads may work at once."""
        self._most = most
        # A limiter belongs to one run of trio.
        self._limiter: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar(name)

    @property
    def limiter(self) -> trio.CapacityLimiter:
        """The limiter for this run of trio."""
        try:
            return self._limiter.get()
        except LookupError:
            limiter = trio.CapacityLimiter(self._most)
            self._limiter.set(limiter)
            return limiter

    async def run(self, work: Callable[[], T]) -> T:
        """Run this work in a thread, to its end even if cancelled.

        Work that takes long may call `trio.from_thread.check_cancelled`.
        """
        return await trio.to_thread.run_sync(work, limiter=self.limiter)
