"""Retry: call again what failed, for a limited time.

A `Backoff` decides how long to wait; a retry inside another one makes a single attempt.
"""

import math
import random as _random
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TypeVar, TypeVarTuple, Unpack

import msgspec
import trio

from greenroom.core import BudgetExceededError, ConfigurationError, GreenroomError
from greenroom.core._internal import leaves
from greenroom.resilience.meter import current_meter

# The attempt of the running code. Tasks outside the attempt inherit it as well: a task started in
# an outer nursery, such as a subagent in its parent's, goes on when the attempt fails, and is not
# repeated. So the attempt counts only in its own task tree, and only while it lasts.
_current: ContextVar["Attempt | None"] = ContextVar("greenroom_attempt", default=None)


_chance: _random.Random = _random.SystemRandom()


def _draw() -> float:
    return _chance.random()


def seed_jitter(seed: int | None) -> None:
    """Make the default jitter of this process repeatable, for tests; None makes it random again."""
    global _chance  # noqa: PLW0603
    _chance = _random.SystemRandom() if seed is None else _random.Random(seed)  # noqa: S311


class Attempt:
    """One attempt of a call; a stream enters and leaves it several times while it is read."""

    def __init__(self) -> None:
        self._task: trio.lowlevel.Task | None = None
        self._depth = 0
        self._outer: Attempt | None = None

    def __enter__(self) -> None:
        """Mark what runs in the block as part of this attempt."""
        self._task = task = trio.lowlevel.current_task()
        self._depth = len(task.child_nurseries)
        self._outer = _current.get()
        _current.set(self)

    def __exit__(self, *_exit: object) -> None:
        self._task = None
        _current.set(self._outer)

    @property
    def holds_caller(self) -> bool:
        """Whether the caller is part of the attempt: its task, or one below its nurseries."""
        if self._task is None:
            return False  # it is over, and a task that outlives it inherited the variable
        each = trio.lowlevel.current_task()
        while each is not self._task:
            nursery = each.parent_nursery
            if nursery is None:
                return False
            root = nursery.parent_task
            if root is self._task:
                return nursery in root.child_nurseries[self._depth :]
            if root.parent_nursery is None and nursery not in root.child_nurseries[-1:]:
                return True  # a thread of the attempt calls back, in a system task
            each = root
        return True


