"""Policies for any async code: retry, circuit breaker, limits and budgets.

The first three have `await policy.call(fn, *args)`, so they compose:
`retry.call(breaker.call, fn, x)`. Modules: `retry` (with back-off), `breaker`, `limits` (rate and
concurrency), `gate` (what all calls with one key learn from a refusal), `budget`, and `meter` (by
which a budget may refuse a wait). What is shared may be used in several event loops, one after the
other or at once: `clock` and `waiting` see to that.
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
    TokenBudget as TokenBudget,
)
from greenroom.resilience.clock import shared_time as shared_time
from greenroom.resilience.gate import (
    Gate as Gate,
    Passage as Passage,
    shared_gate as shared_gate,
)
from greenroom.resilience.limits import (
    ConcurrencyLimit as ConcurrencyLimit,
    ConcurrencyStatistics as ConcurrencyStatistics,
    RateLimit as RateLimit,
    RateLimitStatistics as RateLimitStatistics,
    Reservation as Reservation,
)
from greenroom.resilience.meter import (
    Meter as Meter,
    current_meter as current_meter,
    use_meter as use_meter,
)
from greenroom.resilience.reply_size import ReplySize as ReplySize
from greenroom.resilience.retry import (
    Attempts as Attempts,
    Backoff as Backoff,
    Retry as Retry,
    is_retryable as is_retryable,
    retry_after as retry_after,
    seed_jitter as seed_jitter,
)
from greenroom.resilience.waiting import take_ticket as take_ticket
