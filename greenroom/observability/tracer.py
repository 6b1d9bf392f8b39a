"""The tracer: an instrument that turns hooks into spans, once, for any number of sinks.

An agent that lives for long is no span: its turns are. In a turn are its calls of models and tools;
a tool's span is the current one in the task, or the thread, that runs the tool, so that what
happens there belongs to it. The parent of a turn is what the input says (`traceparent`), else the
step of the plan or workflow that it works for, else the call of the tool that spawned the agent,
else the turn that did, else the span in which it was spawned.

A permission is an event of its call; restarts, guards, handoffs, further attempts and whatever else
agents report are events of the innermost open span of their agent.
"""

import os
import time
from collections.abc import Mapping

from msgspec import Struct, field

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
    UserInput,
)
from greenroom.core._internal import clip
from greenroom.observability import semconv as names
from greenroom.observability.content import Content, ContentLevel, list_settings, list_stages
from greenroom.observability.flow_steps import Step, read_step
from greenroom.observability.redactor import Redactor
from greenroom.observability.span_output import SpanOutput
from greenroom.observability.spans import (
    OpenSpan,
    SpanKind,
    SpanSink,
    SpanStatus,
    current,
    new_trace_id,
    read_traceparent,
)

_LEVELS = ("none", "redacted", "full")
_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CAPTURES = frozenset({"true", "1", "span_only", "span_and_event"})
_STATUSES = {
    TurnStatus.COMPLETED: SpanStatus.OK,
    TurnStatus.FAILED: SpanStatus.ERROR,
    TurnStatus.INTERRUPTED: SpanStatus.INTERRUPTED,
    TurnStatus.WAITING: SpanStatus.WAITING,
}
INVENTED = "_other"
"""The name of a tool that does not exist, where no word may leave."""


class _Agent(Struct):
    """What is open in one agent, and the names that are shown of it and of those above."""

    lineage: tuple[str, ...]
    turn: OpenSpan | None = None
    model: OpenSpan | None = None
    tools: dict[str, OpenSpan] = field(default_factory=dict)
    error: str = ""  # the class of the last one that it reported
    known: set[str] | None = None  # the tools that its models were told of
    steps: dict[str, OpenSpan] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)  # of a plan's steps, by their ids
    members: dict[str, OpenSpan] = field(default_factory=dict)  # steps, by who works for them
    workflow: OpenSpan | None = None
    asked: dict[str, int] = field(default_factory=dict)  # when, by request
    started: TurnStart | None = None


def _check_sink(sink: object) -> None:
    """Refuse what takes no spans: all of them would be lost without a word."""
    if isinstance(sink, type):
        name = sink.__name__
        raise ConfigurationError(f"{name} is a class, not a sink", hint=f"write Tracer({name}(…))")
    if not all(callable(getattr(sink, each, None)) for each in ("begin", "end", "scope")):
        raise ConfigurationError(
            f"{clip(repr(sink), 100)} takes no spans",
            hint="write Tracer(TraceFile(…)), or Tracer(sink, another_sink)",
        )


