"""Policies that work alone, on any async code: retry, breaker, limits, budgets.

A policy that calls has `await policy.call(fn, *args)`, so that they compose: `retry.call(breaker.call,
fn, x)`. Modules: `retry` with `backoff` (how long to wait) and `attempt` (a retry inside a retry makes one),
`breaker`, `rate_limit`, `concurrency`, `budget`, and `meter` (who may refuse a wait).
"""

from greenroom.resilience.backoff import Backoff as Backoff
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
    TokenBudget as TokenBudget,
)
from greenroom.resilience.concurrency import (
    ConcurrencyLimit as ConcurrencyLimit,
    ConcurrencyStatistics as ConcurrencyStatistics,
)
from greenroom.resilience.meter import (
    Meter as Meter,
    current_meter as current_meter,
    metered as metered,
)
from greenroom.resilience.rate_limit import (
    RateLimit as RateLimit,
    RateLimitStatistics as RateLimitStatistics,
    Reservation as Reservation,
)
from greenroom.resilience.retry import (
    Attempts as Attempts,
    Retry as Retry,
    is_retryable as is_retryable,
    retry_after as retry_after,
)
