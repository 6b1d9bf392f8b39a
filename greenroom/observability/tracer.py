"""The tracer: an instrument that turns hooks into spans, once, for any number of sinks.

An agent that lives for long is no span: its turns are. In a turn are its calls of models and tools;
a tool's span is the current one in the task, or the thread, that runs the tool, so that what
happens there belongs to it. The parent of a turn is what the input says (`traceparent`), else the
step of the plan or workflow that it works for, else the call of the tool that spawned the agent,
else the turn that did, else the span in which it was spawned.

A permission is an event of its call; restarts, guards, handoffs, further attempts and whatever else
agents report are events of the innermost open span of their agent.
"""

import logging
import os
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from contextvars import Token
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias

from greenroom.core import (
    AgentContext,
    Answer,
    ConfigurationError,
    Custom,
    Done,
    Error,
    Exited,
    Instrument,
    Message,
    ModelCall,
    OutputChunk,
    PermissionRequest,
    Restarted,
    SubAgentResult,
    ToolResult,
    ToolUseBlock,
    TurnStart,
    TurnStatus,
    Usage,
    UserInput,
)
from greenroom.core._internal import log_error
from greenroom.observability import semconv as names
from greenroom.observability.content import Content, list_settings, list_usage
from greenroom.observability.flow_steps import Step, read_step
from greenroom.observability.redactor import Redactor
from greenroom.observability.spans import (
    OpenSpan,
    Scope,
    Span,
    SpanKind,
    SpanSink,
    SpanStatus,
    current,
    new_span_id,
    new_trace_id,
    read_traceparent,
)

ContentLevel: TypeAlias = Literal["none", "redacted", "full"]
"""What of the conversation may leave: nothing, what a redactor lets through, or all but secrets."""

logger = logging.getLogger("greenroom.observability")

_LEVELS = ("none", "redacted", "full")
_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CAPTURES = frozenset({"true", "1", "span_only", "span_and_event"})
_STATUSES = {
    TurnStatus.COMPLETED: SpanStatus.OK,
    TurnStatus.FAILED: SpanStatus.ERROR,
    TurnStatus.INTERRUPTED: SpanStatus.INTERRUPTED,
    TurnStatus.WAITING: SpanStatus.WAITING,
}
_MAX_NAMES = 1_024
_LONGEST = 2_000  # characters of an error, and of a text of an event


@dataclass
class _Agent:
    """What is open in one agent."""

    turn: OpenSpan | None = None
    model: OpenSpan | None = None
    tools: dict[str, OpenSpan] = field(default_factory=dict)
    error: str = ""  # the class of the last one that it reported
    steps: dict[str, OpenSpan] = field(default_factory=dict)
    members: dict[str, OpenSpan] = field(default_factory=dict)  # steps, by who works for them
    started: TurnStart | None = None


@dataclass
class _Entered:
    """The scopes that were entered for a span in one task."""

    scopes: ExitStack
    token: Token[tuple[Scope, OpenSpan] | None]