class Tracer(Instrument):
    """Turns what agents do into spans for sinks; pass it as an instrument of a runtime.

    Content never leaves without it: sinks see only what `content` lets through. With "none", an
    error is the name of its class, events have no texts, a tool that the model has made up is
    `_other`, a subtask has a number in place of its id, and no word of the conversation is there.

    Args:
        sinks: what takes the spans.
        content: what of the conversation may leave: "none"; "redacted", which is all but what
            `redact` hides; or "full", which is all but what a `Redactor` always hides, and the
            values of credentials. None, the default, is "redacted" if the variable
            OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT says so, else "none".
        redact: what takes out secrets; names pass through it in any case.

    Raises:
        ConfigurationError: the content is none of these three, or something is not a sink.

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
        for sink in sinks:
            _check_sink(sink)
        if content is None:
            is_captured = os.environ.get(_CAPTURE, "").lower() in _CAPTURES
            content = "redacted" if is_captured else "none"
        if content not in _LEVELS:
            raise ConfigurationError(
                f"content={content!r} is unknown", hint=f"write one of {', '.join(_LEVELS)}"
            )
        self._content = Content(content, redact or Redactor())
        self._output = SpanOutput(sinks, self._content)
        self._agents: dict[str, _Agent] = {}
        self._models: dict[ModelCall, OpenSpan] = {}

    # Turns

    def before_turn(self, agent: AgentContext, message: UserInput | SubAgentResult) -> None:
        """Begin the span of the turn, as the current one of the agent's task."""
        state = self._find(agent)
        name = state.lineage[-1] if state.lineage else agent.name
        metadata = getattr(message, "metadata", {})
        trace, parent = read_traceparent(metadata.get("traceparent")) or self._find_parent(agent)
        attributes: dict[str, object] = {
            names.OPERATION: "invoke_agent",
            names.PROVIDER: "greenroom",
            names.AGENT_NAME: name,
            names.AGENT_ID: agent.session_id,
            names.CONVERSATION: agent.session_id,
            names.TURN: agent.current_turn,
            names.INPUT_ID: message.id,
        }
        if message.sender:
            attributes[names.SENDER] = message.sender
        if state.started:
            attributes[names.WAITED] = state.started.waited
        state.turn = self._output.begin(
            SpanKind.TURN, f"invoke_agent {name}", agent, state.lineage, attributes, trace, parent
        )
        self._output.enter(state.turn)

    def after_turn(self, agent: AgentContext, end: Done) -> None:
        """End the span of the turn, and of what it left open."""
        state = self._agents[agent.session_id]
        self._end_all(state, agent, _STATUSES[end.status])
        opened, state.turn, state.started = state.turn, None, None
        kind, state.error = state.error, ""
        if opened is not None:
            if end.stop_reason:
                opened.attributes[names.FINISH_REASONS] = [str(end.stop_reason)]
            error = self._content.describe(end.error, kind, agent) if end.error else ""
            self._output.leave(opened)
            self._output.end(opened, agent, _STATUSES[end.status], error, end.usage)

    def after_agent(self, agent: AgentContext, end: Exited) -> None:
        """Forget the agent."""
        state = self._agents.pop(agent.session_id, None)
        if state is not None:
            self._end_all(state, agent, SpanStatus.INTERRUPTED)
            self._content.forget(agent.session_id)

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
        if self._content.shows:
            content = self._content
            attributes[names.INPUT_MESSAGES] = content.write_messages(request.messages, agent)
            attributes[names.SYSTEM] = content.write_system(request.system, agent)
            attributes[names.TOOL_DEFINITIONS] = content.write_tools(request.tools)
            if request.options:
                attributes[names.OPTIONS] = content.clean(request.options, agent)
            if request.output:
                attributes[names.OUTPUT_SCHEMA] = content.clean(request.output.schema, agent)
        opened = self._begin_within(SpanKind.MODEL, f"chat {call.model}", agent, attributes)
        state = self._find(agent)
        state.known = state.known or set()
        state.known.update([each.name for each in request.tools])
        if state.turn:
            state.turn.attributes[names.PROVIDER] = attributes[names.PROVIDER]
        self._models[call] = state.model = opened
        self._output.enter(opened)

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
            if self._content.shows:
                opened.attributes[names.OUTPUT_MESSAGES] = self._content.write_reply(reply, agent)
        self._output.leave(opened)
        self._output.fail_or_end(opened, agent, error, reply.usage if reply else None)

    def _ask_again(self, agent: AgentContext) -> None:
        """Begin another span where a model is asked for its reply in another form."""
        for call, opened in self._models.items():
            if opened is self._find(agent).model:
                before = opened.span
                self._output.leave(opened)
                self._output.end(opened, agent, SpanStatus.OK, "", None)
                again = self._output.begin(
                    SpanKind.MODEL,
                    before.name,
                    agent,
                    before.lineage,
                    dict(before.attributes),
                    before.trace_id,
                    before.parent_id,
                )
                self._models[call] = self._find(agent).model = again
                self._output.enter(again)
                return

    # Tools

    def before_tool_call(self, agent: AgentContext, call: ToolUseBlock) -> None:
        """Begin the span of a call, which is judged before it runs."""
        known, name = self._find(agent).known, call.name
        if not self._content.shows and known is not None and name not in known:
            name = INVENTED  # what a model makes up is its own words
        self._begin_tool(agent, call, name)

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
            opened = self._begin_tool(agent, call, call.name)
            opened.attributes["greenroom.tool.direct"] = True
        self._output.enter(opened)

    def after_tool_run(
        self, agent: AgentContext, call: ToolUseBlock, result: ToolResult | None
    ) -> None:
        """Leave it, and end that of a call which no model has asked for."""
        opened = self._find(agent).tools.get(call.id)
        if opened is not None:
            self._output.leave(opened)
            if opened.attributes.pop("greenroom.tool.direct", None):
                self._end_tool(agent, call, result, None)

    def _begin_tool(self, agent: AgentContext, call: ToolUseBlock, name: str) -> OpenSpan:
        attributes: dict[str, object] = {
            names.OPERATION: "execute_tool",
            names.TOOL_NAME: self._content.clean_name(name),
            names.TOOL_CALL_ID: call.id,
            names.TOOL_TYPE: "function",
            names.CONVERSATION: agent.session_id,
        }
        if self._content.shows:
            attributes[names.TOOL_ARGUMENTS] = self._content.clean(call.input, agent)
        opened = self._begin_within(SpanKind.TOOL, f"execute_tool {name}", agent, attributes)
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
            self._output.fail_or_end(opened, agent, error, None, interrupted=error is None)
            return
        if self._content.shows:
            opened.attributes[names.TOOL_RESULT] = self._content.clean(result.text, agent)
        opened.attributes.update(list_stages(result))
        kind = str(result.metadata.get("error", "ToolError"))
        if result.is_error:
            opened.attributes[names.ERROR_TYPE] = kind
        message = self._content.describe(f"{kind}: {result.error_message}", kind, agent)
        status = SpanStatus.ERROR if result.is_error else SpanStatus.OK
        self._output.end(opened, agent, status, message if result.is_error else "", None)

    # Events

    def before_permission(self, agent: AgentContext, request: PermissionRequest) -> None:
        """Note when a person was asked."""
        self._find(agent).asked[request.request_id] = time.monotonic_ns()

    def after_permission(
        self, agent: AgentContext, request: PermissionRequest, answer: Answer
    ) -> None:
        """Note the answer at the call that it is about."""
        now = time.monotonic_ns()
        waited = now - self._find(agent).asked.pop(request.request_id, now)
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
        opened = self._find_innermost(agent.session_id) or self._find_outer(agent)
        if opened is not None:
            opened.add_event(name, self._content.select(data, agent))

    # Steps of plans and workflows

    def _follow(self, agent: AgentContext, step: Step) -> None:
        """Begin the span of a step, or end it; a step that begins again has ended before."""
        state = self._find(agent)
        if step.kind != SpanKind.PLAN_STEP and state.workflow is None:
            # Here and not at its first chunk: a run that goes on has none.
            name = state.lineage[-1] if state.lineage else agent.name
            about = {names.OPERATION: "invoke_workflow", names.WORKFLOW_NAME: name}
            about[names.CONVERSATION] = agent.session_id
            state.workflow = self._begin_within(
                SpanKind.WORKFLOW, f"invoke_workflow {name}", agent, dict(about)
            )
        if step.kind == SpanKind.WORKFLOW:
            if not step.begins:
                self._end_workflow(state, agent, SpanStatus.OK)
            return
        id_ = step.id
        if step.kind == SpanKind.PLAN_STEP and not self._content.shows:
            id_ = state.numbers.setdefault(id_, str(len(state.numbers) + 1))
        before = state.steps.pop(id_, None)
        if before is not None:
            state.members = {k: v for k, v in state.members.items() if v is not before}
            self._output.end(
                before, agent, SpanStatus.ERROR if step.failed else SpanStatus.OK, "", None
            )
        if step.begins:
            attributes = {names.STEP: id_, names.CONVERSATION: agent.session_id}
            name = f"{step.kind} {id_}"
            opened = self._begin_within(
                step.kind, name, agent, dict(attributes), outer=state.workflow
            )
            state.steps[id_] = opened
            if step.member:
                state.members[step.member] = opened

    def _end_workflow(self, state: _Agent, agent: AgentContext, status: SpanStatus) -> None:
        opened, state.workflow = state.workflow, None
        if opened is not None:
            self._output.end(opened, agent, status, "", None)

    def _end_all(self, state: _Agent, agent: AgentContext, status: SpanStatus) -> None:
        """End what an agent has left open, also what its function entered by hand.

        A workflow ends as its turn does.
        """
        models = [
            each for each in self._models.items() if each[1].span.session_id == agent.session_id
        ]
        for call, _ in models:
            del self._models[call]
        left = [*(each for _, each in models), *state.tools.values(), *state.steps.values()]
        for opened in left:
            self._output.forget(opened)
            self._output.end(opened, agent, SpanStatus.INTERRUPTED, "", None)
        self._end_workflow(state, agent, status)
        state.model = None
        state.tools.clear()
        state.steps.clear()
        state.members.clear()
        state.asked.clear()

    # What all of them share

    def _find(self, agent: AgentContext) -> _Agent:
        state = self._agents.get(agent.session_id)
        if state is None:
            state = self._agents[agent.session_id] = _Agent(self._list_names(agent))
        return state

    def _list_names(self, agent: AgentContext) -> tuple[str, ...]:
        """Return an agent's lineage; without content, who works for a subtask has its number.

        Such an agent has the subtask's id for a name, and a model may have made it up.
        """
        above = self._agents.get(agent.parent_session_id or "")
        if self._content.shows or above is None:
            return agent.lineage
        step = above.members.get(agent.session_id)
        is_of_plan = step is not None and step.span.kind == SpanKind.PLAN_STEP
        own = (
            (str(step.span.attributes[names.STEP]),) if step and is_of_plan else agent.lineage[-1:]
        )
        return (*above.lineage, *own)

    def _find_parent(self, agent: AgentContext) -> tuple[str, str]:
        """Return the ids of the trace and of the parent of a turn."""
        found, here = self._find_outer(agent), current.get()
        if found is None and here is not None and here[0] is self._output:
            found = here[1]
        return (found.span.trace_id, found.span.span_id) if found else (new_trace_id(), "")

    def _find_outer(self, agent: AgentContext) -> OpenSpan | None:
        """Return what is open above an agent: the step it works for, its call, or the turn."""
        above = self._agents.get(agent.parent_session_id or "")
        if above is None:
            return None
        step = above.members.get(agent.session_id)
        return step or above.tools.get(agent.parent_tool_use_id or "") or above.turn

    def _find_innermost(self, session_id: str) -> OpenSpan | None:
        state = self._agents.get(session_id)
        return (state.model or state.turn) if state else None

    def _begin_within(
        self,
        kind: SpanKind,
        name: str,
        agent: AgentContext,
        attributes: dict[str, object],
        outer: OpenSpan | None = None,
    ) -> OpenSpan:
        """Begin a span within another, or within the current one of this agent, or its turn."""
        here, state = current.get(), self._find(agent)
        if outer is None and here and here[1].span.session_id == agent.session_id:
            outer = here[1]
        outer = outer or state.turn
        trace, parent = (
            (outer.span.trace_id, outer.span.span_id) if outer else self._find_parent(agent)
        )
        return self._output.begin(kind, name, agent, state.lineage, attributes, trace, parent)
