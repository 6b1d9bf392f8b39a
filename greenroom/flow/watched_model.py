"""`WatchedModel`: look up a model's mistakes in the recovery table, and report them.

It is a provider that wraps another one, so it works in any loop. A request shows the outcome of
earlier calls: an unknown tool, an invalid input, a repeated call. A reply shows a refusal, and
retries of the wrapped provider.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import TypeAlias

from greenroom.agents._internal import NoProgressError
from greenroom.core import (
    GreenroomError,
    Message,
    ModelRequest,
    NetworkError,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from greenroom.core._internal import REFUSALS, message_of
from greenroom.flow.error_context import (
    Component,
    ErrorClass,
    ErrorContext,
    RecoveryDecision,
    classify,
)
from greenroom.llm import (
    LLMProvider,
    ModelError,
    ModelOutputError,
    ModelStream,
    ProviderWrapper,
    StreamEnd,
    StreamEvent,
)
from greenroom.llm._internal import (
    ANSWER_TOOL,
    Announcement,
    ModelContentFilterError,
    is_correction,
)
from greenroom.resilience import CircuitOpenError
from greenroom.schemas._internal import is_misfit

_CallResult: TypeAlias = tuple[ToolUseBlock, ToolResultBlock]
"""A call and its result."""

_ASK = frozenset({RecoveryDecision.ASK_AGAIN})
_DECISIONS = {"model.retry": RecoveryDecision.RETRY, "model.fallback": RecoveryDecision.OTHER_MODEL}
_MAX_CONVERSATIONS = 1_000  # conversations that were too long
_ERRORS: dict[ErrorClass, type[GreenroomError]] = {
    ErrorClass.FORMAT: ModelOutputError,
    ErrorClass.REFUSAL: ModelContentFilterError,
}

Judge: TypeAlias = Callable[[ErrorClass, int, str, str, frozenset[RecoveryDecision]], ErrorContext]
"""Decides about an error of a model.

It gets the class, the number of occurrences, the detail, the session and the possible decisions.
"""


class WatchedModel(ProviderWrapper):
    """A provider that looks up and reports a model's errors."""

    def __init__(self, llm: LLMProvider, judge: Judge, others: Sequence[LLMProvider]) -> None:
        """Wrap a model; the first of the others replaces it where the table says so."""
        super().__init__(llm)
        self.judge = judge
        self.others = others
        self.long_conversations: set[str] = set()
        """The conversations that were too long at their last request."""

    def stream(self, request: ModelRequest) -> ModelStream:
        """Send a request and stream the reply; errors are reported before they are raised."""
        return _WatchedStream(self, request)


