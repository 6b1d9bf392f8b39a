"""One call of one model: its place in the limits and at the gate, its circuit, and its stream."""

import logging
import math
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TypeAlias
from weakref import WeakKeyDictionary

import msgspec
import trio

from greenroom.core import Message, ModelRequest, Usage
from greenroom.core._internal import notice
from greenroom.llm.model_errors import ModelOverloadedError, ModelQuotaError, ModelRateLimitError
from greenroom.llm.provider import LLMProvider
from greenroom.llm.stream import BlockDelta, BlockEnd, ModelStream, StreamEnd, StreamEvent
from greenroom.llm.tokens import EstimatedCounter, TokenCounter
from greenroom.resilience import CircuitBreaker, ConcurrencyLimit, RateLimit
from greenroom.resilience._internal import (
    Attempts,
    CircuitCall,
    Gate,
    Passage,
    ReplySize,
    Reservation,
    shared_gate,
)

CallLimit: TypeAlias = RateLimit | ConcurrencyLimit
"""A limit that a call of a model may have to wait for."""

_log = logging.getLogger("greenroom.llm")


class ModelTarget(msgspec.Struct, frozen=True):
    """A model with its circuit breaker, its limits and its gate."""

    llm: LLMProvider
    breaker: CircuitBreaker | None = None
    limits: Sequence[CallLimit] = ()
    gate: Gate | None = None
    counter: TokenCounter = msgspec.field(default_factory=EstimatedCounter)
    replies: ReplySize = msgspec.field(default_factory=ReplySize)

    @property
    def full_name(self) -> str:
        """The name of the model, as `provider:model`."""
        return f"{self.llm.name}:{self.llm.model}"

    @property
    def counts_tokens(self) -> bool:
        """Whether a limit needs to know the tokens of a request."""
        return any(isinstance(each, RateLimit) and each.counts_tokens for each in self.limits)


_gates: WeakKeyDictionary[object, Gate] = WeakKeyDictionary()


def gate_of(llm: LLMProvider) -> Gate:
    """Return the gate of a provider's account; a provider that names none has its own.

    An account is what the provider's limits count for, such as a key at a host.
    """
    account = getattr(llm, "account", None)
    if isinstance(account, str):
        return shared_gate(account)
    try:
        return _gates.setdefault(llm, Gate())
    except TypeError:  # it can't be hashed, or not be referred to weakly
        return Gate()


