"""A model that is watched: what it does wrong is looked up in the recovery table, and told.

All that a model does is in its requests and replies, so this is a provider around another one, and works
in any loop. A request shows what came of the calls before it: a tool that is not there, an input that
does not fit, the same call once more. The reply shows a refusal, and what was retried below.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from itertools import takewhile
from types import TracebackType
from typing import Protocol, Self

import trio

from greenroom.core import (
    CircuitOpenError,
    GreenroomError,
    Message,
    ModelContentFilterError,
    ModelError,
    ModelOutputError,
    ModelRequest,
    NetworkError,
    NoProgressError,
    OutputSchema,
    Price,
    StopReason,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from greenroom.llm import (
    ANSWER_TOOL,
    Announcement,
    KnowsSchemas,
    LLMProvider,
    ModelStream,
    StreamEnd,
    StreamEvent,
    asks_again,
    collect,
)
from greenroom.planning.error_context import (
    Component,
    Decision,
    ErrorClass,
    ErrorContext,
    classify,
    detail_of,
)
from greenroom.tools import InputValidator

__all__ = ["Fault", "WatchedModel", "find_fault"]

_REFUSALS = (StopReason.REFUSAL, StopReason.CONTENT_FILTER)
_ERRORS = (ModelError, NetworkError, CircuitOpenError)
_KEPT = 1_000  # conversations that were too long
_RAISED: dict[ErrorClass, type[GreenroomError]] = {
    ErrorClass.FORMAT: ModelOutputError,
    ErrorClass.REFUSAL: ModelContentFilterError,
}


class Decide(Protocol):
    """Looks an error of a model up: `RecoveryPolicy.decide`."""

    def __call__(
        self,
        component: Component,
        error: ErrorClass,
        attempt: int,
        *,
        possible: frozenset[Decision],
        detail: str,
        correlation_id: str,
    ) -> ErrorContext:
        """Say what is done about it."""
        ...


class WatchedModel:
    """A model whose errors are looked up and told; a provider like any other."""

    def __init__(self, llm: LLMProvider, decide: Decide, others: Sequence[LLMProvider]) -> None:
        """Watch a model; the others are asked where the table says so of what it does."""
        self.llm = llm
        self.decide = decide
        self.others = others
        self.too_long: set[str] = set()
        """The conversations that were too long at their last request."""

    def __repr__(self) -> str:
        return f"WatchedModel({self.llm!r})"

    @property
    def name(self) -> str:
        """The name of the model's provider."""
        return self.llm.name

    @property
    def model(self) -> str:
        """The model's name."""
        return self.llm.model

    @property
    def price(self) -> Price | None:
        """What the model costs, where that is known."""
        price = getattr(self.llm, "price", None)
        return price if isinstance(price, Price) else None

    def accepts_output(self, output: OutputSchema) -> bool:
        """Whether the model has a mode of its own for this type."""
        return isinstance(self.llm, KnowsSchemas) and self.llm.accepts_output(output)

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[ModelStream]:
        """Send a request and stream the reply; errors are raised once they are told."""
        return _WatchedStream(self, request)

    async def generate(self, request: ModelRequest) -> Message:
        """Send a request and return the complete reply."""
        return await collect(self.stream(request))

    async def aclose(self) -> None:
        """Close the model."""
        await self.llm.aclose()


