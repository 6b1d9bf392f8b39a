"""Circuit breaker: stop calling what keeps failing, then probe it after a while."""

import math
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar, TypeVarTuple, Unpack

import trio

from greenroom.core import CircuitOpenError, ConfigurationError, GreenroomError
from greenroom.resilience.retry import is_retryable

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class CircuitState(StrEnum):
    """Whether calls go through."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True)
class CircuitStatistics:
    """A snapshot of one circuit breaker.

    Attributes:
        target: what it protects.
        state: whether calls go through.
        failures: failures since the last success, `CircuitBreaker.failures` at the most.
        running: calls that were let through and have not ended.
        succeeded: calls that have ended well, or with an error that says nothing about the target.
        failed: calls that have failed.
        refused: calls that were not let through.
        opened: how often it has opened.
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
    """Whether an error speaks against what was called, and not against the call.

    True for what is retryable, such as an overloaded model, and for any error that is not one of
    Greenroom's, such as the crash of a tool. An error like `ModelBadRequestError` shows that the
    target answers; `CircuitOpenError` that it was not called.

    Example:
        >>> from greenroom.core import ModelBadRequestError
        >>> is_outage(ConnectionResetError()), is_outage(ModelBadRequestError("no"))
        (True, False)
    """
    if isinstance(error, CircuitOpenError):
        return False
    return is_retryable(error) or not isinstance(error, GreenroomError)


class CircuitBreaker:
    """Refuses calls of a target that keeps failing, so that callers do not wait for it.

    Closed, it lets every call through. After `failures` failures without a success between them,
    within `window` seconds, it is open: calls raise `CircuitOpenError` at once. After `cooldown`
    seconds it is half open: one call is let through as a probe. If the probe succeeds the circuit
    is closed, if it fails the circuit is open for another `cooldown`; if it is cancelled, the next
    call is the probe, as it is where the probe has not ended after `cooldown`.

    One object protects one target, such as a provider, for all its callers. Use `call`, or
    `async with breaker:` around what calls the target.

    Args:
        target: what is protected, for errors and statistics.
        failures: failures in a row that open it.
        window: seconds in which they must lie.
        cooldown: seconds from opening to the next call.
        counts: whether an error counts as a failure; any other shows that the target answers.

    Raises:
        ConfigurationError: `failures` is below 1, or a time is negative or no number.

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
        window: float = 60.0,
        cooldown: float = 30.0,
        counts: Callable[[Exception], bool] = is_outage,
    ) -> None:
        """Begin closed."""
        if isinstance(failures, bool) or not isinstance(failures, int) or failures < 1:
            raise ConfigurationError("CircuitBreaker.failures must be a whole number, 1 or more")
        if not (0 <= window < math.inf and 0 <= cooldown < math.inf):
            raise ConfigurationError(
                "CircuitBreaker: window and cooldown must be 0 or more, finite"
            )
        self.target = target
        self._window = window
        self._cooldown = cooldown
        self._counts = counts
        self._failures = deque[float](maxlen=failures)  # when they were
        self._open_until: float | None = None  # None while closed
        self._probe: CircuitCall | None = None
        self._calls: dict[trio.lowlevel.Task, list[CircuitCall]] = {}
        self._running = self._succeeded = self._failed = self._refused = self._opened = 0

    def __repr__(self) -> str:
        return f"CircuitBreaker({self.target!r})"

    @property
    def state(self) -> CircuitState:
        """Whether calls go through."""
        if self._open_until is None:
            return CircuitState.CLOSED
        is_over = trio.current_time() >= self._open_until
        return CircuitState.HALF_OPEN if is_over else CircuitState.OPEN

    def begin(self) -> "CircuitCall":
        """Let a call through; report its end with `end`.

        `call` and `async with` do both; this is for a call that is more than one block.

        Raises:
            CircuitOpenError: the circuit is open, or half open and its probe is under way.
        """
        call = CircuitCall(self)
        state = self.state
        if state is CircuitState.OPEN or (state is CircuitState.HALF_OPEN and self._has_probe()):
            self._refused += 1
            raise self._refusal()
        if state is CircuitState.HALF_OPEN:
            self._probe = call
        self._running += 1
        return call

    async def call(self, fn: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> T:
        """Call an async function, unless the circuit is open.

        Raises:
            CircuitOpenError: it is; the function was not called.
            Exception: what the function raised.
        """
        async with self:
            return await fn(*args)

    async def __aenter__(self) -> None:
        """Let the block begin, or raise `CircuitOpenError`."""
        await trio.lowlevel.checkpoint()
        self._calls.setdefault(trio.lowlevel.current_task(), []).append(self.begin())

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Record how the block has ended."""
        task = trio.lowlevel.current_task()
        self._calls[task].pop().end(error)
        if not self._calls[task]:
            del self._calls[task]

    def statistics(self) -> CircuitStatistics:
        """Return its state and what it has counted."""
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
        self._running -= 1
        is_probe = call is self._probe
        if is_probe:
            self._probe = None
        if error is not None and not isinstance(error, Exception):
            return  # it was cancelled, which says nothing about the target
        if error is None or not self._counts(error):
            self._succeeded += 1
            if is_probe or self._open_until is None:  # not a call from before it opened
                self._failures.clear()
                self._open_until = None
        else:
            self._failed += 1
            self._failures.append(trio.current_time())
            if is_probe or (self._open_until is None and self._is_too_much()):
                self._opened += 1
                self._open_until = trio.current_time() + self._cooldown

    def _is_too_much(self) -> bool:
        times = self._failures
        return len(times) == times.maxlen and times[-1] - times[0] <= self._window

    def _has_probe(self) -> bool:
        probe = self._probe
        return probe is not None and trio.current_time() < probe.began + self._cooldown

    def _retry_after(self) -> float:
        if self._open_until is None:
            return 0.0
        return max(0.0, self._open_until - trio.current_time())

    def _refusal(self) -> CircuitOpenError:
        target, seconds = self.target or "the target", self._retry_after()
        count = len(self._failures)
        when = f"in {seconds:.3g} seconds" if seconds else "when the call that probes it has ended"
        return CircuitOpenError(
            f"{target} has failed {count} time{'s' * (count != 1)} lately, "
            "so it is not called for now",
            target=self.target,
            retry_after=seconds,
            hint=f"it is tried again {when}",
        )


class CircuitCall:
    """One call that a circuit breaker has let through; `CircuitBreaker.begin` makes it."""

    def __init__(self, breaker: CircuitBreaker) -> None:
        """Begin at this moment."""
        self.began = trio.current_time()
        self._breaker: CircuitBreaker | None = breaker

    def end(self, error: BaseException | None = None) -> None:
        """Report the end of the call, with its error or without; only the first report counts.

        A cancelled call says nothing about the target.
        """
        breaker, self._breaker = self._breaker, None
        if breaker is not None:
            breaker._end(self, error)

    def abandon(self) -> None:
        """Report that the call was given up, unless its end was reported before."""
        self.end(GeneratorExit())
