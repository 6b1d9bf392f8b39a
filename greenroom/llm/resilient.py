"""`resilient`: a model that tries again, waits its turn, and lets another one answer."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Literal, Self, TypeAlias

import trio

from greenroom.core import (
    BudgetExceededError,
    CircuitOpenError,
    ConfigurationError,
    GreenroomError,
    Message,
    ModelBadRequestError,
    ModelContextTooLongError,
    ModelError,
    ModelNotFoundError,
    ModelOutputError,
    ModelRequest,
    NetworkError,
    OutputSchema,
    Price,
    Usage,
    clip,
    describe_error,
    visible,
)
from greenroom.llm.provider import KnowsSchemas, LLMProvider
from greenroom.llm.stream import (
    Announcement,
    BlockDelta,
    BlockEnd,
    Draft,
    ModelStream,
    StreamEnd,
    StreamEvent,
    StreamRestart,
    collect,
)
from greenroom.llm.tokens import EstimatedCounter, TokenCounter
from greenroom.resilience import (
    Attempts,
    CircuitBreaker,
    CircuitCall,
    ConcurrencyLimit,
    RateLimit,
    Reservation,
    Retry,
    current_meter,
)

# ---- One attempt at one model: what it holds while it lasts, and what has come of it.

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


AfterOutput: TypeAlias = Literal["raise", "restart"]
"""What to do when a reply breaks off of which something was published already."""

_FAILURES = (ModelError, CircuitOpenError, NetworkError)
"""What is about the model; any other exception is a bug, and goes straight on."""

_OF_THE_REQUEST = (ModelBadRequestError, ModelContextTooLongError, ModelOutputError)
"""Errors that another model would not help with. A conversation that is too long is for its owner to shorten."""

_REASON = 300  # characters

_log = logging.getLogger("greenroom.llm")


def resilient(
    llm: LLMProvider,
    *,
    retry: Retry = Retry(),  # noqa: B008 (a frozen value)
    fallback: Sequence[LLMProvider] = (),
    breaker: CircuitBreaker | None = None,
    limit: CallLimit | Sequence[CallLimit] | None = None,
    after_output: AfterOutput = "raise",
) -> LLMProvider:
    """Make a model that tries again, waits its turn, and lets another one answer.

    It is used like any provider: it has the name and the model of `llm`, and its replies say who
    answered. Opening, waiting and retrying happen while its stream is read. Each wait is announced
    before it begins, by an `Announcement` that an agent publishes as a `Custom` chunk: `model.retry`
    before another attempt, `model.wait` where a limit lets it wait, `model.fallback` where another
    model takes over. A cancel ends a wait at once, and an agent's budgets may refuse it.

    Once a piece of the reply has been read, a failure is raised, so that nothing is said twice. With
    `after_output="restart"` the reply begins anew instead, and `reply.restarted` tells readers to drop
    what they have. `generate`, which shows nothing before the end, always begins anew. What a failed
    attempt reported of its usage is in the `StreamRestart` event, and counts in an agent's budgets.

    Only errors of models are retried; anything else is a bug and is raised at once.

    Args:
        llm: the model that is asked first.
        retry: how often, for how long, and which errors; for each model anew.
        fallback: models that are asked one after the other when the one before is given up: its
            attempts are used up, or its error would not go away (a key, a quota, a model that does
            not exist, an open circuit). A request that is refused as it is, by a content filter, or
            as too long, is not passed on.
        breaker: refuses calls of `llm` while it keeps failing. For a fallback, make that `resilient`
            with a breaker of its own; the retry is the outermost's.
        limit: what calls of `llm` have to wait for: a `RateLimit`, whose tokens are estimated before
            and settled by the reported usage after, a `ConcurrencyLimit`, or several, in their order.
        after_output: what to do when a reply breaks off of which something was read already.

    Raises:
        ConfigurationError: `after_output` is another word.
        TypeError: a model is only its name.

    Example:
        >>> from greenroom.llm.recorded import RecordedProvider
        >>> import trio
        >>> spare = RecordedProvider([Message.assistant("hello")])
        >>> model = resilient(RecordedProvider([]), fallback=[spare], retry=Retry(attempts=3))
        >>> model.name, model.model
        ('recorded', 'recording')
    """
    for each in (llm, *fallback):
        if isinstance(each, str):
            raise TypeError(f"{each!r} is the name of a model: pass open_model({each!r})")
    if after_output not in ("raise", "restart"):
        raise ConfigurationError(
            f"after_output is {after_output!r}", hint='write "raise" or "restart"'
        )
    limits = () if limit is None else (limit,) if isinstance(limit, CallLimit) else tuple(limit)
    targets = (Target(llm, breaker, limits), *map(Target, fallback))
    return _ResilientProvider(targets, retry, after_output)


class _ResilientProvider:
    """A model and those that it falls back on, as one provider."""

    def __init__(self, targets: Sequence[Target], retry: Retry, after_output: AfterOutput) -> None:
        self._targets = targets
        self._retry = retry
        self._after_output = after_output

    def __repr__(self) -> str:
        return f"resilient({', '.join(repr(target.llm) for target in self._targets)})"

    @property
    def name(self) -> str:
        return self._targets[0].llm.name

    @property
    def model(self) -> str:
        return self._targets[0].llm.model

    @property
    def price(self) -> Price | None:
        """Whether the costs are known: a price only where each of the models has one.

        Each reply is charged by the price of the model that gave it.
        """
        prices = [getattr(target.llm, "price", None) for target in self._targets]
        known = [price for price in prices if isinstance(price, Price)]
        if len(known) < len(prices):
            return None
        return next((price for price in known if not price.is_free), known[0])

    def accepts_output(self, output: OutputSchema) -> bool:
        """Whether each of the models has a mode of its own for this type."""
        llms = [target.llm for target in self._targets]
        return all(isinstance(llm, KnowsSchemas) and llm.accepts_output(output) for llm in llms)

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[ModelStream]:
        return _ResilientStream(self._targets, self._retry, self._after_output, request)

    async def generate(self, request: ModelRequest) -> Message:
        return await collect(_ResilientStream(self._targets, self._retry, "restart", request))

    async def aclose(self) -> None:
        async with AsyncExitStack() as stack:
            for target in self._targets:
                stack.push_async_callback(target.llm.aclose)


class _End(Draft):
    """The end of a reply; all that comes before it is in the draft of its attempt."""

    def add(self, event: StreamEvent) -> None:
        if isinstance(event, StreamEnd):
            super().add(event)


class _ResilientStream(ModelStream):
    """A reply that may take several attempts; it is its own block.

    An attempt is opened while the stream is read, and closed when it fails or the block is left.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        retry: Retry,
        after_output: AfterOutput,
        request: ModelRequest,
    ) -> None:
        super().__init__(targets[0].llm.name)
        self._draft = _End(targets[0].llm.name)
        self._target, *self._rest = targets
        self._retry = retry
        self._restarts = after_output == "restart"
        self._request = request
        self._attempt: ModelAttempt | None = None
        # What comes before the next attempt: first it is told, then waited for.
        self._told: Announcement | None = None
        self._pause: Callable[[], Awaitable[None]] | None = None
        self._given_up: list[Exception] = []  # the last error of each model that was given up
        self._failure: GreenroomError | None = None  # after which nothing more is tried

    async def __aenter__(self) -> Self:
        await trio.lowlevel.checkpoint()
        self._attempts = Attempts(self._retry)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._attempt is not None:
            await self._attempt.close(kind, error, trace)

    async def receive(self) -> Iterable[StreamEvent]:
        """Give the next event, or what to tell the reader before a wait; the next call waits.

        Raises:
            ModelError: the request failed for good.
            BudgetExceededError: a budget refuses to wait, or to try again.
        """
        if self._failure is not None:
            raise self._failure
        if self._told is not None:
            return self._tell(self._told)
        if self._pause is not None:
            await self._pause()
            self._pause = None
        try:
            with self._attempts.running():
                return await self._advance()
        except _FAILURES as error:
            try:
                return self._go_on(error)
            except GreenroomError as failure:
                self._failure = failure
                raise

    async def _advance(self) -> Iterable[StreamEvent]:
        if self._attempt is None:
            self._attempt = ModelAttempt(self._target, self._request)
            if waiting := self._attempt.waiting():
                current_meter().check_wait(waiting[0])
                return (self._about_wait(*waiting),)
        return (await self._attempt.receive(),)

    def partial(self) -> Message:
        """Return what has come of this attempt."""
        found = None if self._attempt is None else self._attempt.partial()
        return super().partial() if found is None else found

    # -- after a failure ------------------------------------------------------------------------

    def _go_on(self, error: ModelError | CircuitOpenError | NetworkError) -> list[StreamEvent]:
        """Choose what follows: another attempt, another model, or the error."""
        failed = self._attempt
        if failed is not None and failed.has_output and not self._restarts:
            raise error
        moves_on = bool(self._rest) and _is_for_another(error)
        seconds = self._plan(error, moves_on)
        if seconds is not None:
            told = self._about_retry(error, seconds)
            self._pause = partial(self._attempts.wait, seconds)
        elif moves_on:
            self._attempts.renew(error)
            self._given_up.append(error)
            before, self._target = self._target, self._rest.pop(0)
            told = self._about_fallback(error, before)
            self._pause = partial(self._attempts.wait, 0.0)
        else:
            raise self._final(error)
        self._attempt = None
        # Readers first learn what the attempt has used, so that budgets know of it.
        if dropped := _tell_dropped(failed):
            self._told = told
            return dropped
        return self._tell(told)

    def _plan(self, error: Exception, moves_on: bool) -> float | None:
        """Return how long to wait for this model; None where it is given up."""
        if moves_on and isinstance(error, CircuitOpenError):
            return None  # nobody waits for what is not even called
        try:
            return self._attempts.plan(error)
        except BudgetExceededError:
            if not moves_on:
                raise
            return None  # there is no time to wait, but another model may answer at once

    def _tell(self, told: Announcement) -> list[StreamEvent]:
        """Tell of the next attempt, unless a budget refuses it."""
        self._attempts.check()
        self._told = None
        return [told]

    def _final(self, error: Exception) -> Exception:
        """Return the error of the model that was asked first, with what became of the others."""
        if not self._given_up:
            return error
        first, *others = self._given_up
        told = "; ".join(f"then {clip(describe_error(each), _REASON)}" for each in (*others, error))
        if isinstance(first, GreenroomError):
            first.add_hint(told)
        first.__cause__ = error if error is not first else None
        return first

    # -- what readers are told ------------------------------------------------------------------

    def _about_retry(self, error: Exception, seconds: float) -> Announcement:
        number, most = self._attempts.number, self._retry.attempts
        data = self._data(error) | {"seconds": seconds, "attempt": number, "attempts": most}
        return _announce(
            "model.retry", data, f"{_reason(error)}; attempt {number} of {most} in {seconds:.1f} s"
        )

    def _about_fallback(self, error: Exception, before: Target) -> Announcement:
        data = self._data(error) | {"instead_of": f"{before.llm.name}:{before.llm.model}"}
        name = f"{self._target.llm.name}:{self._target.llm.model}"
        return _announce("model.fallback", data, f"{_reason(error)}; {name} answers instead")

    def _about_wait(self, seconds: float, reason: str) -> Announcement:
        data = self._data(None) | {"seconds": seconds, "reason": reason}
        name = f"{self._target.llm.name}:{self._target.llm.model}"
        about = f"about {seconds:.1f} s " if seconds else ""
        return _announce("model.wait", data, f"{name} waits {about}for {reason}")

    def _data(self, error: Exception | None) -> dict[str, object]:
        llm = self._target.llm
        data: dict[str, object] = {"provider": llm.name, "model": llm.model}
        if error is not None:
            data |= {"reason": _reason(error), "error": type(error).__name__}
        return data


def _is_for_another(error: Exception) -> bool:
    """Whether another model may not have this error."""
    return isinstance(error, ModelNotFoundError) or not isinstance(error, _OF_THE_REQUEST)


def _tell_dropped(failed: ModelAttempt | None) -> list[StreamEvent]:
    """Tell what of a failed attempt does not count."""
    found = None if failed is None else failed.partial()
    if failed is None or found is None:
        return []
    events: list[StreamEvent] = [StreamRestart(found)]
    if failed.has_output:
        data: dict[str, object] = {"provider": found.provider, "model": found.model}
        text = "the reply broke off and begins anew; what was said so far does not count"
        events.append(Announcement("reply.restarted", data, text))
    return events


def _reason(error: Exception) -> str:
    said = error.message if isinstance(error, GreenroomError) else str(error)
    return clip(" ".join(visible(said).split()), _REASON)


def _announce(kind: str, data: dict[str, object], text: str) -> Announcement:
    _log.info("%s", text)
    return Announcement(kind, data, text)
