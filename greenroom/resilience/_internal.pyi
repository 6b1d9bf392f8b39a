from greenroom.resilience.breaker import CircuitCall as CircuitCall, CircuitState as CircuitState
from greenroom.resilience.budget import Limit as Limit
from greenroom.resilience.clock import shared_time as shared_time
from greenroom.resilience.gate import Gate as Gate, Passage as Passage, shared_gate as shared_gate
from greenroom.resilience.limits import Reservation as Reservation
from greenroom.resilience.meter import UseMeter as UseMeter, current_meter as current_meter
from greenroom.resilience.reply_size import ReplySize as ReplySize
from greenroom.resilience.retry import (
    Attempts as Attempts,
    is_retryable as is_retryable,
    seed_jitter as seed_jitter,
)
from greenroom.resilience.waiting import take_ticket as take_ticket
