"""One attempt at one model: what it holds while it lasts, and what has come of it."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import TypeAlias

from greenroom.core import Message, ModelRequest, Usage
from greenroom.llm.events import BlockDelta, BlockEnd, StreamEnd, StreamEvent
from greenroom.llm.provider import LLMProvider
from greenroom.llm.stream import ModelStream
from greenroom.llm.tokens import EstimatedCounter, TokenCounter
from greenroom.resilience import (
    CircuitBreaker,
    CircuitCall,
    ConcurrencyLimit,
    RateLimit,
    Reservation,
)

CallLimit: TypeAlias = RateLimit | ConcurrencyLimit
"""What a call of a model may have to wait for."""


@dataclass(frozen=True)
class Target:
    """A model, and what guards it."""

    llm: LLMProvider
    breaker: CircuitBreaker | None = None
    limits: Sequence[CallLimit] = ()
    counter: TokenCounter = field(default_factory=EstimatedCounter)

    def estimate(self, request: ModelRequest) -> int:
        """Guess what a request takes, if a limit wants to know."""
        return self.counter.count(request, model=self.llm.model) if self._counts_tokens else 1

    def learn(self, request: ModelRequest, usage: Usage) -> None:
        """Guess better from what was reported."""
        if self._counts_tokens:
            self.counter.observe(request, usage, model=self.llm.model)

    @property
    def _counts_tokens(self) -> bool:
        return any(isinstance(each, RateLimit) and each.counts_tokens for each in self.limits)


class ModelAttempt:
    """Opens the stream of one attempt, and holds it, its place in the limits and in the circuit.

    Attributes:
        has_output: whether something of the reply has come that a reader sees.
    """

    def __init__(self, target: Target, request: ModelRequest) -> None:
        """Pass the circuit breaker.

        Raises:
            CircuitOpenError: it lets no call through.
        """
        self.target = target
        self.has_output = False
        self._request = request
        self._tokens = target.estimate(request)
        self._stack = AsyncExitStack()
        self._stream: ModelStream | None = None
        self._reservations: list[Reservation] = []
        self._circuit: CircuitCall | None = target.breaker.begin() if target.breaker else None

    def waiting(self) -> tuple[float, str] | None:
        """Say about how long, and for what, the limits will let it wait; None where they will not."""
        limits = self.target.limits
        rates = [each.wait_time(self._tokens) for each in limits if isinstance(each, RateLimit)]
        seconds = max(rates, default=0.0)
        if seconds > 0:
            return seconds, "the rate limit"
        is_full = any(isinstance(each, ConcurrencyLimit) and not each.is_free for each in limits)
        return (0.0, "other calls to end") if is_full else None

    async def receive(self) -> StreamEvent:
        """Wait for the next event, at first for the limits and the opening of the stream.

        Raises:
            ModelError: the request failed or the reply broke off; the attempt is over and closed.
        """
        try:
            if self._stream is None:
                self._stream = await self._open()
            event = await anext(self._stream)
        except Exception as error:
            if self._circuit is not None:
                self._circuit.end(error)
            await self.close(type(error), error, error.__traceback__)
            raise
        if isinstance(event, BlockDelta | BlockEnd):
            self.has_output = True
        if isinstance(event, StreamEnd):
            if self._circuit is not None:
                self._circuit.end()
            return StreamEnd(self._stream.message)  # with its cost
        return event

    async def _open(self) -> ModelStream:
        for limit in self.target.limits:
            if isinstance(limit, RateLimit):
                self._reservations.append(await limit.acquire(self._tokens))
            else:
                await self._stack.enter_async_context(limit)
        return await self._stack.enter_async_context(self.target.llm.stream(self._request))

    def partial(self) -> Message | None:
        """Return what has come, as a message; None where nothing was opened."""
        return None if self._stream is None else self._stream.partial()

    async def close(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the stream and give back what is held, as on leaving its block by this error.

        Once it is closed, this does nothing.
        """
        partial = self.partial()
        if partial is not None and partial.usage is not None and self._reservations:
            for reservation in self._reservations:
                reservation.settle(partial.usage.total)
            self._reservations.clear()
            self.target.learn(self._request, partial.usage)
        try:
            await self._stack.__aexit__(kind, error, trace)
        finally:
            if self._circuit is not None:
                self._circuit.abandon()