class _WatchedStream(ModelStream):
    """A reply with the reports about it; the wrapped stream is opened on the first read."""

    def __init__(self, watched: WatchedModel, request: ModelRequest) -> None:
        super().__init__(watched.name)
        self._owner = watched
        self._request = request
        self._llm = watched.llm
        self._retries = self._reformats = 0
        self._inner: ModelStream | None = None
        self._failure: GreenroomError | None = None
        fault = find_fault(request)
        if fault is not None and self._judge(*fault).decision is RecoveryDecision.OTHER_MODEL:
            self._llm = watched.others[0]

    async def receive(self) -> Iterable[StreamEvent]:
        """Return the next events of the model, with reports."""
        if self._failure is not None:
            raise self._failure
        try:
            if self._inner is None:
                opening = self._llm.stream(self._request)
                self._inner = await self.exit_stack.enter_async_context(opening)
            events = await self._inner.take(self.wanted)
        except (ModelError, NetworkError, CircuitOpenError) as error:
            self._give_up(error)
            return ()
        for event in events:
            if self._failure is None:  # else the decision was to give up
                self._watch(event)
        return ()

    def _watch(self, event: StreamEvent) -> None:
        """Pass an event on, with a report where it tells of a mistake."""
        self._ready.append(event)
        match event:
            case Announcement(kind, data):
                self._translate(kind, data)
            case StreamEnd(message) if message.stop_reason in REFUSALS:
                self._ready.pop()  # its row may end the reply
                self._judge(ErrorClass.REFUSAL, 1, f"{message.stop_reason}: {message.text}")
                if self._failure is None:
                    self._ready.append(event)
            case StreamEnd():
                self._owner.long_conversations.discard(self._request.conversation)
            case _:
                pass

    def partial(self) -> Message:
        """Return the reply so far."""
        return super().partial() if self._inner is None else self._inner.partial()

    def _judge(
        self, error: ErrorClass, attempt: int, detail: str, *, is_announced: bool = False
    ) -> ErrorContext:
        """Look up a mistake, report it, and end the reply if the decision is to give up."""
        possible = _ASK | {RecoveryDecision.OTHER_MODEL} if self._owner.others else _ASK
        context = self._owner.judge(error, attempt, detail, self._request.conversation, possible)
        self._announce(context, is_announced=is_announced)
        if context.decision is RecoveryDecision.GIVE_UP:
            kind = _ERRORS.get(error, NoProgressError)
            self._failure = kind(f"giving up on the model: {context}")
        return context

    def _announce(self, context: ErrorContext, *, is_announced: bool = False) -> None:
        """Report an error, without a text if it was announced before."""
        chunk = context.chunk()
        is_silent = is_announced and context.decision is not RecoveryDecision.GIVE_UP
        self._ready.append(Announcement(chunk.kind, chunk.data, "" if is_silent else chunk.text))

    def _translate(self, kind: str, data: dict[str, object]) -> None:
        """Report a retry, a fallback or a request to reformat as a decision of the table."""
        reason, seconds = str(data.get("reason", "")), data.get("seconds")
        if kind == "react.reformat":
            self._reformats += 1
            self._judge(ErrorClass.FORMAT, self._reformats, reason, is_announced=True)
        elif kind in _DECISIONS:
            self._retries += 1
            wait = seconds if isinstance(seconds, float) else 0.0
            context = ErrorContext(
                Component.MODEL,
                classify(str(data.get("error", ""))),
                self._retries,
                _DECISIONS[kind],
                correlation_id=self._request.conversation,
                detail=reason,
                seconds=wait,
            )
            self._announce(context, is_announced=True)

    def _give_up(self, error: GreenroomError) -> None:
        """Report an error that is raised to the caller."""
        self._failure = error
        conversation, attempt = self._request.conversation, self._retries + 1
        kind, possible = classify(error), frozenset[RecoveryDecision]()
        if kind is ErrorClass.OVERFLOW:  # an `Agent` compacts the conversation and asks once more
            known = self._owner.long_conversations
            attempt = 2 if conversation in known else 1
            if conversation and len(known) < _MAX_CONVERSATIONS:
                known.add(conversation)
            possible = frozenset({RecoveryDecision.COMPACT})
        self._announce(self._owner.judge(kind, attempt, message_of(error), conversation, possible))


def find_fault(request: ModelRequest) -> tuple[ErrorClass, int, str] | None:
    """Return the model's latest mistake in this turn: its class, count and description."""
    tools = {tool.name: tool for tool in request.tools}
    last = next(_recent_calls(request.messages), None)
    if last is None:
        asked = request.messages[-1] if request.messages else None
        return (ErrorClass.FORMAT, 1, asked.text) if asked and is_correction(asked) else None
    name = last[0].name
    if fault := _find_call_fault(*last, tools):
        count = _count_recent(request, lambda each: _find_call_fault(*each, tools) is fault)
        return fault, count, f"{name}: {last[1].text}"
    same = _count_recent(request, lambda each: _is_same(each, last))
    if same > 1:
        text = f"{name} was called {same} times in a row, with the same input and result"
        return ErrorClass.REPETITION, same - 1, text
    if request.tool_choice == "none" and tools:
        return ErrorClass.ENDLESS, 1, "it has no more steps, so it has to answer"
    return None


def _count_recent(request: ModelRequest, holds: Callable[[_CallResult], bool]) -> int:
    """Count the latest consecutive calls for which a condition holds."""
    return sum(1 for _ in takewhile(holds, _recent_calls(request.messages)))


def _recent_calls(messages: Sequence[Message]) -> Iterator[_CallResult]:
    """Yield the last call of each reply in this turn with its result, newest first."""
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


def _find_call_fault(
    call: ToolUseBlock, result: ToolResultBlock, tools: dict[str, ToolDefinition]
) -> ErrorClass | None:
    """Return why a call did not run, if the model made a mistake."""
    if not result.is_error:
        return None
    if call.name == ANSWER_TOOL:
        return ErrorClass.FORMAT
    if call.name not in tools:
        return ErrorClass.UNKNOWN_TOOL
    is_wrong = call.invalid or is_misfit(result.text)
    return ErrorClass.INVALID_INPUT if is_wrong else None


def _is_same(one: _CallResult, other: _CallResult) -> bool:
    """Whether two calls and their results are the same, apart from notes after the result."""
    (call, result), (call_2, result_2) = one, other
    is_same_call = (call.name, call.input) == (call_2.name, call_2.input)
    return is_same_call and result.content[:1] == result_2.content[:1]
