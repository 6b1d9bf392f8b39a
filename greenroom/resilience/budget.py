"""Budgets: counters with limits, which know nothing of agents or models."""

import math
import sys
from collections.abc import Mapping
from itertools import count
from typing import Literal, Self, TypeAlias

import msgspec

from greenroom.core import BudgetExceededError, ConfigurationError
from greenroom.core._internal import Used, quantity
from greenroom.resilience.clock import loop_time, shared_time
from greenroom.resilience.limits import ConcurrencyLimit
from greenroom.resilience.reply_size import ReplySize
from greenroom.resilience.waiting import WaitQueue

Limit: TypeAlias = Literal[
    "seconds",
    "tokens",
    "input_tokens",
    "output_tokens",
    "cost",
    "model_calls",
    "tool_calls",
    "concurrency",
]
"""What a budget can limit."""

_NOUNS: dict[Limit, str] = {
    "seconds": "second",
    "tokens": "token",
    "input_tokens": "input token",
    "output_tokens": "output token",
    "cost": "",
    "model_calls": "model call",
    "tool_calls": "tool call",
}
"""The nouns of what is counted, in the order in which limits are checked."""

_MOST = sys.float_info.max

_numbers = count()


class BudgetStatistics(msgspec.Struct, frozen=True):
    """A snapshot of one budget.

    Attributes:
        limits: the limits that are set.
        used: what was used, limited or not.
        remaining: what is left of everything that is both limited and counted.
        deadline: when its time is over, on the running loop's clock; infinite without a limit, or
            before `start()`.
        running: calls that hold a slot; 0 where concurrency is not limited.
        waiting: calls that wait for a slot.
    """

    limits: dict[Limit, float]
    used: dict[Limit, float]
    remaining: dict[Limit, float]
    deadline: float
    running: int
    waiting: int


class Budget:
    """The limits of a scope, and one counter for everything below it.

    Agents that get the same object share it like one purse, in any event loops and threads. Tokens
    and cost are known only after a call, so each call reserves what it may use while it runs, and
    those for which nothing is left wait for its end. The last call may exceed a limit, since one
    that runs alone always begins; no other begins after it.

    Args:
        seconds: time from `start()` on.
        tokens: tokens sent and received.
        input_tokens: tokens sent, cached or not.
        output_tokens: tokens received.
        cost: money, in the currency of the models' prices.
        model_calls: calls of models.
        tool_calls: calls of tools.
        concurrency: tool calls at the same time.
        used: what has been used already, such as `session.used` of a session that is continued.
            Time always begins again.

    Raises:
        ConfigurationError: a limit is not a number, is negative, or allows nothing to run.

    Example:
        >>> budget = Budget(model_calls=2)
        >>> budget.count(model_calls=2, tokens=150)
        >>> budget.used["tokens"], budget.remaining
        (150, {'model_calls': 0})
        >>> budget.check()
        Traceback (most recent call last):
        ...
        greenroom.core.errors.BudgetExceededError: the budget is spent: 2 model calls
    """

    def __init__(
        self,
        *,
        seconds: float | None = None,
        tokens: int | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cost: float | None = None,
        model_calls: int | None = None,
        tool_calls: int | None = None,
        concurrency: int | None = None,
        used: Used | None = None,
    ) -> None:
        """Set the limits; None means no limit."""
        given: dict[Limit, float | None] = {
            "seconds": seconds,
            "tokens": tokens,
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "cost": cost,
            "model_calls": model_calls,
            "tool_calls": tool_calls,
            "concurrency": concurrency,
        }
        self._limits = {what: limit for what, limit in given.items() if limit is not None}
        for what, limit in self._limits.items():
            _check(what, limit)
        self._used = _amounts(used or Used())
        self._queue = WaitQueue()  # its lock guards what is used and reserved
        self._reserved: dict[Limit, float] = dict.fromkeys(self._used, 0)
        self._running = 0  # calls that hold a reserve
        self.replies = ReplySize()
        """How many tokens to reserve for a reply whose limit is not known."""
        self._until = math.inf  # on the clock that all loops share
        self._slots = None if concurrency is None else ConcurrencyLimit(concurrency)
        self.number = next(_numbers)
        """The number of the budget in this process. A call takes slots of several budgets newest
        first, so no two calls can wait for each other."""

    def __repr__(self) -> str:
        limits = ", ".join(f"{what}={limit}" for what, limit in self._limits.items())
        return f"{type(self).__name__}({limits})"

    def count(
        self,
        *,
        model_calls: int = 0,
        tool_calls: int = 0,
        tokens: int = 0,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cost: float = 0,
    ) -> None:
        """Count usage; a negative number gives back what was not used after all.

        `tokens` is the total of a call: the two other kinds are not added to it.
        """
        used = self._used
        with self._queue.lock:
            if model_calls:
                used["model_calls"] += model_calls
            if tool_calls:
                used["tool_calls"] += tool_calls
            if tokens or input_tokens or output_tokens or cost:
                used["tokens"] += tokens
                used["input_tokens"] += input_tokens
                used["output_tokens"] += output_tokens
                used["cost"] += cost
            if output_tokens > 0:
                self.replies.observe(output_tokens)

    async def reserve(self, amounts: Mapping[Limit, float]) -> None:
        """Wait until a call that may use so much fits beside those that run, and reserve it.

        With no other reserve it begins at once. Call `free` with the same amounts when its use has
        been counted.

        Raises:
            BudgetExceededError: one of these limits, or the time, is reached.
        """

        def admit() -> float | None:
            self.check("seconds", *amounts)
            if not self._has_room(amounts):
                return self._until
            self._running += 1
            self._add_reserve(amounts, 1)
            return None

        await self._queue.wait(admit)

    def has_room(self, amounts: Mapping[Limit, float]) -> bool:
        """Whether `reserve` would not wait."""
        with self._queue.lock:
            return not self._queue and self._has_room(amounts)

    def free(self, amounts: Mapping[Limit, float]) -> None:
        """Give back what `reserve` has reserved, and let the next call begin."""
        with self._queue.lock:
            self._running -= 1
            self._add_reserve(amounts, -1)
            self._queue.wake()

    def _has_room(self, amounts: Mapping[Limit, float]) -> bool:
        return not self._running or all(self._fits(*each) for each in amounts.items())

    def _fits(self, what: Limit, amount: float) -> bool:
        used = self._used[what] + self._reserved[what]
        return used + amount <= self._limits.get(what, math.inf)

    def _add_reserve(self, amounts: Mapping[Limit, float], sign: int) -> None:
        for what, amount in amounts.items():
            self._reserved[what] += sign * amount

    def start(self) -> None:
        """Start the time, unless it has started; called by the code that binds it to a scope."""
        with self._queue.lock:
            if self._until == math.inf and "seconds" in self._limits:
                self._until = shared_time() + self._limits["seconds"]

    def check(self, *limits: Limit) -> None:
        """Check these limits, or all.

        Raises:
            BudgetExceededError: a limit is reached.
        """
        if spent := self.describe_spent(*limits):
            raise BudgetExceededError(f"the budget is spent: {spent}")

    def describe_spent(self, *limits: Limit) -> str:
        """Describe the first of these limits, or of all, that is reached; empty if none is."""
        for what in limits or _NOUNS:
            limit = self._limits.get(what)
            if limit is not None and self._is_reached(what, limit):
                return quantity(limit, _NOUNS[what]) if _NOUNS[what] else f"a cost of {limit:g}"
        return ""

    def _is_reached(self, what: Limit, limit: float) -> bool:
        if what == "seconds":
            return shared_time() >= self._until
        return what in self._used and self._used[what] >= limit

    async def acquire(self) -> None:
        """Wait for a slot, first come first served; don't wait if concurrency is not limited."""
        if self._slots is not None:
            await self._slots.acquire()

    def acquire_nowait(self) -> None:
        """Take a slot at once, even beyond the limit, for a call that is already running.

        No other call gets a slot until the excess has been released.
        """
        if self._slots is not None:
            self._slots.force()

    def release(self) -> None:
        """Give a slot back; the call that has waited longest gets it."""
        if self._slots is not None:
            self._slots.release()

    def limits(self, what: Limit) -> bool:
        """Whether this is limited."""
        return what in self._limits

    @property
    def deadline(self) -> float:
        """When its time is over, on the running loop's clock; infinite without a limit."""
        return loop_time(self._until)

    @property
    def used(self) -> dict[Limit, float]:
        """What was used: tokens, cost, model and tool calls, limited or not."""
        return dict(self._used)

    @property
    def remaining(self) -> dict[Limit, float]:
        """What remains of each of these that is limited, never below 0."""
        return {
            what: max(limit - self._used[what], 0)
            for what, limit in self._limits.items()
            if what in self._used
        }

    def statistics(self) -> BudgetStatistics:
        """Return all its figures as they are now."""
        slots = self._slots.statistics() if self._slots else None
        return BudgetStatistics(
            limits=dict(self._limits),
            used=self.used,
            remaining=self.remaining,
            deadline=self.deadline,
            running=slots.running if slots else 0,
            waiting=slots.waiting if slots else 0,
        )


