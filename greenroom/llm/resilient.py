"""`resilient`: a model that tries again, waits its turn, and lets another one answer."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
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
    clip,
    describe_error,
    visible,
)
from greenroom.llm.attempt import CallLimit, ModelAttempt, Target
from greenroom.llm.draft import Draft
from greenroom.llm.events import Announcement, StreamEnd, StreamEvent, StreamRestart
from greenroom.llm.provider import KnowsSchemas, LLMProvider
from greenroom.llm.stream import ModelStream, collect
from greenroom.resilience import Attempts, CircuitBreaker, Retry, current_meter

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
