"""The chunks of a run as events of AG-UI 1.0, the protocol between agents and user interfaces.

Theory of operation
===================

A run is one request of a client and the events that answer it: `RUN_STARTED`, what happens, and
`RUN_FINISHED` or `RUN_ERROR`. A message, a thought or a call is opened before it is told of, and
closed before the run ends, as the protocol demands of every producer.

A turn of ours is one run or several. It goes on behind a run that ends with calls which the client
has to run (`pendingToolCallIds`), or with questions (`interrupt`); the next run brings the results
or the answers, and tells the rest. What a subagent does, and whatever the protocol has no word for,
is a `CUSTOM` event with our own chunk as its value.
"""

from collections import deque
from collections.abc import AsyncIterable, Collection, Sequence
from typing import Self

import msgspec
from msgspec import UNSET

from greenroom.core import (
    Custom,
    Done,
    Error,
    Exited,
    OutputChunk,
    PermissionRequest,
    PermissionResponse,
    StateChange,
    TextComplete,
    TextDelta,
    ThinkingComplete,
    ThinkingDelta,
    ToolEnd,
    ToolStart,
    TurnStart,
    TurnStatus,
    Usage,
    UsageReport,
)
from greenroom.core._internal import new_id, serde

PROTOCOL = "1.0"
"""The version of the protocol."""

_SILENT = (StateChange, TurnStart)  # what is told in another way, or not at all

Event = dict[str, object]


class RunEvents:
    """Maps the chunks of one run; every method returns the events that follow.

    Attributes:
        is_over: whether the run has ended.
    """

    def __init__(self, thread: str, run: str, answered: Collection[str] = ()) -> None:
        """Begin a run; the client has the results of the calls `answered` already."""
        self._thread, self._run = thread, run
        self._answered = answered
        self._text = self._thought = ""  # the ids of what is open
        self._calls = dict[str, str]()  # the ids that the client knows, by the call's
        self._known = set[str]()
        self._usage = dict[str, Usage]()
        self._error = Error("")
        self.is_over = False

    def begin(self) -> list[Event]:
        """Open the run."""
        return [{**self._name("RUN_STARTED"), "protocolVersion": PROTOCOL}]

    def add(self, chunk: OutputChunk) -> list[Event]:
        """Tell of a chunk of the agent."""
        match chunk:
            case TextDelta(text=text) if text:
                return [*self._open_text(), self._of_text("CONTENT", text)]
            case TextComplete(text=text):
                whole = [] if self._text or not text else self.add(TextDelta(text))
                return [*whole, *self._close_text()]
            case ThinkingDelta(text=text) if text:
                return [*self._open_thought(), self._of_thought("CONTENT", text)]
            case ThinkingComplete(text=text):
                whole = [] if self._thought or not text else self.add(ThinkingDelta(text))
                return [*whole, *self._close_thought()]
            case TextDelta() | ThinkingDelta():
                return []
            case ToolStart():
                return [*self._close(), *self._start_call(chunk)]
            case ToolEnd():
                return self._end_call(chunk)
            case UsageReport(model=model, usage=usage):
                self._usage[model] = self._usage.get(model, Usage()) + usage
                return []
            case Error():
                self._error = chunk
                return []
            case Done():
                return self._finish(chunk)
            case Exited(status=status, error=error):
                return self.fail(error or f"the agent has ended: {status}", "Exited")
            case PermissionRequest():  # the run is about to end with it
                return []
            case Custom(kind=kind, data=data, text=text):
                return [_custom(kind, {"data": data, "text": text})]
            case PermissionResponse():
                return [_custom("permission", chunk)]
            case _ if isinstance(chunk, _SILENT):
                return []
            case _:
                return [_custom(str(type(chunk).__struct_config__.tag), chunk)]

    def call_id(self, tool_use_id: str) -> str:
        """Return the id under which the client knows a call."""
        return self._calls.get(tool_use_id, tool_use_id)

    def wait_results(self, calls: Sequence[str]) -> list[Event]:
        """End the run for calls that the client has to run."""
        pending = [self.call_id(each) for each in calls]
        return self._end({"outcome": {"type": "success", "pendingToolCallIds": pending}})

    def wait_answers(self, interrupts: Sequence[Event]) -> list[Event]:
        """End the run for questions."""
        return self._end({"outcome": {"type": "interrupt", "interrupts": list(interrupts)}})

    def fail(self, message: str, code: str) -> list[Event]:
        """End the run with an error."""
        closing = self._close()
        self.is_over = True
        error: Event = {"type": "RUN_ERROR", "message": message, "code": code or "error"}
        return [*closing, {**error, **self._spent()}]

    def _finish(self, done: Done) -> list[Event]:
        if done.status is TurnStatus.FAILED:
            return self.fail(done.error or self._error.message, self._error.kind)
        if done.status is TurnStatus.INTERRUPTED:
            return self._end({"outcome": {"type": "cancelled"}})
        if done.status is TurnStatus.WAITING:
            return self.fail("the turn waits for an answer", "waiting")
        result = {} if done.value is UNSET else {"result": done.value}
        return self._end({**result, "outcome": {"type": "success"}})

    def _end(self, how: Event) -> list[Event]:
        closing = self._close()
        self.is_over = True
        return [*closing, {**self._name("RUN_FINISHED"), **how, **self._spent()}]

    def _name(self, kind: str) -> Event:
        return {"type": kind, "threadId": self._thread, "runId": self._run}

    def _spent(self) -> Event:
        rows = [_describe_usage(model, usage) for model, usage in self._usage.items()]
        return {"usage": rows} if rows else {}

    def _open_text(self) -> list[Event]:
        closing = self._close_thought()
        if self._text:
            return closing
        self._text = new_id("m")
        return [*closing, {**self._of_text("START"), "role": "assistant"}]

    def _of_text(self, what: str, delta: str = "") -> Event:
        event: Event = {"type": f"TEXT_MESSAGE_{what}", "messageId": self._text}
        return {**event, "delta": delta} if delta else event

    def _close_text(self) -> list[Event]:
        if not self._text:
            return []
        event, self._text = self._of_text("END"), ""
        return [event]

    def _open_thought(self) -> list[Event]:
        closing = self._close_text()
        if self._thought:
            return closing
        self._thought = new_id("m")
        span: Event = {"type": "REASONING_START", "messageId": self._thought}
        return [*closing, span, {**self._of_thought("START"), "role": "reasoning"}]

    def _of_thought(self, what: str, delta: str = "") -> Event:
        event: Event = {"type": f"REASONING_MESSAGE_{what}", "messageId": self._thought}
        return {**event, "delta": delta} if delta else event

    def _close_thought(self) -> list[Event]:
        if not self._thought:
            return []
        end: Event = {"type": "REASONING_END", "messageId": self._thought}
        events, self._thought = [self._of_thought("END"), end], ""
        return events

    def _close(self) -> list[Event]:
        return [*self._close_thought(), *self._close_text()]

    def _start_call(self, start: ToolStart) -> list[Event]:
        # A model may use an id again in a later reply; to a client a call has one of its own.
        id_ = start.id
        while id_ in self._known:
            id_ = f"{start.id}-{len(self._known)}"
        self._known.add(id_)
        self._calls[start.id] = id_
        text = serde.encode(start.input).decode()
        return [
            {"type": "TOOL_CALL_START", "toolCallId": id_, "toolCallName": start.name},
            {"type": "TOOL_CALL_ARGS", "toolCallId": id_, "delta": text},
            {"type": "TOOL_CALL_END", "toolCallId": id_},
        ]

    def _end_call(self, end: ToolEnd) -> list[Event]:
        if end.id in self._answered:
            return []
        event: Event = {"type": "TOOL_CALL_RESULT", "messageId": new_id("m"), "role": "tool"}
        return [{**event, "toolCallId": self.call_id(end.id), "content": end.result.text}]