class TokenBudget(Budget):
    """A budget of tokens alone: a limit for those sent, those received, and both together.

    Use it like any `Budget`; of nested budgets, each ends its own scope.

    Args:
        max_input_tokens: tokens sent, cached or not.
        max_output_tokens: tokens received.
        max_total_tokens: both together.
        used: as for a `Budget`.

    Raises:
        ConfigurationError: a limit is not a whole number, or is negative.

    Example:
        >>> TokenBudget.default()
        TokenBudget(tokens=110000, input_tokens=100000, output_tokens=10000)
        >>> TokenBudget(max_output_tokens=2_000).remaining["output_tokens"]
        2000
    """

    def __init__(
        self,
        *,
        max_input_tokens: int = 100_000,
        max_output_tokens: int = 10_000,
        max_total_tokens: int = 110_000,
        used: Used | None = None,
    ) -> None:
        super().__init__(
            tokens=max_total_tokens,
            input_tokens=max_input_tokens,
            output_tokens=max_output_tokens,
            used=used,
        )
        self.max_input_tokens = max_input_tokens
        self.max_output_tokens = max_output_tokens
        self.max_total_tokens = max_total_tokens

    @classmethod
    def default(cls) -> Self:
        """Return a budget of 100,000 input tokens, 10,000 output tokens, and 110,000 together."""
        return cls()


def _amounts(used: Used) -> dict[Limit, float]:
    """Return what was used by the names of the limits."""
    return {
        "tokens": used.usage.total,
        "input_tokens": used.usage.sent,
        "output_tokens": used.usage.output_tokens or 0,
        "cost": used.usage.cost or 0,
        "model_calls": used.model_calls,
        "tool_calls": used.tool_calls,
    }


def _check(what: Limit, limit: object) -> None:
    """Refuse an invalid limit."""
    kinds = (int, float) if what in {"seconds", "cost"} else (int,)
    least = 1 if what == "concurrency" else 0
    if isinstance(limit, bool) or not isinstance(limit, kinds) or not least <= limit <= _MOST:
        number = "number" if float in kinds else "whole number"
        raise ConfigurationError(
            f"a budget of {limit!r} {what.replace('_', ' ')} makes no sense",
            hint=f"give a {number} that is {least} or more, or None for no limit",
        )
