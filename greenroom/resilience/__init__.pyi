from greenroom.resilience.breaker import (
    CircuitBreaker as CircuitBreaker,
    CircuitOpenError as CircuitOpenError,
)
from greenroom.resilience.budget import Budget as Budget, TokenBudget as TokenBudget
from greenroom.resilience.limits import ConcurrencyLimit as ConcurrencyLimit, RateLimit as RateLimit
from greenroom.resilience.retry import Backoff as Backoff, Retry as Retry
