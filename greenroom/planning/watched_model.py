"""A model that is watched: what it does wrong is looked up in the recovery table, and told.

All that a model does is in its requests and replies, so this is a provider around another one, and works
in any loop. A request shows what came of the calls before it: a tool that is not there, an input that
does not fit, the same call once more. The reply shows a refusal, and what was retried below.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import TypeAlias

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
    StopReason,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
)
from greenroom.llm import (
    ANSWER_TOOL,
    Announcement,
    LLMProvider,
    ModelStream,
    ProviderWrapper,
    StreamEnd,
    StreamEvent,
    asks_again,
)
from greenroom.planning.error_context import (
    Component,
    Decision,
    ErrorClass,
    ErrorContext,
    classify,
)
from greenroom.tools import InputValidator

_Ended: TypeAlias = tuple[ToolUseBlock, ToolResultBlock]
"""A call and its result."""

_REFUSALS = (StopReason.REFUSAL, StopReason.CONTENT_FILTER)
_ASK = frozenset({Decision.ASK_AGAIN})
_DECIDED = {"model.retry": Decision.RETRY, "model.fallback": Decision.OTHER_MODEL}
_KEPT = 1_000  # conversations that were too long
_RAISED: dict[ErrorClass, type[GreenroomError]] = {
    ErrorClass.FORMAT: ModelOutputError,
    ErrorClass.REFUSAL: ModelContentFilterError,
}

Judge: TypeAlias = Callable[[ErrorClass, int, str, str, frozenset[Decision]], ErrorContext]
"""Says what is done about an error of a model, given its class, how often it has come, what it says, the
session, and what is possible."""


class WatchedModel(ProviderWrapper):
    """A model whose errors are looked up and told; a provider like any other."""

    def __init__(self, llm: LLMProvider, judge: Judge, others: Sequence[LLMProvider]) -> None:
        """Watch a model; the first of the others is asked where that is the answer to what it does."""
        super().__init__(llm)
        self.judge = judge
        self.others = others
        self.too_long: set[str] = set()
        """The conversations that were too long at their last request."""

    def stream(self, request: ModelRequest) -> ModelStream:
        """Send a request and stream the reply; errors are raised once they are told."""
        return _WatchedStream(self, request)


class _WatchedStream(ModelStream):
    """A reply, and what is told of it; it is opened while it is read."""

    def __init__(self, watched: WatchedModel, request: ModelRequest) -> None:
        super().__init__(watched.name)
        self._watched = watched
        self._request = request
        self._llm = watched.llm
        self._retries = self._reformats = 0
        self._inner: ModelStream | None = None
        self._failure: GreenroomError | None = None
        fault = find_fault(request)
        if fault is not None and self._judge(*fault).decision is Decision.OTHER_MODEL:
            self._llm = watched.others[0]

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
                self._inner = await self.exit_stack.enter_async_context(opening)
            event = await anext(self._inner)
        except (ModelError, NetworkError, CircuitOpenError) as error:
            self._give_up(error)
            return ()
        self._ready.append(event)
        match event:
            case Announcement(kind, data):
                self._note(kind, data)
            case StreamEnd(message) if message.stop_reason in _REFUSALS:
                self._ready.pop()  # its row may end the reply
                self._judge(ErrorClass.REFUSAL, 1, f"{message.stop_reason}: {message.text}")
                if self._failure is None:
                    self._ready.append(event)
            case StreamEnd():
                self._watched.too_long.discard(self._request.conversation)
            case _:
                pass
        return ()

    def partial(self) -> Message:
        """Return what has been read so far."""
        return super().partial() if self._inner is None else self._inner.partial()

    # -- what is told ---------------------------------------------------------------------------

    def _judge(
        self, error: ErrorClass, attempt: int, detail: str, *, is_told: bool = False
    ) -> ErrorContext:
        """Look up what the model has done, tell of it, and end the reply where that is given up."""
        possible = _ASK | {Decision.OTHER_MODEL} if self._watched.others else _ASK
        context = self._watched.judge(error, attempt, detail, self._request.conversation, possible)
        self._tell(context, is_told=is_told)
        if context.decision is Decision.GIVE_UP:
            kind = _RAISED.get(error, NoProgressError)
            self._failure = kind(f"the model is given up: {context}")
        return context

    def _tell(self, context: ErrorContext, *, is_told: bool = False) -> None:
        """Tell of an error; in words only where what has handled it has not done so."""
        chunk = context.chunk()
        text = "" if is_told and context.decision is not Decision.GIVE_UP else chunk.text
        self._ready.append(Announcement(chunk.kind, chunk.data, text))

    def _note(self, kind: str, data: dict[str, object]) -> None:
        """Tell in our words what a retry, a fallback or a request to reformat has told in its own."""
        reason, seconds = str(data.get("reason", "")), data.get("seconds")
        if kind == "react.reformat":
            self._reformats += 1
            self._judge(ErrorClass.FORMAT, self._reformats, reason, is_told=True)
        elif kind in _DECIDED:
            self._retries += 1
            wait = seconds if isinstance(seconds, float) else 0.0
            context = ErrorContext(
                Component.MODEL,
                classify(str(data.get("error", ""))),
                self._retries,
                _DECIDED[kind],
                correlation_id=self._request.conversation,
                detail=reason,
                seconds=wait,
            )
            self._tell(context, is_told=True)

    def _give_up(self, error: GreenroomError) -> None:
        """Tell of an error that goes on to the one who has asked the model."""
        self._failure = error
        conversation, attempt = self._request.conversation, self._retries + 1
        kind, possible = classify(error), frozenset[Decision]()
        if kind is ErrorClass.OVERFLOW:  # an `Agent` makes it shorter, and asks once more
            known = self._watched.too_long
            attempt = 2 if conversation in known else 1
            if conversation and len(known) < _KEPT:
                known.add(conversation)
            possible = frozenset({Decision.COMPACT})
        self._tell(self._watched.judge(kind, attempt, str(error), conversation, possible))


# -- what a request shows ----------------------------------------------------------------------------


def find_fault(request: ModelRequest) -> tuple[ErrorClass, int, str] | None:
    """Say what is wrong with what the model has done last in this turn, how often, and in words."""
    tools = {tool.name: tool for tool in request.tools}
    last = next(_calls(request.messages), None)
    if last is None:
        asked = request.messages[-1] if request.messages else None
        return (ErrorClass.FORMAT, 1, asked.text) if asked and asks_again(asked) else None
    name = last[0].name
    if fault := _fault(*last, tools):
        count = _count(request, lambda each: _fault(*each, tools) is fault)
        return fault, count, f"{name}: {last[1].text}"
    same = _count(request, lambda each: _is_same(each, last))
    if same > 1:
        text = f"{name} was called {same} times in a row, with the same input and result"
        return ErrorClass.REPETITION, same - 1, text
    if request.tool_choice == "none" and tools:
        return ErrorClass.ENDLESS, 1, "its steps are used up, so it has to answer"
    return None


def _count(request: ModelRequest, holds: Callable[[_Ended], bool]) -> int:
    """Return for how many of the last calls something holds, one after the other."""
    return sum(1 for _ in takewhile(holds, _calls(request.messages)))


def _calls(messages: Sequence[Message]) -> Iterator[_Ended]:
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


def _is_same(one: _Ended, other: _Ended) -> bool:
    """Whether two calls are the same, with the same result but for notes behind it."""
    (call, result), (call_2, result_2) = one, other
    is_same_call = (call.name, call.input) == (call_2.name, call_2.input)
    return is_same_call and result.content[:1] == result_2.content[:1]
