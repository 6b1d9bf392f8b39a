"""What a tracer makes of a beginning and an end: spans, handed to sinks, current in their tasks."""

import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from contextvars import Token
from typing import Literal

import msgspec
import trio

from greenroom.core import AgentContext, Usage
from greenroom.core._internal import leaves, log_error
from greenroom.observability import semconv as names
from greenroom.observability.content import Content, list_usage
from greenroom.observability.spans import (
    NO_SCOPE,
    OpenSpan,
    Scope,
    Span,
    SpanKind,
    SpanSink,
    SpanStatus,
    current,
    new_span_id,
)

logger = logging.getLogger("greenroom.observability")

_LEAVING = (trio.Cancelled, GeneratorExit)
"""What is raised where a block is left from outside: a cancel, or a generator that is closed."""


class _Entered(msgspec.Struct):
    """The scopes that were entered for a span in one task, and whose they are."""

    scopes: list[tuple[SpanSink, AbstractContextManager[object]]]
    token: Token[tuple[Scope, OpenSpan] | None]


class SpanOutput:
    """Begins and ends spans for any number of sinks.

    Args:
        sinks: what takes the spans.
        content: what lets names and errors through.
    """

    def __init__(self, sinks: Sequence[SpanSink], content: Content) -> None:
        self._sinks = sinks
        self._content = content
        self._entered: dict[str, _Entered] = {}
        self._failures: Counter[str] = Counter()

    def begin_own(self, name: str, attributes: Mapping[str, object]) -> OpenSpan:
        """Begin a span of the user's within the current one."""
        here = current.get()
        assert here is not None
        agent, outer = here[1].agent, here[1].span
        facts = self._content.select(attributes, agent, whole=True)
        made = Span(
            SpanKind.SPAN,
            self._content.clean_name(name),
            outer.session_id,
            outer.lineage,
            outer.trace_id,
            new_span_id(),
            outer.span_id,
            time.time_ns(),
            attributes=facts,
        )
        self._tell("begin", made, agent)
        return OpenSpan(made, agent)

    def end_own(self, opened: OpenSpan, error: BaseException | None) -> None:
        """End it."""
        self.fail_or_end(opened, opened.agent, error, None)

    def begin(
        self,
        kind: SpanKind,
        name: str,
        agent: AgentContext,
        lineage: tuple[str, ...],
        attributes: dict[str, object],
        trace: str,
        parent: str,
    ) -> OpenSpan:
        """Begin a span in a trace, below a parent, with the names that are shown of the agent."""
        span = Span(
            kind,
            self._content.clean_name(name),
            agent.session_id,
            lineage,
            trace,
            new_span_id(),
            parent,
            time.time_ns(),
            attributes=attributes,
        )
        self._tell("begin", span, agent)
        return OpenSpan(span, agent)

    def end(
        self,
        opened: OpenSpan,
        agent: AgentContext | None,
        status: SpanStatus,
        error: str,
        usage: Usage | None,
    ) -> None:
        """End a span, and hand it to the sinks."""
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
                self._log(sink, error)

    def _log(self, sink: SpanSink, error: Exception) -> None:
        """Log what a sink has raised, the first time."""
        name = type(sink).__name__
        self._failures[name] += 1
        if self._failures[name] == 1:
            log_error(logger, f"the sink {name} raised", error)

    def fail_or_end(
        self,
        opened: OpenSpan,
        agent: AgentContext | None,
        error: BaseException | None,
        usage: Usage | None,
        *,
        interrupted: bool = False,
    ) -> None:
        """End a span by what its block has raised."""
        parts = [] if error is None else leaves(error)  # of what nurseries raise
        if interrupted or (parts and all(isinstance(each, _LEAVING) for each in parts)):
            kind = type(parts[0]).__name__ if parts else ""
            self.end(opened, agent, SpanStatus.INTERRUPTED, kind, usage)
        elif error is None:
            self.end(opened, agent, SpanStatus.OK, "", usage)
        else:
            kind = opened.attributes[names.ERROR_TYPE] = type(error).__name__
            text = self._content.describe(f"{kind}: {_read_message(error)}", kind, agent)
            self.end(opened, agent, SpanStatus.ERROR, text, usage)

    def enter(self, opened: OpenSpan) -> None:
        """Make a span the current one of this task, for the sinks as well."""
        scopes = list[tuple[SpanSink, AbstractContextManager[object]]]()
        for sink in self._sinks:
            try:
                scope = sink.scope(opened.span)
                if scope is not NO_SCOPE:
                    scope.__enter__()
                    scopes.append((sink, scope))
            except Exception as error:  # noqa: BLE001 (a sink never changes what it watches)
                self._log(sink, error)
        token = current.set((self, opened))
        self._entered[opened.span.span_id] = _Entered(scopes, token)

    def leave(self, opened: OpenSpan) -> None:
        """Make the one before it the current one again."""
        entered = self._entered.pop(opened.span.span_id, None)
        if entered is not None:
            for sink, scope in reversed(entered.scopes):
                try:
                    scope.__exit__(None, None, None)
                except Exception as error:  # noqa: BLE001 (nor does its scope)
                    self._log(sink, error)
            # A turn that its function never left is ended by the runtime, from elsewhere.
            with suppress(ValueError):
                current.reset(entered.token)

    def forget(self, opened: OpenSpan) -> None:
        """Leave a span that its task will leave by itself, or has left behind."""
        self._entered.pop(opened.span.span_id, None)


def _read_message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 (of its own code, for which the block must not fail otherwise)
        return "(its message can't be read)"