class Tracer(Instrument):
    """Turns what agents do into spans for sinks; pass it as an instrument of a runtime.

    Content never leaves without it: sinks see only what `content` lets through. With "none", an
    error is the name of its class, events have no texts, and no word of the conversation is there.

    Args:
        sinks: what takes the spans.
        content: what of the conversation may leave: "none"; "redacted", which is all but what
            `redact` hides; or "full", which is all but what a `Redactor` always hides, and the
            values of credentials. None, the default, is "redacted" if the variable
            OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT says so, else "none".
        redact: what takes out secrets; names pass through it in any case.

    Raises:
        ConfigurationError: the content is none of these three.

    Example:
        >>> class Printer:
        ...     def begin(self, span, agent): ...
        ...     def end(self, span, agent):
        ...         print(span.name, span.status)
        ...     def scope(self, span):
        ...         return contextlib.nullcontext()
        >>> import contextlib
        >>> from greenroom import Agent, AgentRuntime, InMemoryStore
        >>> from greenroom.testing import ScriptedProvider
        >>> import trio
        >>> async def main():
        ...     tracer = Tracer(Printer())
        ...     async with AgentRuntime(InMemoryStore(), instruments=[tracer]) as runtime:
        ...         await Agent(ScriptedProvider("Hi!"), name="Ann").run("Hello", runtime=runtime)
        >>> trio.run(main)
        chat script ok
        invoke_agent Ann ok
    """

    def __init__(
        self,
        *sinks: SpanSink,
        content: ContentLevel | None = None,
        redact: Redactor | None = None,
    ) -> None:
        if content is None:
            is_captured = os.environ.get(_CAPTURE, "").lower() in _CAPTURES
            content = "redacted" if is_captured else "none"
        if content not in _LEVELS:
            raise ConfigurationError(
                f"content={content!r} is unknown", hint=f"write one of {', '.join(_LEVELS)}"
            )
        self._sinks = sinks
        self._shows = content != "none"
        self._redact = redact or Redactor()
        self._clean_name = lru_cache(_MAX_NAMES)(self._redact)  # there are few, again and again
        self._content = Content(Redactor() if content == "full" else self._redact)
        self._agents: dict[str, _Agent] = {}
        self._models: dict[ModelCall, OpenSpan] = {}
        self._asked: dict[str, int] = {}
        self._entered: dict[str, _Entered] = {}
        self._failures: Counter[str] = Counter()

    # Turns

    def before_turn(self, agent: AgentContext, message: UserInput | SubAgentResult) -> None:
        """Begin the span of the turn, as the current one of the agent's task."""
        state = self._find(agent)
        metadata = getattr(message, "metadata", {})
        trace, parent = read_traceparent(metadata.get("traceparent")) or self._find_parent(agent)
        attributes: dict[str, object] = {
            names.OPERATION: "invoke_agent",
            names.PROVIDER: "greenroom",
            names.AGENT_NAME: agent.name,
            names.AGENT_ID: agent.session_id,
            names.CONVERSATION: agent.session_id,
            names.TURN: agent.current_turn,
            names.INPUT_ID: message.id,
        }
        if message.sender:
            attributes[names.SENDER] = message.sender
        if state.started:
            attributes[names.WAITED] = state.started.waited
        state.turn = self._begin(
            SpanKind.TURN, f"invoke_agent {agent.name}", agent, attributes, trace, parent
        )
        self._enter(state.turn)

    def after_turn(self, agent: AgentContext, end: Done) -> None:
        """End the span of the turn, and of what it left open."""
        state = self._agents[agent.session_id]
        self._end_all(state, agent)
        opened, state.turn, state.started = state.turn, None, None
        kind, state.error = state.error, ""
        if opened is not None:
            if end.stop_reason:
                opened.attributes[names.FINISH_REASONS] = [str(end.stop_reason)]
            error = self._describe(end.error, kind, agent) if end.error else ""
            self._leave(opened)
            self._end(opened, agent, _STATUSES[end.status], error, end.usage)

    def after_agent(self, agent: AgentContext, end: Exited) -> None:
        """Forget the agent."""
        state = self._agents.pop(agent.session_id, None)
        if state is not None:
            self._end_all(state, agent)

    # Models

    def before_model_call(self, agent: AgentContext, call: ModelCall) -> None:
        """Begin the span of a model call, within the current one of this agent."""
        request = call.request
        attributes: dict[str, object] = {
            names.OPERATION: "chat",
            names.PROVIDER: names.PROVIDERS.get(call.provider, call.provider),
            names.REQUEST_MODEL: call.model,
            names.CONVERSATION: agent.session_id,
            **list_settings(request),
        }
        if self._shows:
            content = self._content
            attributes[names.INPUT_MESSAGES] = content.write_messages(request.messages, agent)
            attributes[names.SYSTEM] = content.write_system(request.system, agent)
            attributes[names.TOOL_DEFINITIONS] = content.write_tools(request.tools)
        opened = self._begin_within(SpanKind.MODEL, f"chat {call.model}", agent, attributes)
        state = self._find(agent)
        if state.turn:
            state.turn.attributes[names.PROVIDER] = attributes[names.PROVIDER]
        self._models[call] = state.model = opened
        self._enter(opened)

    def after_model_call(
        self,
        agent: AgentContext,
        call: ModelCall,
        reply: Message | None,
        error: BaseException | None,
    ) -> None:
        """End it."""
        opened = self._models.pop(call, None)
        if opened is None:
            return  # it ended with its turn, and was left later
        state = self._find(agent)
        if state.model is opened:
            state.model = None
        if reply is not None:
            opened.attributes[names.FINISH_REASONS] = [str(reply.stop_reason or "unknown")]
            if self._shows:
                opened.attributes[names.OUTPUT_MESSAGES] = self._content.write_reply(reply, agent)
        self._leave(opened)
        self._fail_or_end(opened, agent, error, reply.usage if reply else None)

    def _ask_again(self, agent: AgentContext) -> None:
        """Begin another span where a model is asked for its reply in another form."""
        for call, opened in self._models.items():
            if opened is self._find(agent).model:
                before = opened.span
                self._leave(opened)
                self._end(opened, agent, SpanStatus.OK, "", None)
                again = self._begin(
                    SpanKind.MODEL,
                    before.name,
                    agent,
                    dict(before.attributes),
                    before.trace_id,
                    before.parent_id,
                )
                self._models[call] = self._find(agent).model = again
                self._enter(again)
                return

    # Tools

    def before_tool_call(self, agent: AgentContext, call: ToolUseBlock) -> None:
        """Begin the span of a call, which is judged before it runs."""
        self._begin_tool(agent, call)

    def after_tool_call(
        self,
        agent: AgentContext,
        call: ToolUseBlock,
        result: ToolResult | None,
        error: BaseException | None,
    ) -> None:
        """End it."""
        self._end_tool(agent, call, result, error)

    def before_tool_run(self, agent: AgentContext, call: ToolUseBlock) -> None:
        """Make the call's span the current one of the task that runs the tool."""
        opened = self._find(agent).tools.get(call.id)
        if opened is None:  # a plan's, a workflow's, or another tool's call
            opened = self._begin_tool(agent, call)
            opened.attributes["greenroom.tool.direct"] = True
        self._enter(opened)

    def after_tool_run(
        self, agent: AgentContext, call: ToolUseBlock, result: ToolResult | None
    ) -> None:
        """Leave it, and end that of a call which no model has asked for."""
        opened = self._find(agent).tools.get(call.id)
        if opened is not None:
            self._leave(opened)
            if opened.attributes.pop("greenroom.tool.direct", None):
                self._end_tool(agent, call, result, None)

    def _begin_tool(self, agent: AgentContext, call: ToolUseBlock) -> OpenSpan:
        attributes: dict[str, object] = {
            names.OPERATION: "execute_tool",
            names.TOOL_NAME: self._clean_name(call.name),
            names.TOOL_CALL_ID: call.id,
            names.TOOL_TYPE: "function",
            names.CONVERSATION: agent.session_id,
        }
        if self._shows:
            attributes[names.TOOL_ARGUMENTS] = self._content.clean(call.input, agent)
        opened = self._begin_within(SpanKind.TOOL, f"execute_tool {call.name}", agent, attributes)
        self._find(agent).tools[call.id] = opened
        return opened

    def _end_tool(
        self,
        agent: AgentContext,
        call: ToolUseBlock,
        result: ToolResult | None,
        error: BaseException | None,
    ) -> None:
        opened = self._find(agent).tools.pop(call.id, None)
        if opened is None:
            return
        if result is None:
            self._fail_or_end(opened, agent, error, None, interrupted=error is None)
            return
        if self._shows:
            opened.attributes[names.TOOL_RESULT] = self._content.clean(result.text, agent)
        kind = str(result.metadata.get("error", "ToolError"))
        if result.is_error:
            opened.attributes[names.ERROR_TYPE] = kind
        message = self._describe(f"{kind}: {result.error_message}", kind, agent)
        status = SpanStatus.ERROR if result.is_error else SpanStatus.OK
        self._end(opened, agent, status, message if result.is_error else "", None)

    # Events

    def before_permission(self, agent: AgentContext, request: PermissionRequest) -> None:
        """Note when a person was asked."""
        self._asked[request.request_id] = time.monotonic_ns()

    def after_permission(
        self, agent: AgentContext, request: PermissionRequest, answer: Answer
    ) -> None:
        """Note the answer at the call that it is about."""
        waited = time.monotonic_ns() - self._asked.pop(request.request_id, time.monotonic_ns())
        opened = self._find(agent).tools.get(request.tool_use_id)
        opened = opened or self._find_innermost(agent.session_id)
        if opened is not None:
            opened.add_event(
                "permission",
                {
                    "tool": request.tool_name,
                    "decision": str(answer.decision),
                    "by": answer.by,
                    "waited": round(waited / 1e9, 3),
                },
            )

    def on_chunk(self, agent: AgentContext, chunk: OutputChunk) -> None:
        """Follow the steps of plans and workflows, and note what else the agent reports."""
        if isinstance(chunk, Custom):
            if step := read_step(chunk):
                self._follow(agent, step)
            elif chunk.kind == "react.reformat":
                self._ask_again(agent)
            self._add_event(agent, chunk.kind, chunk.data)
        elif isinstance(chunk, TurnStart):
            self._find(agent).started = chunk
        elif isinstance(chunk, Restarted):
            data = {"restarts": chunk.restarts, "delay": chunk.delay, "error": chunk.error}
            self._add_event(agent, "restarted", data)
        elif isinstance(chunk, Error):
            self._find(agent).error = chunk.kind

    def _add_event(self, agent: AgentContext, name: str, data: Mapping[str, object]) -> None:
        opened = self._find_innermost(agent.session_id)
        if opened is not None:
            opened.add_event(name, self._select(data, agent))

    def _select(self, data: Mapping[str, object], agent: AgentContext) -> dict[str, object]:
        """Return the facts of an event that may leave: numbers always, texts if content may."""
        plain = {k: v for k, v in data.items() if isinstance(v, bool | int | float)}
        if self._shows:
            texts = {k: v[:_LONGEST] for k, v in data.items() if isinstance(v, str)}
            plain.update(self._content.clean(texts, agent))  # type: ignore[call-overload]
        return dict(plain)

    # Steps of plans and workflows

    def _follow(self, agent: AgentContext, step: Step) -> None:
        """Begin the span of a step, or end it; a step that begins anew has ended before."""
        state = self._find(agent)
        before = state.steps.pop(step.id, None)
        if before is not None:
            state.members = {k: v for k, v in state.members.items() if v is not before}
            self._end(before, agent, SpanStatus.ERROR if step.failed else SpanStatus.OK, "", None)
        if step.begins:
            attributes = {names.STEP: step.id, names.CONVERSATION: agent.session_id}
            name = f"{step.kind} {step.id}"
            opened = self._begin_within(step.kind, name, agent, dict(attributes))
            state.steps[step.id] = opened
            if step.member:
                state.members[step.member] = opened

    def _end_all(self, state: _Agent, agent: AgentContext) -> None:
        """End what an agent has left open, also what its function entered by hand."""
        models = [
            each for each in self._models.items() if each[1].span.session_id == agent.session_id
        ]
        for call, _ in models:
            del self._models[call]
        left = [*(each for _, each in models), *state.tools.values(), *state.steps.values()]
        for opened in left:
            self._entered.pop(opened.span.span_id, None)
            self._end(opened, agent, SpanStatus.INTERRUPTED, "", None)
        state.model = None
        state.tools.clear()
        state.steps.clear()
        state.members.clear()

    # The user's own

    def begin_own(self, name: str, attributes: Mapping[str, object]) -> OpenSpan:
        """Begin a span of the user's within the current one."""
        here = current.get()
        assert here is not None
        agent, outer = here[1].agent, here[1].span
        facts = {k: v for k, v in attributes.items() if self._shows or not isinstance(v, str)}
        made = Span(
            SpanKind.SPAN,
            name,
            outer.session_id,
            outer.lineage,
            outer.trace_id,
            new_span_id(),
            outer.span_id,
            time.time_ns(),
            attributes=self._redact(facts),
        )
        self._tell("begin", made, agent)
        return OpenSpan(made, agent)

    def end_own(self, opened: OpenSpan, error: BaseException | None) -> None:
        """End it."""
        self._fail_or_end(opened, opened.agent, error, None)

    # What all of them share

    def _find(self, agent: AgentContext) -> _Agent:
        return self._agents.setdefault(agent.session_id, _Agent())

    def _find_parent(self, agent: AgentContext) -> tuple[str, str]:
        """Return the ids of the trace and of the parent of a turn."""
        above, found = self._agents.get(agent.parent_session_id or ""), None
        if above is not None:
            found = above.members.get(agent.session_id)
            found = found or above.tools.get(agent.parent_tool_use_id or "") or above.turn
        here = current.get()
        if found is None and here is not None and here[0] is self:
            found = here[1]
        return (found.span.trace_id, found.span.span_id) if found else (new_trace_id(), "")

    def _find_innermost(self, session_id: str) -> OpenSpan | None:
        state = self._agents.get(session_id)
        return (state.model or state.turn) if state else None

    def _begin_within(
        self, kind: SpanKind, name: str, agent: AgentContext, attributes: dict[str, object]
    ) -> OpenSpan:
        """Begin a span within the current one of this agent, else within its turn."""
        here, state = current.get(), self._agents.get(agent.session_id)
        outer = here[1] if here and here[1].span.session_id == agent.session_id else None
        outer = outer or (state.turn if state else None)
        trace, parent = (
            (outer.span.trace_id, outer.span.span_id) if outer else self._find_parent(agent)
        )
        return self._begin(kind, name, agent, attributes, trace, parent)

    def _begin(
        self,
        kind: SpanKind,
        name: str,
        agent: AgentContext,
        attributes: dict[str, object],
        trace: str,
        parent: str,
    ) -> OpenSpan:
        span = Span(
            kind,
            self._clean_name(name),
            agent.session_id,
            agent.lineage,
            trace,
            new_span_id(),
            parent,
            time.time_ns(),
            attributes=attributes,
        )
        self._tell("begin", span, agent)
        return OpenSpan(span, agent)

    def _end(
        self,
        opened: OpenSpan,
        agent: AgentContext | None,
        status: SpanStatus,
        error: str,
        usage: Usage | None,
    ) -> None:
        if usage is not None:
            opened.attributes.update(list_usage(usage))
        span = opened.finish(status, error, usage)
        self._tell("end", span, agent)

    def _tell(self, what: Literal["begin", "end"], span: Span, agent: AgentContext | None) -> None:
        """Hand a span to each sink; one that raises is logged, and keeps it from no other."""
        for sink in self._sinks:
            try:
                sink.begin(span, agent) if what == "begin" else sink.end(span, agent)
            except Exception as error:  # noqa: BLE001 (a sink never changes what it watches)
                name = type(sink).__name__
                self._failures[name] += 1
                if self._failures[name] == 1:
                    log_error(logger, f"the sink {name} raised", error)

    def _fail_or_end(
        self,
        opened: OpenSpan,
        agent: AgentContext | None,
        error: BaseException | None,
        usage: Usage | None,
        *,
        interrupted: bool = False,
    ) -> None:
        """End a span by what its block has raised."""
        kind = type(error).__name__ if error else ""
        if interrupted or kind == "Cancelled":
            self._end(opened, agent, SpanStatus.INTERRUPTED, kind, usage)
        elif error is None:
            self._end(opened, agent, SpanStatus.OK, "", usage)
        else:
            opened.attributes[names.ERROR_TYPE] = kind
            text = self._describe(f"{kind}: {error}", kind, agent)
            self._end(opened, agent, SpanStatus.ERROR, text, usage)

    def _describe(self, text: str, kind: str, agent: AgentContext | None) -> str:
        return str(self._content.clean(text[:_LONGEST], agent)) if self._shows else kind

    def _enter(self, opened: OpenSpan) -> None:
        """Make a span the current one of this task, for the sinks as well."""
        scopes = ExitStack()
        for sink in self._sinks:
            scopes.enter_context(sink.scope(opened.span))
        token = current.set((self, opened))
        self._entered[opened.span.span_id] = _Entered(scopes, token)

    def _leave(self, opened: OpenSpan) -> None:
        entered = self._entered.pop(opened.span.span_id, None)
        if entered is not None:
            entered.scopes.close()
            # A turn that its function never left is ended by the runtime, from elsewhere.
            with suppress(ValueError):
                current.reset(entered.token)
