"""Circuit breaker: stop calling a target that keeps failing, and probe it after a while."""

import math
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TypeVar, TypeVarTuple, Unpack

import msgspec
import trio

from greenroom.core import ConfigurationError, GreenroomError
from greenroom.resilience.clock import shared_time
from greenroom.resilience.retry import is_retryable

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class CircuitOpenError(GreenroomError):
    """Too many calls of this target have failed lately, so this one was not tried.

    Attributes:
        target: what the circuit breaker protects, such as "anthropic".
        retry_after: seconds until it lets a call through again.
    """

    retryable = True
    remedy = "wait for `retry_after` seconds, or use another target"

    def __init__(
        self, message: str, *, target: str = "", retry_after: float = 0.0, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.target = target
        self.retry_after = retry_after


class CircuitState(StrEnum):
    """Whether calls go through."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class CircuitStatistics(msgspec.Struct, frozen=True):
    """A snapshot of one circuit breaker.

    Attributes:
        target: what it protects.
        state: whether calls go through.
        failures: failures since the last success, `CircuitBreaker.failures` at the most.
        running: calls that were let through and have not ended.
        succeeded: calls that ended well, or with an error that says nothing about the target.
        failed: calls that failed.
        refused: calls that were not let through.
        opened: how often it opened.
        retry_after: seconds until it lets a call through again; 0 unless it is open.
    """

    target: str
    state: CircuitState
    failures: int
    running: int
    succeeded: int
    failed: int
    refused: int
    opened: int
    retry_after: float


def is_outage(error: Exception) -> bool:
    """Whether an error is the fault of the target, not of the call.

    True for a retryable error, such as an overloaded model, and for any error that is not one of
    Greenroom's, such as the crash of a tool. An error like `ModelBadRequestError` shows that the
    target answers, and `CircuitOpenError` that it was not called.

    Example:
        >>> from greenroom.llm import ModelBadRequestError
        >>> is_outage(ConnectionResetError()), is_outage(ModelBadRequestError("no"))
        (True, False)
    """
    if isinstance(error, CircuitOpenError):
        return False
    return is_retryable(error) or not isinstance(error, GreenroomError)


class CircuitBreaker:
    """Refuses calls to a target that keeps failing, so callers do not wait for it.

    While closed, it lets every call through. After `failures` failures within `period` seconds,
    with no success between them, it opens: calls raise `CircuitOpenError` at once. After `cooldown`
    seconds it is half open, and lets one call through as a probe. If the probe succeeds, the
    circuit closes; if it fails, the circuit stays open for another `cooldown`. If the probe is
    cancelled, or has not ended after `cooldown`, the next call becomes a probe as well.

    One object protects one target, such as a provider, for all its callers, in any event loops and
    threads. Use `call`, or `async with breaker:` around the code that calls the target.

    Args:
        target: the name of what it protects, for errors and statistics.
        failures: failures in a row that open it.
        period: seconds within which they count.
        cooldown: seconds from opening to the next call.
        counts: whether an error counts as a failure; any other shows that the target answers.

    Raises:
        ConfigurationError: `failures` is below 1, or a time is negative or not a number.

    Example:
        >>> import trio
        >>> breaker = CircuitBreaker("printer", failures=1)
        >>> async def fail() -> None:
        ...     raise ConnectionError("no paper")
        >>> async def main() -> None:
        ...     for _ in range(2):
        ...         try:
        ...             await breaker.call(fail)
        ...         except Exception as error:
        ...             print(type(error).__name__, breaker.state)
        >>> trio.run(main)
        ConnectionError open
        CircuitOpenError open
    """

    def __init__(
        self,
        target: str = "",
        *,
        failures: int = 5,
        period: float = 60.0,
        cooldown: float = 30.0,
        counts: Callable[[Exception], bool] = is_outage,
    ) -> None:
        if isinstance(failures, bool) or not isinstance(failures, int) or failures < 1:
            raise ConfigurationError("CircuitBreaker.failures must be a whole number, 1 or more")
        if not (0 <= period < math.inf and 0 <= cooldown < math.inf):
            raise ConfigurationError(
                "CircuitBreaker: period and cooldown must be 0 or more, finite"
            )
        self.target = target
        self._period = period
        self._cooldown = cooldown
        self._counts = counts
        self._lock = threading.RLock()  # guards all that follows
        self._failures = deque[float](maxlen=failures)  # the time of each
        self._open_until: float | None = None  # None while closed
        self._probe: CircuitCall | None = None
        self._calls: dict[trio.lowlevel.Task, list[CircuitCall]] = {}
        self._running = self._succeeded = self._failed = self._refused = self._opened = 0

    def __repr__(self) -> str:
        return f"CircuitBreaker({self.target!r})"

    @property
    def state(self) -> CircuitState:
        """Whether calls go through."""
        with self._lock:
            if self._open_until is None:
                return CircuitState.CLOSED
            is_over = shared_time() >= self._open_until
            return CircuitState.HALF_OPEN if is_over else CircuitState.OPEN

    def begin(self) -> "CircuitCall":
        """Begin a call; report its end with `end`.

        `call` and `async with` do both; this is for a call that takes more than one block.

        Raises:
            CircuitOpenError: the circuit is open, or half open with a probe running.
        """
        call = CircuitCall(self)
        with self._lock:
            state = self.state
            if state is CircuitState.OPEN or (state is CircuitState.HALF_OPEN and self._has_probe):
                self._refused += 1
                raise self._refusal()
            if state is CircuitState.HALF_OPEN:
                self._probe, call.opening = call, self._opened
            self._running += 1
        return call

    async def call(self, fn: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> T:
        """Call an async function, unless the circuit is open.

        Raises:
            CircuitOpenError: the circuit is open; the function was not called.
            Exception: the function raised it.
        """
        async with self:
            return await fn(*args)

    async def __aenter__(self) -> None:
        """Begin the block, or raise `CircuitOpenError`."""
        await trio.lowlevel.checkpoint()
        call = self.begin()  # first: a refused task must leave nothing behind
        self._calls.setdefault(trio.lowlevel.current_task(), []).append(call)

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Record how the block ended."""
        task = trio.lowlevel.current_task()
        self._calls[task].pop().end(error)
        if not self._calls[task]:
            del self._calls[task]

    def statistics(self) -> CircuitStatistics:
        """Return its state and counters."""
        with self._lock:
            return CircuitStatistics(
                target=self.target,
                state=self.state,
                failures=len(self._failures),
                running=self._running,
                succeeded=self._succeeded,
                failed=self._failed,
                refused=self._refused,
                opened=self._opened,
                retry_after=self._retry_after(),
            )

    def _end(self, call: "CircuitCall", error: BaseException | None) -> None:
        with self._lock:
            self._record(call, error)

    def _record(self, call: "CircuitCall", error: BaseException | None) -> None:
        self._running -= 1
        if call is self._probe:
            self._probe = None
        # A slow probe counts as well, even if another call has become the probe meanwhile.
        is_probe = call.opening == self._opened and self._open_until is not None
        if error is not None and not isinstance(error, Exception):
            return  # a cancel says nothing about the target
        if error is None or not self._counts(error):
            self._succeeded += 1
            if is_probe or self._open_until is None:  # not a call from before it opened
                self._failures.clear()
                self._open_until = None
        else:
            self._failed += 1
            self._failures.append(shared_time())
            if is_probe or (self._open_until is None and self._is_too_much()):
                self._opened += 1
                self._open_until = shared_time() + self._cooldown

    def _is_too_much(self) -> bool:
        times = self._failures
        return len(times) == times.maxlen and times[-1] - times[0] <= self._period

    @property
    def _has_probe(self) -> bool:
        probe = self._probe
        return probe is not None and shared_time() < probe.began + self._cooldown

    def _retry_after(self) -> float:
        if self._open_until is None:
            return 0.0
        return max(0.0, self._open_until - shared_time())

    def _refusal(self) -> CircuitOpenError:
        target, seconds = self.target or "the target", self._retry_after()
        count = len(self._failures)
        when = f"in {seconds:.3g} seconds" if seconds else "when its probe has ended"
        return CircuitOpenError(
            f"{target} has failed {count} time{'s' * (count != 1)} lately, "
            "so it is not called for now",
            target=self.target,
            retry_after=seconds,
            hint=f"it is tried again {when}",
        )


class CircuitCall:
    """A call that a circuit breaker let through; made by `CircuitBreaker.begin`."""

    def __init__(self, breaker: CircuitBreaker) -> None:
        self.began = shared_time()
        self.opening = 0
        """The number of the opening that it probes; 0 if it is not a probe."""
        self._breaker: CircuitBreaker | None = breaker

    def end(self, error: BaseException | None = None) -> None:
        """Report the end of the call, with its error if it failed; only the first report counts.

        A cancelled call says nothing about the target.
        """
        breaker, self._breaker = self._breaker, None
        if breaker is not None:
            breaker._end(self, error)

    def abandon(self) -> None:
        """Report that the call was given up, unless its end has been reported."""
        self.end(GeneratorExit())
