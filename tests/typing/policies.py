"""What type checkers see of policies; checked by mypy, never run."""

from typing import assert_type

from greenroom import LLMProvider, Message, Tool
from greenroom.agents import resilient_tool
from greenroom.llm import ModelRequest, resilient
from greenroom.resilience import CircuitBreaker, ConcurrencyLimit, RateLimit, Retry
from greenroom.resilience._internal import Reservation


async def fetch(url: str, size: int) -> bytes:
    """Return something."""
    return url.encode()[:size]


async def a_call_has_the_type_of_the_function(retry: Retry, breaker: CircuitBreaker) -> None:
    assert_type(await retry.call(fetch, "url", 1), bytes)
    assert_type(await retry.call(breaker.call, fetch, "url", 1), bytes)
    await retry.call(fetch, "url", "1")  # type: ignore[arg-type]


async def limits_are_blocks(rate: RateLimit, slots: ConcurrencyLimit) -> None:
    async with slots, rate as reservation:
        assert_type(reservation, Reservation)


async def a_resilient_model_is_a_model(
    llm: LLMProvider, ask: ModelRequest, rate: RateLimit
) -> None:
    model = resilient(
        llm, fallback=[llm], limits=[rate, ConcurrencyLimit(1)], after_output="restart"
    )
    assert_type(model, LLMProvider)
    assert_type(await Retry().call(model.generate, ask), Message)
    assert_type(resilient_tool(fetch, breaker=CircuitBreaker("it"), limits=rate), Tool)