def _custom(name: str, value: object) -> Event:
    return {"type": "CUSTOM", "name": name, "value": value}


def _describe_usage(model: str, usage: Usage) -> Event:
    """Describe tokens as the protocol counts them: what was sent includes what was cached."""
    read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    found: dict[str, int | None] = {
        "inputTokens": None if usage.input_tokens is None else usage.input_tokens + read + written,
        "outputTokens": usage.output_tokens,
        "reasoningTokens": usage.reasoning_tokens,
        "cachedInputTokens": usage.cache_read_tokens,
        "cacheWriteInputTokens": usage.cache_write_tokens,
    }
    known: Event = {name: count for name, count in found.items() if count is not None}
    return {"model": model, **known} if model else known


class _Iterator:
    """The events of one run, as its chunks come."""

    def __init__(self, chunks: AsyncIterable[OutputChunk], events: RunEvents) -> None:
        self._chunks = aiter(chunks)
        self._events = events
        self._ready = deque(events.begin())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._ready:
            if self._events.is_over:
                raise StopAsyncIteration
            try:
                self._ready += self._events.add(await anext(self._chunks))
            except StopAsyncIteration:
                self._ready += self._events.fail("the chunks have ended", "Exited")
        event: Event = msgspec.to_builtins(self._ready.popleft())
        return event


def agui_events(chunks: AsyncIterable[OutputChunk], thread: str, run: str) -> _Iterator:
    """Tell the chunks of one turn as events of AG-UI, for a server of your own.

    The events are those of a whole run, in the order that the protocol demands. Nothing is left
    open when it ends.

    Args:
        chunks: the chunks of a turn, such as `handle.stream(receipt)`.
        thread: the client's id of the conversation.
        run: the client's id of the run.

    Returns:
        An iterator over the events, each a dict for JSON.

    Example:
        >>> import trio
        >>> from greenroom import Agent, AgentRuntime, AgentSession, InMemoryStore
        >>> from greenroom.testing import ScriptedProvider
        >>> async def main():
        ...     async with AgentRuntime(InMemoryStore()) as runtime:
        ...         agent = Agent(ScriptedProvider("Hi!"), name="Ann")
        ...         handle = runtime.spawn(AgentSession.new("Ann"), agent)
        ...         receipt = await handle.send_input("Hello")
        ...         async for event in agui_events(handle.stream(receipt), "thread-1", "run-1"):
        ...             print(event["type"])
        >>> trio.run(main)
        RUN_STARTED
        TEXT_MESSAGE_START
        TEXT_MESSAGE_CONTENT
        TEXT_MESSAGE_END
        RUN_FINISHED
    """
    return _Iterator(chunks, RunEvents(thread, run))