def is_in_attempt() -> bool:
    """Whether the caller is part of an attempt that an outer retry will repeat."""
    attempt = _current.get()
    return attempt is not None and attempt.holds_caller


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Delays that grow by a factor up to a limit, each randomly shortened.

    The n-th delay is `min(max_delay, first * factor ** (n - 1)) * (1 - jitter * U)`, with a new U
    from [0, 1) each time. A jitter of 1 is the "full jitter", and 0.5 the "equal jitter", of Marc
    Brooker's "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015): calls that failed
    together do not come back together.

    Attributes:
        first: seconds of the first delay, before jitter.
        factor: by how much each delay is longer than the one before it.
        max_delay: seconds that no delay exceeds.
        jitter: the share of a delay that may be cut at random, from 0 to 1.
        random: draws from [0, 1); tests may replace it.

    Raises:
        ConfigurationError: a negative delay, a factor below 1, a `max_delay` below the first, or a
            jitter outside 0 to 1.

    Example:
        >>> [Backoff(first=1, max_delay=5, jitter=0).delay(n) for n in (1, 2, 3, 4)]
        [1.0, 2.0, 4.0, 5.0]
    """

    first: float = 0.1
    factor: float = 2.0
    max_delay: float = 30.0
    jitter: float = 0.5
    random: Callable[[], float] = _draw

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        # Written so that NaN, for which every comparison is false, is refused as well.
        if not 0 <= self.first <= self.max_delay < float("inf"):
            raise ConfigurationError(
                "Backoff needs 0 <= first <= max_delay, and a finite max_delay"
            )
        if not 1 <= self.factor < float("inf"):
            raise ConfigurationError("Backoff.factor must be 1 or more")
        if not 0 <= self.jitter <= 1:
            raise ConfigurationError("Backoff.jitter is a share: it must be from 0 to 1")

    def delay(self, n: int) -> float:
        """Return the seconds to wait before the n-th new attempt, counted from 1.

        Raises:
            ValueError: `n` is below 1.
        """
        if n < 1:
            raise ValueError(f"attempts are counted from 1, and this is {n}")
        return self._full(n) * (1.0 - self.jitter * self.random())

    def _full(self, n: int) -> float:
        try:
            return min(self.max_delay, self.first * math.pow(self.factor, n - 1))
        except OverflowError:
            return self.max_delay if self.first else 0.0


T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def is_retryable(error: BaseException) -> bool:
    """Whether an error says that the same call may succeed later.

    True for a `GreenroomError` with `retryable`, and for a group of nothing but such errors.

    Example:
        >>> from greenroom.llm import ModelBadRequestError, ModelOverloadedError
        >>> is_retryable(ModelOverloadedError("busy")), is_retryable(ModelBadRequestError("no"))
        (True, False)
    """
    return all(isinstance(leaf, GreenroomError) and leaf.retryable for leaf in leaves(error))


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """Calls a function again after it failed, with growing delays.

    By default it holds out for ten minutes, however many attempts that takes. The delay is the
    back-off's, plus the time that the error asks to wait (`retry_after`). If the wait would end
    after `deadline` seconds, or after the deadline of a cancel scope around the call, the error is
    raised at once. In a model call of an agent its budgets are checked first, and each further
    attempt counts as a model call.

    A retry inside an attempt of another one makes a single attempt, so of nested retries only the
    outermost retries. This covers all tasks in nurseries that were opened in the attempt; a task
    outside it, such as a subagent, retries on its own.

    Only an `Exception` is retried, never a cancel. A retry has no state, so one object serves any
    number of calls at the same time.

    Attributes:
        attempts: the most calls, the first one included; None for as many as there is time for.
        deadline: seconds after the start of the first call in which another may start. A running
            call is not cut off: use `trio.fail_after` inside the call for that.
        backoff: the delays; by default 1 to 2 seconds, then 2 to 4 and so on, up to 15 to 30.
        retryable: whether to retry after an error; by default, whether the error is retryable.

    Raises:
        ConfigurationError: fewer than one attempt, or a time that is negative or not a number.

    Example:
        >>> import trio
        >>> from greenroom.llm import ModelOverloadedError
        >>> answers = iter([ModelOverloadedError("busy"), "hello"])
        >>> async def ask(question: str) -> str:
        ...     answer = next(answers)
        ...     if isinstance(answer, Exception):
        ...         raise answer
        ...     return answer
        >>> trio.run(Retry(backoff=Backoff(first=0.01)).call, ask, "hi")
        'hello'
    """

    attempts: int | None = None
    deadline: float = 600.0
    backoff: Backoff = Backoff(first=2.0, max_delay=30.0, jitter=0.5)
    retryable: Callable[[Exception], bool] = is_retryable

    def __post_init__(self) -> None:
        """Refuse invalid values."""
        attempts = 1 if self.attempts is None else self.attempts
        if isinstance(attempts, bool) or not isinstance(attempts, int):
            raise ConfigurationError(f"Retry.attempts is {attempts!r}, not a whole number")
        if attempts < 1:
            raise ConfigurationError("Retry.attempts must be 1 or more: the first call is one")
        if not 0 <= self.deadline < math.inf:
            raise ConfigurationError("Retry.deadline must be 0 or more, and finite")

    async def call(self, fn: Callable[[Unpack[Ts]], Awaitable[T]], *args: *Ts) -> T:
        """Call an async function until it returns, or its error is final.

        Raises:
            Exception: the last attempt raised it; its `hint`, or a note, says why it was the last.
            BudgetExceededError: a budget refuses the wait or the attempt; its cause is the error.
        """
        attempts = Attempts(self)
        while True:
            try:
                with attempts.current:
                    return await fn(*args)
            except Exception as error:
                seconds = attempts.plan(error)
                if seconds is None:
                    raise
                attempts.check()
            await attempts.wait(seconds)


class Attempts:
    """The attempts of one call, for code that is more than a function, such as a stream.

    Run each attempt, or each part of one, in `with attempts.current:` and pass its error to `plan`.
    If that returns seconds, call `check` and await `wait`. `Retry.call` does exactly this.

    Args:
        retry: how often and how long.
        nests: whether the retry of an attempt around this one repeats all of it. Pass False for
            what no other retry does, such as asking for a reply in another form.
    """

    def __init__(self, retry: Retry, *, nests: bool = True) -> None:
        """Begin with the first attempt; its time starts now."""
        self.retry = retry
        self.number = 1
        """The attempt that runs or comes next, counted from 1."""
        self._began = trio.current_time()
        self.current = Attempt()
        """The block of the running attempt, by which a retry inside recognises it."""
        self._is_nested = nests and is_in_attempt()
        self._error: BaseException | None = None

    def plan(self, error: Exception, seconds: float | None = None) -> float | None:
        """Return the seconds to wait before the next attempt, or None if the error is final.

        A final error gets a hint, or a note, with the reason.

        Args:
            error: the error of the last attempt.
            seconds: how long something else, such as a gate, will hold up the next attempt; it
                takes the place of the back-off.

        Raises:
            BudgetExceededError: a budget refuses the wait; its cause is the error.
        """
        if self._is_nested or not self.retry.retryable(error):
            return None
        if self.retry.attempts is not None and self.number >= self.retry.attempts:
            self._explain(error, "")
            return None
        asked, left = max(retry_after(error), seconds or 0.0), self.seconds_left
        # Calls that were refused together must not come back together, so the back-off is added.
        seconds = asked + self.retry.backoff.delay(self.number) if seconds is None else asked
        if (asked or seconds) > left:
            bound = f"{self.retry.deadline:g} s in which attempts may begin"
            wait = _format_seconds(asked or seconds)
            self._explain(error, f"a wait of {wait} would pass the {bound}")
            return None
        return self._admit(error, min(seconds, left))

    def _admit(self, error: Exception, seconds: float) -> float | None:
        """Check the wait against the budgets and the deadline around this call."""
        try:
            current_meter().check_wait(seconds)
        except BudgetExceededError as refusal:
            raise refusal from error
        deadline = trio.current_effective_deadline()
        if -math.inf < deadline <= trio.current_time() + seconds:  # -inf: the wait raises Cancelled
            left = max(0.0, deadline - trio.current_time())
            wait, rest = _format_seconds(seconds), _format_seconds(left)
            self._explain(error, f"the wait of {wait} would pass the deadline in {rest}")
            return None
        self.number += 1
        self._error = error
        return seconds

    def announce(self, seconds: float) -> str:
        """Say when the next attempt comes, such as "attempt 2 of 4 in 1.5 s"."""
        most = "" if self.retry.attempts is None else f" of {self.retry.attempts}"
        return f"attempt {self.number}{most} in {seconds:.1f} s"

    @property
    def seconds_left(self) -> float:
        """How long from now another attempt may begin."""
        return self._began + self.retry.deadline - trio.current_time()

    def extend(self, seconds: float) -> None:
        """Leave a wait out of the time, such as that for a limit that the caller has set."""
        self._began += seconds

    def renew(self, error: Exception) -> None:
        """Start over with another target after this error; then call `check` and `wait(0)`."""
        self.number, self._began, self._error = 1, trio.current_time(), error

    def check(self) -> None:
        """Ask the budgets around this call for a further attempt, once the last is counted.

        Raises:
            BudgetExceededError: one refuses it; its cause is the error of the last attempt.
        """
        try:
            current_meter().check_attempt()
        except BudgetExceededError as refusal:
            raise refusal from self._error

    def _explain(self, error: Exception, why: str) -> None:
        """Add the reason to a final error."""
        attempts = f"{self.number} attempts failed" if self.number > 1 else ""
        text = "; ".join(filter(None, (attempts, why)))
        if not text:
            return
        if isinstance(error, GreenroomError):
            error.add_hint(text)
        else:
            error.add_note(text)

    async def wait(self, seconds: float) -> None:
        """Wait before the next attempt, and count it with the budgets around this call.

        Raises:
            BudgetExceededError: a budget was spent meanwhile; its cause is the last error.
        """
        await trio.sleep(seconds)
        try:
            current_meter().begin_attempt()
        except BudgetExceededError as refusal:
            raise refusal from self._error


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"


def retry_after(error: BaseException) -> float:
    """Return the seconds that an error asks to wait, the most of a group of errors, or 0."""
    asked = (getattr(leaf, "retry_after", None) for leaf in leaves(error))
    return max((each for each in asked if isinstance(each, int | float) and each > 0), default=0.0)
