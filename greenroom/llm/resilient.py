"""`resilient`: a model that retries, waits for limits, and falls back on other models."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from math import inf
from typing import Literal, TypeAlias

import trio
from msgspec.structs import replace

from greenroom.core import (
    BudgetExceededError,
    ConfigurationError,
    GreenroomError,
    Message,
    ModelRequest,
    NetworkError,
    Price,
)
from greenroom.core._internal import OutputSchema, clip, conceal_secrets, describe_error, visible
from greenroom.llm.catalog import find_window
from greenroom.llm.model_attempt import CallLimit, ModelAttempt, ModelTarget, gate_of
from greenroom.llm.model_errors import (
    ModelBadRequestError,
    ModelContextTooLongError,
    ModelError,
    ModelNotFoundError,
    ModelOutputError,
)
from greenroom.llm.model_names import open_inner
from greenroom.llm.provider import (
    LLMProvider,
    ProviderWrapper,
    accepts_forced_tool,
    accepts_output,
    price_of,
    window_of,
)
from greenroom.llm.stream import (
    Announcement,
    Draft,
    ModelStream,
    StreamEnd,
    StreamEvent,
    StreamRestart,
    collect,
)
from greenroom.llm.windows import ContextWindow
from greenroom.resilience import CircuitBreaker, CircuitOpenError, Retry
from greenroom.resilience._internal import Attempts, Gate, current_meter, take_ticket

AfterOutput: TypeAlias = Literal["raise", "restart"]
"""What to do if a reply breaks off after a piece of it was published."""

_FAILURES = (ModelError, CircuitOpenError, NetworkError)
"""Failures of the model; any other exception is a bug and is raised at once."""

_REQUEST_ERRORS = (ModelBadRequestError, ModelContextTooLongError, ModelOutputError)
"""Errors that another model would raise too; of these, the caller can shorten a conversation."""

_REASON = 300  # characters

_log = logging.getLogger("greenroom.llm")


def resilient(
    llm: LLMProvider | str,
    *,
    retry: Retry = Retry(),  # noqa: B008 (a frozen value)
    fallback: Sequence[LLMProvider | str] = (),
    breaker: CircuitBreaker | None = None,
    limits: CallLimit | Sequence[CallLimit] | None = None,
    after_output: AfterOutput = "raise",
) -> LLMProvider:
    """Make a model that retries, waits for limits, and falls back on other models.

    It is used like any provider: it has the name and the model of `llm`, and each reply names the
    model that answered. Opening, waiting and retrying happen while its stream is read. Each wait is
    announced before it begins, by an `Announcement` that an agent publishes as a `Custom` chunk:
    `model.retry` before another attempt, `model.wait` before waiting for a limit, `model.fallback`
    before asking another model. A cancel ends a wait at once, and an agent's budgets may refuse it.

    A failure after a piece of the reply has been read is raised, so that no text is shown twice.
    With `after_output="restart"` the reply starts over instead, and `reply.restarted` tells readers
    to drop what they have. `generate`, which shows nothing before the end, always starts over. The
    usage that a failed attempt reported is in the `StreamRestart` event, and counts in an agent's
    budgets.

    All models with one key at one host share a `Gate`: once the provider refuses a call of one, the
    others wait too, and then go on in order, at the pace that the provider accepts. Waiting there
    or for a limit is not an attempt, and waiting for a limit takes none of the retry's time.

    Only errors of models are retried; anything else is a bug and is raised at once.

    Args:
        llm: the model that is asked first, or its name; a name means the model as it is, without
            the retries that `open_model` adds.
        retry: how long and how often to retry, and which errors; each model starts again. With a
            fallback, you may not want to wait ten minutes for the first model.
        fallback: models to ask, in this order, when the one before is given up: its time or its
            attempts are used up, or waiting would not cure its error (a key, a quota, a model that
            does not exist, an open circuit). A request that is invalid, too long, or refused by a
            content filter is not passed on.
        breaker: refuses calls of `llm` while it keeps failing. To give a fallback a breaker, make
            it `resilient` too; the outermost retry counts.
        limits: what calls of `llm` wait for: a `RateLimit`, which reserves the tokens of the
            request and of the largest reply before the call and is settled by the reported usage
            after it, a `ConcurrencyLimit`, or several, in this order.
        after_output: what to do if a reply breaks off after a piece of it has been read.

    Raises:
        ConfigurationError: `after_output` is neither "raise" nor "restart", or a model that is
            given by name can't be opened.

    Example:
        >>> from greenroom.llm.recorded import RecordedProvider
        >>> import trio
        >>> spare = RecordedProvider([Message.assistant("hello")])
        >>> model = resilient(RecordedProvider([]), fallback=[spare], retry=Retry(attempts=3))
        >>> model.name, model.model
        ('recorded', 'recording')
    """
    if after_output not in ("raise", "restart"):
        raise ConfigurationError(
            f"after_output is {after_output!r}", hint='write "raise" or "restart"'
        )
    limits = () if limits is None else (limits,) if isinstance(limits, CallLimit) else tuple(limits)
    first, *others = [open_inner(each) for each in (llm, *fallback)]
    targets = (
        ModelTarget(first, breaker, limits, _find_gate(first)),
        *(ModelTarget(each, gate=_find_gate(each)) for each in others),
    )
    return _ResilientProvider(targets, retry, after_output)


class _ResilientProvider(ProviderWrapper):
    """A model and its fallbacks, as one provider."""

    def __init__(
        self, targets: Sequence[ModelTarget], retry: Retry, after_output: AfterOutput
    ) -> None:
        super().__init__(targets[0].llm)
        self._targets = targets
        self._llms = [target.llm for target in targets]
        self._retry = retry
        self._after_output = after_output

    def __repr__(self) -> str:
        return f"resilient({', '.join(map(repr, self._llms))})"

    @property
    def price(self) -> Price | None:
        """A price if all models have one; each reply is charged by the model that answered."""
        prices = [price_of(llm) for llm in self._llms]
        known = [price for price in prices if price is not None]
        if len(known) < len(prices):
            return None
        return next((price for price in known if not price.is_free), known[0])

    @property
    def account(self) -> None:
        """None: each model waits at the gate of its own account."""

    def accepts_output(self, output: OutputSchema) -> bool:
        """Whether the providers of all models can enforce this schema."""
        return all(accepts_output(llm, output) for llm in self._llms)

    def accepts_forced_tool(self, request: ModelRequest) -> bool:
        """Whether all models let this request force a call."""
        return all(accepts_forced_tool(llm, request) for llm in self._llms)

    @property
    def window(self) -> int | None:
        """The smallest window if the program gave one to all models."""
        given = [window_of(llm) for llm in self._llms]
        known = [window for window in given if window is not None]
        return min(known) if len(known) == len(given) else None

    async def find_window(self, *, has_replied: bool = False, load: bool = False) -> ContextWindow:
        """Return the smallest window of all models, since any of them may answer."""
        found = [await find_window(llm, has_replied=has_replied, load=load) for llm in self._llms]
        smallest = min(found, key=lambda window: window.tokens or inf)
        return replace(smallest, is_final=all(window.is_final for window in found))

    def stream(self, request: ModelRequest) -> ModelStream:
        return _ResilientStream(self._targets, self._retry, self._after_output, request)

    async def generate(self, request: ModelRequest) -> Message:
        return await collect(_ResilientStream(self._targets, self._retry, "restart", request))

    async def aclose(self) -> None:
        async with AsyncExitStack() as stack:
            for llm in self._llms:
                stack.push_async_callback(llm.aclose)


def _find_gate(llm: LLMProvider) -> Gate | None:
    """Return the gate of a model's account; a resilient model waits at its own."""
    return None if isinstance(llm, _ResilientProvider) else gate_of(llm)