class ModelAttempt:
    """One call of one model, with its stream, its place in the limits and its circuit.

    Attributes:
        has_place: whether it has its place in the limits.
        has_output: whether a piece of the reply that a reader sees has been received.
    """

    def __init__(
        self,
        target: ModelTarget,
        request: ModelRequest,
        attempts: Attempts,
        ticket: int,
        *,
        expects_gate: bool,
    ) -> None:
        """Begin the call at the circuit breaker.

        Args:
            target: the model.
            request: what to send.
            attempts: the attempts that this is one of; their time bounds the wait at the gate.
            ticket: the place of the call at the gate.
            expects_gate: whether a wait there has been announced.

        Raises:
            CircuitOpenError: the circuit is open.
        """
        self.target = target
        self.has_place = self.has_output = False
        self._request = request
        self._attempts = attempts
        self._ticket = ticket
        self._alone, self._tokens = self._estimate()
        self._limits = AsyncExitStack()
        self._opened = AsyncExitStack()  # the provider's block, once it is entered
        self._stream: ModelStream | None = None
        self._reservations: list[Reservation] = []
        self._passage: Passage | None = None
        self._expects_gate = expects_gate
        self._is_sent = self._is_refused = False
        self._circuit: CircuitCall | None = target.breaker.begin() if target.breaker else None

    def _estimate(self) -> tuple[int, int]:
        """Return the tokens that the call will probably take, and those to reserve."""
        if not self.target.counts_tokens:
            return 1, 1
        sent = self.target.counter.count(self._request, model=self.target.llm.model)
        for limit in self.target.limits:
            if isinstance(limit, RateLimit) and limit.exceeds(sent):
                name = self.target.full_name
                notice(_log, f"a request of about {sent} tokens to {name} exceeds {limit!r} alone")
        expected = self.target.replies.expected
        most = self._request.max_tokens or expected
        return sent + min(expected, most), sent + most

    def expected_wait(self) -> tuple[float, str] | None:
        """Return about how many seconds it will have to wait, and for what; None for no wait.

        At first for its limits or the gate, whichever takes longer; once it has its place in the
        limits, for the gate, if that was not so before.
        """
        limits, gate = self.target.limits, self.target.gate
        at_gate = gate.wait_time(self._ticket) if gate and not self._expects_gate else 0.0
        rates = [each.wait_time(self._alone) for each in limits if isinstance(each, RateLimit)]
        seconds = 0.0 if self.has_place else max(rates, default=0.0)
        if at_gate > seconds:
            self._expects_gate = True
            return at_gate, "the provider, which refused other calls"
        if self.has_place:
            return None
        if seconds > 0:
            return (0.0 if math.isinf(seconds) else seconds), "the rate limit"
        is_full = any(isinstance(each, ConcurrencyLimit) and not each.is_free for each in limits)
        return (0.0, "other calls to end") if is_full else None

    @trio.lowlevel.enable_ki_protection  # a place that is taken is given back
    async def take_place(self) -> None:
        """Wait for the limits, which takes none of the time of the attempts."""
        began = trio.current_time()
        for limit in self.target.limits:
            if isinstance(limit, RateLimit):
                reservation = await limit.acquire(self._tokens, alone=self._alone)
                self._reservations.append(self._limits.enter_context(reservation))
            else:
                await self._limits.enter_async_context(limit)
        self._attempts.extend(trio.current_time() - began)
        self.has_place = True

    def wait_at_gate(self) -> float | None:
        """Return how long the gate will hold up the next attempt, if this one was refused.

        None leaves the wait to the retry, even where a late refusal finds the gate open again.
        """
        gate = self.target.gate
        seconds = gate.wait_time(self._ticket) if gate is not None and self._is_refused else 0.0
        return seconds if seconds >= 1 else None

    async def receive(self, most: int) -> list[StreamEvent]:
        """Return the next events, at most so many; the first call opens the stream, at the gate.

        Take its place before.

        Raises:
            ModelError: the request failed or the reply broke off; the attempt is closed.
        """
        try:
            if self._stream is None:
                self._stream = await self._open()
            events = await self._stream.take(most)
        except Exception as error:
            self._report(error)
            await self.close(error)
            raise
        if self._passage is not None:
            self._passage.accept()
        if not self.has_output:
            self.has_output = any(isinstance(each, BlockDelta | BlockEnd) for each in events)
        if events and isinstance(events[-1], StreamEnd):
            if self._circuit is not None:
                self._circuit.end()
            events[-1] = StreamEnd(self._stream.message)  # with its cost
        return events

    async def _open(self) -> ModelStream:
        if self.target.gate is not None:
            self._passage = await self._pass(self.target.gate)
        for reservation in self._reservations:
            reservation.begin()
        self._is_sent = True
        return await self._opened.enter_async_context(self.target.llm.stream(self._request))

    async def _pass(self, gate: Gate) -> Passage:
        """Wait at the gate, but not beyond the time of the attempts.

        Raises:
            ModelRateLimitError: that is over.
        """
        seconds = gate.wait_time(self._ticket)
        with trio.move_on_after(max(0.0, self._attempts.seconds_left)):
            if seconds <= self._attempts.seconds_left:
                return await gate.enter(self._ticket)
        raise ModelRateLimitError(
            f"{self.target.llm.name} refuses calls with this key for now",
            provider=self.target.llm.name,
            retry_after=gate.wait_time(self._ticket) or None,
            hint="try again later, or use another model",
        )

    def _report(self, error: Exception) -> None:
        """Tell the circuit and the gate how the provider has answered."""
        if not self._is_sent:
            return
        if self._circuit is not None:
            self._circuit.end(error)
        if self._passage is None:
            return
        is_limit = isinstance(error, ModelRateLimitError) and not isinstance(error, ModelQuotaError)
        asked = (
            isinstance(error, ModelOverloadedError | ModelRateLimitError) and error.retry_after
        ) or 0.0
        if is_limit or (isinstance(error, ModelOverloadedError) and asked):
            self._is_refused = True
            self._passage.refuse(asked, counts=is_limit)

    def partial(self) -> Message | None:
        """Return the reply so far, or None if the stream was not opened."""
        return None if self._stream is None else self._stream.partial()

    @trio.lowlevel.enable_ki_protection
    async def close(self, error: BaseException | None) -> None:
        """Close the stream, as if its block were left with this error, and free the limits.

        A second call does nothing.
        """
        self._settle()
        if self._passage is not None:
            self._passage.abandon()
        try:
            await _leave(self._opened, error)
        finally:
            await self._limits.aclose()
            if self._circuit is not None:
                self._circuit.abandon()

    def _settle(self) -> None:
        """Replace what the limits have reserved by what was used, as far as that is known."""
        reply = self.partial()
        usage = None if reply is None else reply.usage
        if not self._is_sent:
            for reservation in self._reservations:
                reservation.cancel()
        elif usage is not None:
            self._learn(usage)
        elif reply is None or self._is_refused:
            self._settle_all(0)
        # Otherwise what broke off may have used the whole reserve.
        self._reservations.clear()

    def _settle_all(self, tokens: int) -> None:
        for reservation in self._reservations:
            reservation.settle(tokens)

    def _learn(self, usage: Usage) -> None:
        self._settle_all(usage.total)
        self.target.replies.observe(usage.output_tokens or 0)
        if self._reservations and self.target.counts_tokens:
            self.target.counter.observe(self._request, usage, model=self.target.llm.model)


@trio.lowlevel.disable_ki_protection  # a provider may be the program's own code, and take long
async def _leave(block: AsyncExitStack, error: BaseException | None) -> None:
    trace = None if error is None else error.__traceback__
    await block.__aexit__(None if error is None else type(error), error, trace)
