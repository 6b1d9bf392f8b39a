"""Concurrency limit: so many calls at the same time, the others in the order in which they came."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar, TypeVarTuple, Unpack

import trio

from greenroom.core import ConfigurationError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


@dataclass(frozen=True)
class ConcurrencyStatistics:
    """A look into one concurrency limit.

    Attributes:
        limit: calls that may run at the same time.
        running: calls that run.
        waiting: calls that wait for one to end.
    """

    limit: int
    running: int
    waiting: int


class ConcurrencyLimit:
    """Lets `limit` calls run at the same time; who has waited longest is next.

    One object is shared by all that it limits together, such as the agents that use one server. A
    cancelled wait leaves the queue and takes nothing.

    Raises:
        ConfigurationError: the limit is not a whole number of at least 1.

    Example:
        >>> import trio
        >>> limit = ConcurrencyLimit(2)
        >>> async def work() -> int:
        ...     await trio.lowlevel.checkpoint()
        ...     return limit.statistics().running
        >>> trio.run(limit.call, work)
        1
    """

    def __init__(self, limit: int) -> None:
        """Begin with nothing running."""
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ConfigurationError(
                f"a limit of {limit!r} calls makes no sense", hint="give a whole number, 1 or more"
            )
        self._limit = limit
        self._lot = trio.lowlevel.ParkingLot()
        self._running = 0

    def __repr__(self) -> str:
        return f"ConcurrencyLimit({self._limit})"

    @property
    def is_free(self) -> bool:
        """Whether a call could begin at once."""
        return self._running < self._limit and not self._lot

    async def acquire(self) -> None:
        """Wait until a call may begin."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self.is_free:
            self._running += 1
            await trio.lowlevel.cancel_shielded_checkpoint()
        else:
            await self._lot.park()  # `release` hands over what it gives back

    def force(self) -> None:
        """Begin at once, even one call more than the limit: for one that runs already.

        Until as many have ended as began beyond the limit, no other begins.
        """
        self._running += 1

    def release(self) -> None:
        """Say that a call has ended; who has waited longest begins."""
        self._running -= 1
        if self._running < self._limit and self._lot:
            self._lot.unpark()
            self._running += 1

    async def call(self, fn: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> T:
        """Call an async function when it is its turn.

        Raises:
            Exception: what the function raised.
        """
        async with self:
            return await fn(*args)

    async def __aenter__(self) -> None:
        """Wait until the block may begin."""
        await self.acquire()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the next one begin."""
        self.release()

    def statistics(self) -> ConcurrencyStatistics:
        """Return how many calls run and wait."""
        return ConcurrencyStatistics(self._limit, self._running, len(self._lot))