class _FinalDraft(Draft):
    """Only the complete reply; until then, the draft of the attempt has the pieces."""

    def add(self, event: StreamEvent) -> None:
        if isinstance(event, StreamEnd):
            super().add(event)


class _ResilientStream(ModelStream):
    """A reply that may take several attempts.

    An attempt is opened while the stream is read, and closed when it fails or the block is left.
    """

    def __init__(
        self,
        targets: Sequence[ModelTarget],
        retry: Retry,
        after_output: AfterOutput,
        request: ModelRequest,
    ) -> None:
        super().__init__(targets[0].llm.name)
        self._draft = _FinalDraft(targets[0].llm.name)
        self._target, *self._rest = targets
        self._retry = retry
        self._restarts = after_output == "restart"
        self._request = request
        self._attempt: ModelAttempt | None = None
        self._attempts = Attempts(retry)
        self._ticket = take_ticket()
        self._expects_gate = False  # whether its wait for the next attempt is announced
        # Before the next attempt: the announcement comes first, then the wait.
        self._announcement: Announcement | None = None
        self._wait: Callable[[], Awaitable[None]] | None = None
        self._errors: list[Exception] = []  # the last error of each model that was given up
        self._failure: GreenroomError | None = None  # the final error

    @trio.lowlevel.enable_ki_protection
    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if self._attempt is not None:
            await self._attempt.close(error)

    async def receive(self) -> Iterable[StreamEvent]:
        """Return the next events, or the announcement of a wait; the call after it waits.

        Raises:
            ModelError: the request failed for good.
            BudgetExceededError: a budget refuses to wait, or to try again.
        """
        if self._failure is not None:
            raise self._failure
        if self._announcement is not None:
            return self._publish(self._announcement)
        if self._wait is not None:
            await self._wait()
            self._wait = None
        try:
            with self._attempts.current:
                return await self._advance()
        except _FAILURES as error:
            try:
                return self._recover(error)
            except GreenroomError as failure:
                self._failure = failure
                raise

    async def _advance(self) -> Iterable[StreamEvent]:
        attempt = self._attempt
        if attempt is None:
            attempt = self._attempt = ModelAttempt(
                self._target,
                self._request,
                self._attempts,
                self._ticket,
                expects_gate=self._expects_gate,
            )
            self._expects_gate = False
            if wait := attempt.expected_wait():
                return (self._announce_wait(*wait),)
        if not attempt.has_place:
            await attempt.take_place()
            if wait := attempt.expected_wait():  # the gate has closed meanwhile
                return (self._announce_wait(*wait),)
        return await attempt.receive(self.wanted)

    def partial(self) -> Message:
        """Return the reply of this attempt so far."""
        return (self._attempt and self._attempt.partial()) or super().partial()

    def _recover(self, error: ModelError | CircuitOpenError | NetworkError) -> list[StreamEvent]:
        """Choose between another attempt, another model, and raising the error."""
        attempt = self._attempt
        if attempt is not None and attempt.has_output and not self._restarts:
            raise error
        has_fallback = bool(self._rest) and _may_fall_back(error)
        at_gate = attempt.wait_at_gate() if attempt is not None else None
        seconds = self._plan(error, at_gate, has_fallback)
        if seconds is not None:
            announcement = self._announce_retry(error, seconds)
            self._expects_gate = at_gate is not None
            self._wait = partial(self._attempts.wait, 0.0 if self._expects_gate else seconds)
        elif has_fallback:
            self._attempts.renew(error)
            self._errors.append(error)
            previous, self._target = self._target, self._rest.pop(0)
            announcement = self._announce_fallback(error, previous)
            self._wait = partial(self._attempts.wait, 0.0)
        else:
            raise self._final_error(error)
        self._attempt = None
        # The usage of the failed attempt comes first, so that budgets count it.
        if events := _restart_events(attempt):
            self._announcement = announcement
            return events
        return self._publish(announcement)

    def _plan(self, error: Exception, at_gate: float | None, has_fallback: bool) -> float | None:
        """Return how long to wait for this model, or None to give it up."""
        if has_fallback and isinstance(error, CircuitOpenError):
            return None
        try:
            return self._attempts.plan(error, at_gate)
        except BudgetExceededError:
            if not has_fallback:
                raise
            return None  # too little time to wait, but another model may answer at once

    def _publish(self, announcement: Announcement) -> list[StreamEvent]:
        """Return the announcement of the next attempt, unless a budget refuses the attempt."""
        self._attempts.check()
        self._announcement = None
        return [announcement]

    def _final_error(self, error: Exception) -> Exception:
        """Return the error of the first model, with the errors of the others in its hint."""
        if not self._errors:
            return error
        first, *others = self._errors
        if isinstance(first, GreenroomError):
            texts = (clip(describe_error(each), _REASON) for each in (*others, error))
            first.add_hint("; ".join(f"then {text}" for text in texts))
        first.__cause__ = error if error is not first else None
        return first

    def _announce_retry(self, error: Exception, seconds: float) -> Announcement:
        text = f"{_describe(error)}; {self._attempts.announce(seconds)}"
        number, most = self._attempts.number, self._retry.attempts
        data = {"seconds": seconds, "attempt": number, "attempts": most}
        # A program that reads only the result would be silent for as long as the retries go on.
        return self._announce("model.retry", _error_data(error) | data, text, logging.WARNING)

    def _announce_fallback(self, error: Exception, previous: ModelTarget) -> Announcement:
        text = f"{_describe(error)}; {self._target.full_name} answers instead"
        data = _error_data(error) | {"instead_of": previous.full_name}
        return self._announce("model.fallback", data, text, logging.WARNING)

    def _announce_wait(self, seconds: float, reason: str) -> Announcement:
        current_meter().check_wait(seconds)
        duration = f"about {seconds:.1f} s " if seconds else ""
        text = f"{self._target.full_name} waits {duration}for {reason}"
        return self._announce("model.wait", {"seconds": seconds, "reason": reason}, text)

    def _announce(
        self, kind: str, data: Mapping[str, object], text: str, level: int = logging.INFO
    ) -> Announcement:
        _log.log(level, "%s", text, extra={"is_chunk": True})
        llm = self._target.llm
        return Announcement(kind, {"provider": llm.name, "model": llm.model, **data}, text)


def _may_fall_back(error: Exception) -> bool:
    """Whether another model may answer after this error."""
    return isinstance(error, ModelNotFoundError) or not isinstance(error, _REQUEST_ERRORS)


def _restart_events(attempt: ModelAttempt | None) -> list[StreamEvent]:
    """Return the events that revoke a failed attempt."""
    if attempt is None or (reply := attempt.partial()) is None:
        return []
    events: list[StreamEvent] = [StreamRestart(reply)]
    if attempt.has_output:
        data: dict[str, object] = {"provider": reply.provider, "model": reply.model}
        text = "the reply broke off and starts over; ignore what came before"
        events.append(Announcement("reply.restarted", data, text))
    return events


def _error_data(error: Exception) -> dict[str, object]:
    return {"reason": _describe(error), "error": type(error).__name__}


def _describe(error: Exception) -> str:
    text = error.message if isinstance(error, GreenroomError) else str(error)
    text = conceal_secrets(text)
    return clip(" ".join(visible(text).split()), _REASON)
