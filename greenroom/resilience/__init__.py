"""Policies for any async code: retry, circuit breaker, limits and budgets.

The first three have `await policy.call(fn, *args)`, so they compose:
`retry.call(breaker.call, fn, x)`. Modules: `retry` (with back-off), `breaker`, `limits` (rate and
concurrency), `gate` (what all calls with one key learn from a refusal), `budget`, and `meter` (by
which a budget may refuse a wait). What is shared may be used in several event loops, one after the
other or at once: `clock` and `waiting` see to that.
"""

from greenroom.resilience.breaker import CircuitBreaker, CircuitOpenError
from greenroom.resilience.budget import Budget, TokenBudget
from greenroom.resilience.limits import ConcurrencyLimit, RateLimit
from greenroom.resilience.retry import Backoff, Retry

__all__ = [
    "Backoff",
    "Budget",
    "CircuitBreaker",
    "CircuitOpenError",
    "ConcurrencyLimit",
    "RateLimit",
    "Retry",
    "TokenBudget",
]