class _WatchedStream(ModelStream):
    """A reply, and what is told of it; it is its own block, and opened while it is read."""

    def __init__(self, watched: WatchedModel, request: ModelRequest) -> None:
        super().__init__(watched.name)
        self._watched = watched
        self._request = request
        self._llm = watched.llm
        self._retries = 0
        self._stack = AsyncExitStack()
        self._inner: ModelStream | None = None
        self._failure: GreenroomError | None = None
        fault = find_fault(request)
        if fault is not None:
            context = self._judge(fault.error, fault.attempt, fault.detail)
            if context.decision is Decision.OTHER_MODEL:
                self._llm = watched.others[0]

    async def __aenter__(self) -> Self:
        await trio.lowlevel.checkpoint()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def receive(self) -> Iterable[StreamEvent]:
        """Give the next events of the model, and what is told of them.

        Raises:
            GreenroomError: what the model raises, or what its row of the table gives up.
        """
        if self._failure is not None:
            raise self._failure
        try:
            if self._inner is None:
                opening = self._llm.stream(self._request)
                self._inner = await self._stack.enter_async_context(opening)
            event = await anext(self._inner)
        except _ERRORS as error:
            self._give_up(error)
            return ()
        match event:
            case Announcement(kind, data):
                self._ready.append(event)
                self._read(kind, data)
            case StreamEnd(message) if message.stop_reason in _REFUSALS:
                context = self._judge(
                    ErrorClass.REFUSAL, 1, f"{message.stop_reason}: {message.text}"
                )
                if self._failure is not None and isinstance(self._failure, ModelError):
                    self._failure.partial = message
                if context.decision is not Decision.GIVE_UP:
                    return (event,)
            case _:
                if isinstance(event, StreamEnd):
                    self._watched.too_long.discard(self._request.conversation)
                return (event,)
        return ()

    def partial(self) -> Message:
        """Return what has been read so far."""
        return super().partial() if self._inner is None else self._inner.partial()

    # -- what is told ---------------------------------------------------------------------------

    def _judge(self, error: ErrorClass, attempt: int, detail: str) -> ErrorContext:
        """Look up what the model has done, tell of it, and end the reply where that is given up."""
        possible = {Decision.ASK_AGAIN, Decision.OTHER_MODEL}
        context = self._watched.decide(
            Component.MODEL,
            error,
            attempt,
            possible=frozenset(possible if self._watched.others else {Decision.ASK_AGAIN}),
            detail=detail,
            correlation_id=self._request.conversation,
        )
        self._tell(context)
        if context.decision is Decision.GIVE_UP:
            kind = _RAISED.get(error, NoProgressError)
            self._failure = kind(f"the model is given up: {context}")
        return context

    def _tell(self, context: ErrorContext, *, is_told: bool = False) -> None:
        """Tell of an error; in words only where what has handled it has not done so."""
        chunk = context.chunk()
        self._ready.append(Announcement(chunk.kind, chunk.data, "" if is_told else chunk.text))

    def _read(self, kind: str, data: dict[str, object]) -> None:
        """Tell in our words what a retry, a fallback or a request to reformat has told in its own."""
        name, reason = str(data.get("error", "")), str(data.get("reason", ""))
        if kind == "react.reformat":
            attempt = data["attempt"]
            self._judge(ErrorClass.FORMAT, attempt if isinstance(attempt, int) else 1, reason)
        elif kind in ("model.retry", "model.fallback"):
            is_retry = kind == "model.retry"
            self._retries += 1
            seconds = data.get("seconds")
            context = ErrorContext(
                Component.MODEL,
                classify(name),
                self._retries,
                Decision.RETRY if is_retry else Decision.OTHER_MODEL,
                correlation_id=self._request.conversation,
                detail=reason,
                seconds=seconds if isinstance(seconds, float) else 0.0,
            )
            self._tell(context, is_told=True)

    def _give_up(self, error: ModelError | NetworkError | CircuitOpenError) -> None:
        """Tell of an error that goes on to whoever has asked the model."""
        self._failure = error
        kind, conversation = classify(error), self._request.conversation
        decision, attempt = Decision.GIVE_UP, self._retries + 1
        known = self._watched.too_long
        if kind is ErrorClass.OVERFLOW and conversation:
            if conversation in known or len(known) >= _KEPT:
                attempt = 2
            else:  # an `Agent` makes it shorter, and asks once more
                known.add(conversation)
                decision = Decision.COMPACT
        detail = detail_of(error)
        self._tell(
            ErrorContext(
                Component.MODEL,
                kind,
                attempt,
                decision,
                correlation_id=conversation,
                detail=detail,
            )
        )


# -- what a request shows ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """What a model has done wrong before a request, and how many times in a row."""

    error: ErrorClass
    attempt: int
    detail: str


def find_fault(request: ModelRequest) -> Fault | None:
    """Say what is wrong with what the model has done last in this turn, if anything is."""
    tools = {tool.name: tool for tool in request.tools}
    calls = list(_calls(request.messages))
    if not calls:
        last = request.messages[-1] if request.messages else None
        return Fault(ErrorClass.FORMAT, 1, last.text) if last and asks_again(last) else None
    last_call, result = calls[0]
    faults = [_fault(call, each, tools) for call, each in calls]
    if (fault := faults[0]) is not None:
        count = len(list(takewhile(lambda each: each is fault, faults)))
        return Fault(fault, count, f"{last_call.name}: {result.text}")
    same = len(list(takewhile(lambda each: _is_same(each, calls[0]), calls)))
    if same > 1:
        text = f"{last_call.name} was called {same} times in a row, with the same input and result"
        return Fault(ErrorClass.REPETITION, same - 1, text)
    if request.tool_choice == "none" and tools:
        return Fault(ErrorClass.ENDLESS, 1, "its steps are used up, so it has to answer")
    return None


def _calls(messages: Sequence[Message]) -> Iterator[tuple[ToolUseBlock, ToolResultBlock]]:
    """Go through the last call of each reply of this turn, with its result, the newest first."""
    after: Message | None = None
    for message in reversed(messages):
        if message.role == "assistant":
            results = {each.tool_use_id: each for each in after.tool_results} if after else {}
            if not message.tool_uses or message.tool_uses[-1].id not in results:
                return
            yield message.tool_uses[-1], results[message.tool_uses[-1].id]
        elif not message.tool_results:
            return
        after = message


def _fault(
    call: ToolUseBlock, result: ToolResultBlock, tools: dict[str, ToolDefinition]
) -> ErrorClass | None:
    """Return why a call did not run, where that was the model's fault."""
    if not result.is_error:
        return None
    if call.name == ANSWER_TOOL:
        return ErrorClass.FORMAT
    tool = tools.get(call.name)
    if tool is None:
        return ErrorClass.UNKNOWN_TOOL
    is_wrong = call.invalid or InputValidator(tool.name, tool.parameters).fault(call.input)
    return ErrorClass.INVALID_INPUT if is_wrong else None


def _is_same(
    one: tuple[ToolUseBlock, ToolResultBlock], other: tuple[ToolUseBlock, ToolResultBlock]
) -> bool:
    """Whether two calls are the same, with the same result but for notes behind it."""
    (call, result), (call_2, result_2) = one, other
    same_call = (call.name, call.input) == (call_2.name, call_2.input)
    return same_call and result.content[:1] == result_2.content[:1]
