"""Replays: a recorded session run again, without a model and without its tools.

`replay` answers from the record, and `drift` says at which request a changed agent would have asked
its model something else.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from difflib import unified_diff
from typing import Concatenate, ParamSpec

import msgspec
import trio

from greenroom.core import (
    AgentContext,
    ConfigurationError,
    GreenroomError,
    Message,
    PermissionRequest,
    RuleDecision,
    ToolResult,
    ToolStatus,
    ToolUseBlock,
)
from greenroom.llm import LLMProvider, Substitutes
from greenroom.observability import Span, Trace, Tracer, semconv as names
from greenroom.runtime import AgentHandle, AgentInternals, AgentRuntime
from greenroom.session import AgentSession, InMemoryStore, read_decisions
from greenroom.testing.models import ScriptedProvider

P = ParamSpec("P")

_COMPARED = (
    names.REQUEST_MODEL,
    names.SYSTEM,
    names.TOOL_DEFINITIONS,
    names.INPUT_MESSAGES,
    names.MAX_TOKENS,
    names.TEMPERATURE,
    names.TOP_P,
    names.SEED,
    names.STOP_SEQUENCES,
    names.OUTPUT_TYPE,
)


@dataclass(frozen=True)
class Drift:
    """Where a changed agent goes another way than its record.

    Attributes:
        step: the number of the request, from 1.
        diff: what differs, line by line; lines with `-` are the record's.
    """

    step: int
    diff: str


class _Replay(Substitutes):
    """Answers the calls of one session's agent from its record."""

    def __init__(self, session: AgentSession) -> None:
        history = session.history
        self._replies = [each for each in history if each.role == "assistant"]
        self._results = {
            each.tool_use_id: each for message in history for each in message.tool_results
        }
        self._models: dict[str, LLMProvider] = {}

    def model(self, agent: AgentContext, llm: LLMProvider) -> LLMProvider | None:
        if agent.parent_session_id is not None:
            raise GreenroomError(
                f"the model of {agent.name} is not on record: a replay runs no subagent",
                hint="replay the subagent's own session",
            )
        if agent.session_id not in self._models:
            script = ScriptedProvider(*self._replies, name=llm.name, model=llm.model)
            self._models[agent.session_id] = script
        return self._models[agent.session_id]

    async def result(self, agent: AgentContext, call: ToolUseBlock) -> ToolResult | None:
        await trio.lowlevel.checkpoint()
        found = self._results.get(call.id)
        if found is None:
            raise GreenroomError(
                f"the call {call.id} of {call.name} has no result on record",
                hint="the replay asks for another call than the session did",
            )
        status = ToolStatus.ERROR if found.is_error else ToolStatus.SUCCESS
        return ToolResult(found.content, status).with_error_message()


def replay(session: AgentSession) -> Substitutes:
    """Return what answers every call of a session from its record, for the resources of a runtime.

    Models give the replies that are in the conversation, in order, and tools the results; none of
    them runs. What is not on record is an error. Insert it with `runtime.resources.insert(…)`.

    Example:
        >>> session = AgentSession.new("agent")
        >>> session.add_message(Message.user("Hello."))
        >>> session.add_message(Message.assistant("Hi!"))
        >>> from greenroom import Agent
        >>> async def main():
        ...     async with AgentRuntime(InMemoryStore()) as runtime:
        ...         runtime.resources.insert(replay(session))
        ...         print((await Agent("offline:").run("Hello.", runtime=runtime)).text)
        >>> trio.run(main)
        Hi!
    """
    return _Replay(session)


class _Requests:
    """A sink that keeps what one agent asked its model."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self.spans: list[Span] = []

    def begin(self, span: Span, agent: AgentContext | None) -> None:
        if span.kind == "model" and span.session_id == self._session_id:
            self.spans.append(span)

    def end(self, span: Span, agent: AgentContext | None) -> None:
        pass

    def scope(self, span: Span) -> AbstractContextManager[object]:
        return nullcontext()


async def drift(
    session: AgentSession,
    trace: Trace,
    agent_fn: Callable[Concatenate[AgentInternals, P], Awaitable[object]],
    *args: P.args,
    **named: P.kwargs,
) -> Drift | None:
    """Run a recorded session again with an agent of today, and compare what it asks its model.

    No model is asked and no tool runs: both answer from the record, and so do persons. Requests are
    compared as the trace holds them, secrets taken out on both sides.

    Args:
        session: the recorded session.
        trace: its trace, with content.
        agent_fn: the agent function of today.
        *args: its further arguments.
        **named: those by name.

    Returns:
        The first difference; None if every request is the same.

    Raises:
        ConfigurationError: the trace has no content to compare.
    """
    recorded = [
        each
        for each in trace.spans
        if each.kind == "model" and each.session_id == session.session_id
    ]
    if not recorded or names.INPUT_MESSAGES not in recorded[0].attributes:
        raise ConfigurationError(
            f"the trace of {session.session_id} does not say what its model was asked",
            hint='record it with Tracer(…, content="redacted")',
        )
    again = AgentSession.new(session.agent_type)
    kept = _Requests(again.session_id)
    decisions = {each.tool_use_id: each.decision for each in await read_decisions(session)}
    tracer = Tracer(kept, content="redacted")

    async def run_agent(agent: AgentInternals) -> None:
        await agent_fn(agent, *args, **named)

    async with AgentRuntime(InMemoryStore(), instruments=[tracer]) as runtime:
        runtime.resources.insert(replay(session))
        handle = runtime.spawn(again, run_agent)
        async with trio.open_nursery() as nursery:
            await nursery.start(_answer, handle, decisions)
            for message in _list_inputs(session.history):
                result = await handle.ask(message.content, sender=message.sender)
                if result.status != "completed":
                    break
            nursery.cancel_scope.cancel()
        handle.kill()
    return _compare(recorded, kept.spans)


async def _answer(
    handle: AgentHandle,
    decisions: Mapping[str, RuleDecision],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer questions as they were answered."""
    async with handle.subscribe(replay="none", answers=True) as chunks:
        task_status.started()
        async for chunk in chunks:
            if isinstance(chunk, PermissionRequest):
                decision = decisions.get(chunk.tool_use_id, RuleDecision.DENY)
                await handle.respond_permission(chunk.request_id, decision)


def _list_inputs(history: Iterable[Message]) -> list[Message]:
    return [each for each in history if each.role == "user" and not each.tool_results]


def _compare(recorded: list[Span], asked: list[Span]) -> Drift | None:
    for step, (before, now) in enumerate(zip(recorded, asked, strict=False), 1):
        if diff := _diff(_describe(before), _describe(now)):
            return Drift(step, diff)
    if len(recorded) == len(asked):
        return None
    step = min(len(recorded), len(asked)) + 1
    if len(asked) < len(recorded):
        return Drift(step, _diff(_describe(recorded[step - 1]), ""))
    return Drift(step, _diff("", _describe(asked[step - 1])))


def _describe(span: Span) -> str:
    found = {name: span.attributes[name] for name in _COMPARED if name in span.attributes}
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode()


def _diff(before: str, now: str) -> str:
    lines = unified_diff(before.splitlines(), now.splitlines(), "recorded", "now", lineterm="")
    return "\n".join(lines)
