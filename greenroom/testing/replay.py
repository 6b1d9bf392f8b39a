"""Replays: a recorded session run again, without a model and without its tools."""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial

import trio

from greenroom.agents._internal import without_note
from greenroom.core import (
    AgentContext,
    GreenroomError,
    Message,
    Price,
    ToolResult,
    ToolResultBlock,
    ToolStatus,
    ToolUseBlock,
)
from greenroom.core._internal import ResultContent, find_error
from greenroom.llm import LLMProvider, ModelRequest, ModelStream, Substitutes
from greenroom.llm._internal import collect
from greenroom.observability import Trace
from greenroom.observability._internal import was_asked_again
from greenroom.session import AgentSession
from greenroom.testing.models import ScriptedProvider, Step
from greenroom.testing.recording import check_content
from greenroom.testing.traced_replies import (
    Subagents,
    find_step,
    list_traced_errors,
    list_traced_results,
)


class Playback(Substitutes):
    """Answers the calls of one agent: models with what `next_step` returns, tools from results.

    Args:
        next_step: returns how a model answers a request, or raises.
        results: the results by the ids of their calls.
        errors: the classes of the errors that calls ended with, by their ids, as far as known.
        subagents: what the agents that this one spawns answer, as far as known.
    """

    def __init__(
        self,
        next_step: Callable[[ModelRequest], Step],
        results: Mapping[str, ToolResultBlock],
        errors: Mapping[str, str] | None = None,
        subagents: Subagents | None = None,
    ) -> None:
        below = subagents or Subagents((), "")
        self._next_step = next_step
        self._subagents = below
        traced = {each.tool_use_id: each for each in list_traced_results(below.spans)}
        self._results = {**traced, **results}
        self._errors = {**dict(list_traced_errors(below.spans)), **(errors or {})}
        self.unknown = ""
        """A subagent that asked what is not on record, with the names above it."""

    def model(self, agent: AgentContext, llm: LLMProvider) -> LLMProvider | None:
        """Return the model that answers from the record."""
        if agent.parent_session_id is None:
            return _Tape(llm, self._next_step)
        return _Tape(llm, partial(self._answer_below, agent))

    def _answer_below(self, agent: AgentContext, request: ModelRequest) -> Step:
        try:
            return self._subagents.answer(agent, request)
        except GreenroomError:
            self.unknown = self.unknown or "/".join(agent.lineage)
            raise

    async def result(self, agent: AgentContext, call: ToolUseBlock) -> ToolResult | None:
        """Return the result on record."""
        await trio.lowlevel.checkpoint()
        found = self._results.get(call.id)
        if found is None:
            raise GreenroomError(
                f"the call {call.id} of {call.name} has no result on record",
                hint="the replay asks for another call than the session did",
            )
        # A repeated result has a note, which the agent adds again.
        content = without_note(found.content)
        if not found.is_error:
            return ToolResult(content)
        return _fail(content, self._errors.get(call.id, "")).with_error_message()


def _fail(content: tuple[ResultContent, ...], kind: str) -> ToolResult:
    """Make the result of a call that ended with an error of this class."""
    if kind == "TimeoutError":
        return ToolResult(content, ToolStatus.TIMEOUT)
    if kind in ("", "PermissionError", "Cancelled") or find_error(kind):
        return ToolResult(content, ToolStatus.ERROR)
    # The tool raised what it had not foreseen: too many of these end a turn.
    return ToolResult(content, ToolStatus.ERROR, {"error": kind, "raised": kind}, could_run=False)


class _Tape:
    """A model that is asked in place of another one, under its name."""

    def __init__(self, llm: LLMProvider, next_step: Callable[[ModelRequest], Step]) -> None:
        self.name, self.model = llm.name, llm.model
        self.price: Price | None = getattr(llm, "price", None)
        self._next_step = next_step

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStream]:
        step = self._next_step(request)
        script = ScriptedProvider(step, name=self.name, model=self.model, price=self.price)
        async with script.stream(request) as stream:
            yield stream

    async def generate(self, request: ModelRequest) -> Message:
        return await collect(self.stream(request))

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def list_results(messages: Iterable[Message]) -> dict[str, ToolResultBlock]:
    """Return the results in a conversation, by the ids of their calls; the first counts.

    A later one is the same, shortened by a compaction.
    """
    found: dict[str, ToolResultBlock] = {}
    for message in messages:
        for each in message.tool_results:
            found.setdefault(each.tool_use_id, each)
    return found


def replay(session: AgentSession, trace: Trace | None = None) -> Substitutes:
    """Return what answers every call of a session from its record, for the resources of a runtime.

    Models give the replies that are on record, in order, and tools the results; none of them runs.
    What is not on record is an error. Insert it with `runtime.resources.insert(…)`.

    Args:
        session: the session.
        trace: its trace, with content, for what the conversation does not have: replies that were
            left behind, such as the notes of summaries, errors, and what subagents were told. They
            are matched by their names and what they are first asked.

    Raises:
        ConfigurationError: the trace has no content, or lacks lines.

    Example:
        >>> session = AgentSession.new("agent")
        >>> session.add_message(Message.user("Hello."))
        >>> session.add_message(Message.assistant("Hi!"))
        >>> from greenroom import Agent, AgentRuntime, InMemoryStore
        >>> async def main():
        ...     async with AgentRuntime(InMemoryStore()) as runtime:
        ...         runtime.resources.insert(replay(session))
        ...         print((await Agent("offline:").run("Hello.", runtime=runtime)).text)
        >>> trio.run(main)
        Hi!
    """
    history = session.history
    replies = deque(each for each in history if each.role == "assistant")
    steps, spans = deque[Step](replies), []
    if trace is not None:
        spans = [each for each in trace.spans if each.session_id == session.session_id]
        check_content(spans, trace, session.session_id)
        models = [each for each in spans if each.kind == "model" and not was_asked_again(each)]
        steps = deque(find_step(each, replies) for each in models)

    def next_step(request: ModelRequest) -> Step:
        if steps:
            return steps.popleft()
        raise GreenroomError(
            "the session has no more replies on record",
            hint="the replay asks its model more often than the session did",
        )

    traced = {each.tool_use_id: each for each in list_traced_results(spans)}
    return Playback(
        next_step,
        {**traced, **list_results(history)},
        dict(list_traced_errors(spans)),
        Subagents(trace.spans if trace else (), session.session_id),
    )
