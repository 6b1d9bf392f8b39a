"""Limits of rate and concurrency; waiting calls are served first come, first served."""

import math
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Self, TypeVar, TypeVarTuple, Unpack

import msgspec
import trio

from greenroom.core import ConfigurationError
from greenroom.resilience.clock import shared_time
from greenroom.resilience.waiting import WaitQueue

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class RateLimitStatistics(msgspec.Struct, frozen=True):
    """A snapshot of one rate limit.

    Attributes:
        requests: requests that began within the last `period` seconds.
        tokens: tokens that were reserved or used within them.
        waiting: calls that wait.
        admitted: calls that were let through so far.
    """

    requests: int
    tokens: int
    waiting: int
    admitted: int


class RateLimit:
    """Allows at most `requests` calls and `tokens` tokens to begin within any `period` seconds.

    The call that has waited longest is next, even if a later one would fit, so small requests do
    not starve a large one. Share one object between all agents that use the same key, in any event
    loops and threads. A cancelled wait leaves the queue and uses nothing.

    The tokens of a call are known only after it: `acquire` reserves what it may use at most, and
    `Reservation.settle` replaces that by the true number. In the block of its reservation a call
    holds its reserve until then, however long it takes. While no call does, a smaller estimate is
    enough for the next, so that generous reserves do not hold up calls that come one by one. A call
    of more tokens than the limit begins when no other call counts any more.

    Args:
        requests: calls within `period` seconds; None for no limit.
        tokens: tokens within `period` seconds; None for no limit.
        period: the seconds in which they count.

    Raises:
        ConfigurationError: there is no limit, or an invalid one.

    Example:
        >>> import trio
        >>> limit = RateLimit(requests=60, tokens=40_000)
        >>> async def main() -> int:
        ...     with await limit.acquire(tokens=1000) as reservation:
        ...         reservation.settle(250)
        ...     return limit.statistics().tokens
        >>> trio.run(main)
        250
    """

    def __init__(
        self, *, requests: int | None = None, tokens: int | None = None, period: float = 60.0
    ) -> None:
        for name, limit in (("requests", requests), ("tokens", tokens)):
            is_number = isinstance(limit, int) and not isinstance(limit, bool)
            if limit is not None and not (is_number and limit >= 1):
                raise ConfigurationError(f"a rate limit of {limit!r} {name} makes no sense")
        if requests is None and tokens is None:
            raise ConfigurationError("a rate limit limits requests, tokens or both")
        if not 0 < period < math.inf:
            raise ConfigurationError("RateLimit.period must be more than 0, and finite")
        self.counts_tokens = tokens is not None
        """Whether tokens are limited, so `acquire` needs an estimate."""
        self._requests = math.inf if requests is None else requests
        self._tokens = math.inf if tokens is None else tokens
        self._period = period
        self._queue = WaitQueue()  # its lock guards all that follows
        # Oldest first. Each entry has a request or a token, so the limits bound its length.
        self._entries = deque[_Entry]()
        self._total = _Entry(0.0, 0, 0)  # the sum of the entries
        self._running = 0  # calls in the block of their reservation
        self._held = _Entry(0.0, 0, 0)  # what they have reserved and not used
        self._waiting = 0  # tokens of waiting calls
        self._admitted = 0

    def __repr__(self) -> str:
        limits = (("requests", self._requests), ("tokens", self._tokens))
        given = ", ".join(f"{name}={limit}" for name, limit in limits if limit < math.inf)
        return f"RateLimit({given}, period={self._period:g})"

    async def acquire(self, tokens: int = 1, *, alone: int | None = None) -> "Reservation":
        """Wait until a call may begin, and count it.

        Args:
            tokens: what it may use at most, which is reserved for it.
            alone: what it will probably use, which is enough while no other call holds a reserve;
                by default as many as `tokens`.
        """
        size = self._size(tokens)
        least = size if alone is None else min(size, self._size(alone))
        entries: list[_Entry] = []

        def admit() -> float | None:
            reserved = size if self._running else least
            moment = self._moment(1, reserved)
            if moment > shared_time():
                return moment
            entries.append(self._count(1, reserved))
            self._admitted += 1
            return None

        with self._queue.lock:
            self._waiting += size
        try:
            await self._queue.wait(admit)
        finally:
            with self._queue.lock:
                self._waiting -= size
        return Reservation(self, entries[0])

    def wait_time(self, tokens: int = 1) -> float:
        """Estimate how many seconds a call would wait if it asked now.

        It is infinite where that depends on the end of other calls.
        """
        with self._queue.lock:
            calls, size = len(self._queue) + 1, self._waiting + self._size(tokens)
            # The excess over what fits at once takes whole rounds.
            by_calls, by_tokens = (calls - 1) // self._requests, (size - 1) // self._tokens
            rounds = int(max(by_calls, by_tokens))
            rest = self._moment(
                int(calls - by_calls * self._requests) if by_calls else calls,
                int(size - by_tokens * self._tokens) if by_tokens else size,
            )
            return rounds * self._period + max(0.0, rest - shared_time())

    def exceeds(self, tokens: int) -> bool:
        """Whether a call of so many tokens is larger than the limit, so that it must run alone."""
        return tokens > self._tokens

    async def call(self, fn: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> T:
        """Call an async function in turn; it counts as one request of one token.

        Raises:
            Exception: the function raised it.
        """
        await self.acquire()
        return await fn(*args)

    async def __aenter__(self) -> "Reservation":
        """Wait until the block may begin; it counts as one token until that is settled."""
        return await self.acquire()

    async def __aexit__(self, *_exit: object) -> None:
        """Do nothing: a call counts from its beginning, however it ends."""

    def statistics(self) -> RateLimitStatistics:
        """Return how much counts now, and how many calls wait."""
        with self._queue.lock:
            self._forget()
            return RateLimitStatistics(
                requests=self._total.calls + self._held.calls,
                tokens=self._total.tokens + self._held.tokens,
                waiting=len(self._queue),
                admitted=self._admitted,
            )

    def _size(self, tokens: int) -> int:
        return max(1, min(tokens, int(self._tokens)) if self.counts_tokens else tokens)

    def _count(self, calls: int, tokens: int) -> "_Entry":
        entry = _Entry(shared_time(), calls, tokens)
        self._entries.append(entry)
        self._total.add(calls, tokens)
        return entry

    def _forget(self) -> None:
        moment = shared_time()
        while self._entries and self._entries[0].at + self._period <= moment:
            old = self._entries.popleft()
            self._total.add(-old.calls, -old.tokens)
            old.calls = old.tokens = 0

    def _moment(self, calls: int, tokens: int) -> float:
        """Return when there will be room for this much, if nothing else begins or ends before."""
        self._forget()
        more_calls = self._total.calls + self._held.calls + calls - self._requests
        more_tokens = self._total.tokens + self._held.tokens + tokens - self._tokens
        moment = -math.inf
        for entry in self._entries:
            if more_calls <= 0 and more_tokens <= 0:
                break
            more_calls -= entry.calls
            more_tokens -= entry.tokens
            moment = entry.at + self._period
        return moment if more_calls <= 0 and more_tokens <= 0 else math.inf

    def _change(self, entry: "_Entry", calls: int, tokens: int) -> None:
        """Change an entry, unless it does not count any more."""
        self._forget()
        if entry.calls or entry.tokens:
            self._total.add(calls - entry.calls, tokens - entry.tokens)
            entry.calls, entry.tokens = calls, tokens


class Reservation:
    """A call that a rate limit let through; in its `with` block it holds its reserve."""

    def __init__(self, limit: RateLimit, entry: "_Entry") -> None:
        """Made by `RateLimit.acquire`."""
        self._limit = limit
        self._entry = entry
        self._reserve = entry.tokens
        self._is_held = self._has_begun = self._is_settled = False

    def __enter__(self) -> Self:
        """Hold the place and the reserve until they are used."""
        limit = self._limit
        with limit._queue.lock:
            limit._change(self._entry, 0, 0)
            limit._held.add(1, self._reserve)
            limit._running += 1
            self._is_held = True
        return self

    def __exit__(self, *_exit: object) -> None:
        """Count the whole reserve as used, unless it was settled."""
        self.settle(self._reserve)

    def begin(self) -> None:
        """Count the call from now on, after something else has held it up in its block."""
        limit = self._limit
        with limit._queue.lock:
            if self._is_held and not self._has_begun:
                self._has_begun = True
                limit._held.add(-1, 0)
                limit._count(1, 0)

    def settle(self, tokens: int) -> None:
        """Replace the reserve by the tokens that the call used; only the first time counts."""
        limit = self._limit
        with limit._queue.lock:
            if self._is_settled:
                return
            self.begin()
            self._is_settled = True
            used = max(1, tokens if limit.counts_tokens else self._reserve)
            if self._is_held:
                limit._running -= 1
                limit._held.add(0, -self._reserve)
                limit._count(0, used)  # from now on: most of them were used at the end
            elif used > self._reserve:
                limit._count(0, used - self._reserve)
            else:
                limit._change(self._entry, self._entry.calls, used)
            limit._queue.wake()

    def cancel(self) -> None:
        """Count nothing: the call was given up in its block before it began."""
        limit = self._limit
        with limit._queue.lock:
            if self._is_held and not self._has_begun and not self._is_settled:
                self._is_settled = True
                limit._running -= 1
                limit._held.add(-1, -self._reserve)
                limit._queue.wake()


class _Entry(msgspec.Struct):
    """Requests and tokens that began at one time."""

    at: float
    calls: int
    tokens: int

    def add(self, calls: int, tokens: int) -> None:
        self.calls += calls
        self.tokens += tokens


class ConcurrencyStatistics(msgspec.Struct, frozen=True):
    """A snapshot of one concurrency limit.

    Attributes:
        concurrency: calls that may run at the same time.
        running: calls that run.
        waiting: calls that wait for one to end.
    """

    concurrency: int
    running: int
    waiting: int


class ConcurrencyLimit:
    """Allows `concurrency` calls to run at the same time; the call that has waited longest is next.

    Share one object between everything that it limits together, such as the agents that use one
    server, in any event loops and threads. A cancelled wait leaves the queue and uses nothing.

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

    def __init__(self, concurrency: int) -> None:
        if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
            raise ConfigurationError(
                f"a concurrency of {concurrency!r} calls makes no sense",
                hint="give a whole number, 1 or more",
            )
        self._concurrency = concurrency
        self._queue = WaitQueue()  # its lock guards the number that run
        self._running = 0

    def __repr__(self) -> str:
        return f"ConcurrencyLimit({self._concurrency})"

    @property
    def is_free(self) -> bool:
        """Whether a call could begin at once."""
        return self._running < self._concurrency and not self._queue

    @trio.lowlevel.enable_ki_protection  # who is admitted also enters its block
    async def acquire(self) -> None:
        """Wait until a call may begin."""
        await self._queue.wait(self._admit)

    def _admit(self) -> float | None:
        if self._running >= self._concurrency:
            return math.inf
        self._running += 1
        return None

    def force(self) -> None:
        """Begin at once, even beyond the limit, for a call that is already running.

        No other call begins until the excess has ended.
        """
        with self._queue.lock:
            self._running += 1

    @trio.lowlevel.enable_ki_protection  # a place that is taken is given back
    def release(self) -> None:
        """Record that a call has ended; the one that has waited longest begins."""
        with self._queue.lock:
            self._running -= 1
            self._queue.wake()

    async def call(self, fn: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> T:
        """Call an async function in turn.

        Raises:
            Exception: the function raised it.
        """
        async with self:
            return await fn(*args)

    @trio.lowlevel.enable_ki_protection
    async def __aenter__(self) -> None:
        """Wait until the block may begin."""
        await self.acquire()

    @trio.lowlevel.enable_ki_protection
    async def __aexit__(self, *_exit: object) -> None:
        """Allow the next call to begin."""
        self.release()

    def statistics(self) -> ConcurrencyStatistics:
        """Return how many calls run and wait."""
        with self._queue.lock:
            return ConcurrencyStatistics(self._concurrency, self._running, len(self._queue))
