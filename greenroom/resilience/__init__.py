"""Policies for any async code: retry, circuit breaker, limits and budgets.

The first three have `await policy.call(fn, *args)`, so they compose:
`retry.call(breaker.call, fn, x)`. Modules: `retry` (with back-off), `breaker`, `limits` (rate and
concurrency), and `budget` (with the meter that may refuse a wait).
"""

from greenroom.resilience.breaker import (
    CircuitBreaker as CircuitBreaker,
    CircuitCall as CircuitCall,
    CircuitState as CircuitState,
    CircuitStatistics as CircuitStatistics,
    is_outage as is_outage,
)
from greenroom.resilience.budget import (
    Budget as Budget,
    BudgetStatistics as BudgetStatistics,
    Limit as Limit,
    Meter as Meter,
    TokenBudget as TokenBudget,
    current_meter as current_meter,
    use_meter as use_meter,
)
from greenroom.resilience.limits import (
    ConcurrencyLimit as ConcurrencyLimit,
    ConcurrencyStatistics as ConcurrencyStatistics,
    RateLimit as RateLimit,
    RateLimitStatistics as RateLimitStatistics,
    Reservation as Reservation,
)
from greenroom.resilience.retry import (
    Attempts as Attempts,
    Backoff as Backoff,
    Retry as Retry,
    is_retryable as is_retryable,
    retry_after as retry_after,
)
