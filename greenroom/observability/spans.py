"""Spans: what happened between two moments, as values that any sink can read.

A turn is a span, and so is each call of a model or a tool within it, each step of a plan or a
workflow, and whatever your own code wraps in `span`. `Tracer` makes them; a `SpanSink` takes them.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from enum import StrEnum
from random import SystemRandom
from typing import TYPE_CHECKING, Protocol, cast

from msgspec.structs import replace

from greenroom.core import AgentContext, Usage
from greenroom.core._internal import EMPTY, Wire, compile_later, current_span, freeze_fields

if TYPE_CHECKING:
    from contextvars import ContextVar

_random = SystemRandom()
_TRACEPARENT = compile_later(
    r"[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}"
)
MAX_EVENTS = 1_000  # of one span; more are counted
NO_SCOPE: AbstractContextManager[object] = nullcontext()  # the scope of a sink that needs none


class SpanKind(StrEnum):
    """What a span is about; `SPAN` is the user's own."""

    TURN = "turn"
    MODEL = "model"
    TOOL = "tool"
    PERMISSION = "permission"
    PLAN_STEP = "plan_step"
    WORKFLOW_STEP = "workflow_step"
    WORKFLOW = "workflow"
    SPAN = "span"


class SpanStatus(StrEnum):
    """How a span ended; `OPEN` until then."""

    OPEN = "open"
    OK = "ok"
    ERROR = "error"
    INTERRUPTED = "interrupted"
    WAITING = "waiting"


class SpanEvent(Wire, frozen=True):
    """Something that happened at one moment of a span; `at` is in nanoseconds since 1970."""

    at: int
    name: str
    attributes: dict[str, object] = EMPTY

    def __post_init__(self) -> None:
        freeze_fields(self, "attributes")


class Span(Wire, frozen=True):
    """What happened between two moments.

    Attributes:
        kind: what it is about.
        name: its name, as OpenTelemetry's conventions want it, such as "chat claude-sonnet-5".
        session_id: the session of the agent that it happened in; empty in code of no agent.
        lineage: that agent's path, from the root down.
        trace_id: the id of its tree, 32 hexadecimal digits.
        span_id: its own id, 16 hexadecimal digits.
        parent_id: the id of the span that it is a part of; empty at the top.
        start: when it began, in nanoseconds since 1970.
        end: when it ended; 0 while it is open.
        status: how it ended.
        error: the class of what went wrong, and the message where content may leave; else empty.
        usage: the tokens that it took, if any.
        attributes: facts by name; `greenroom.observability.semconv` lists the names.
        events: what happened within it, in order.

    Example:
        >>> now = Span("turn", "invoke_agent Ann", "s-1", ("Ann",), "a" * 32, "b" * 16, start=1)
        >>> now.is_open, now.traceparent
        (True, '00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-01')
    """

    kind: SpanKind
    name: str
    session_id: str
    lineage: tuple[str, ...]
    trace_id: str
    span_id: str
    parent_id: str = ""
    start: int = 0
    end: int = 0
    status: SpanStatus = SpanStatus.OPEN
    error: str = ""
    usage: Usage | None = None
    attributes: dict[str, object] = EMPTY
    events: tuple[SpanEvent, ...] = ()

    def __post_init__(self) -> None:
        freeze_fields(self, "attributes")

    @property
    def is_open(self) -> bool:
        """Whether it has no end, because it still runs or because its process was killed."""
        return self.end == 0

    @property
    def seconds(self) -> float:
        """How long it took; 0 while it is open."""
        return max(self.end - self.start, 0) / 1e9

    @property
    def traceparent(self) -> str:
        """The header by which another program continues this trace (W3C Trace Context, level 1)."""
        return f"00-{self.trace_id}-{self.span_id}-01"


class SpanSink(Protocol):
    """Takes the spans of a `Tracer`: write a class with these three methods.

    They are called on the event loop, so they must be quick and can't wait. `agent` is the context
    of the agent that the span is about, or None for `span` outside of any.
    """

    def begin(self, span: Span, agent: AgentContext | None) -> None:
        """A span begins; it is open."""

    def end(self, span: Span, agent: AgentContext | None) -> None:
        """The same span has ended; ids and start are those of its beginning."""

    def scope(self, span: Span) -> AbstractContextManager[object]:
        """Return a block that is entered in the task that does the work, for the time it takes."""
        ...


class OpenSpan:
    """A span that has not ended: its beginning, and what has been learned since."""

    __slots__ = ("agent", "attributes", "events", "missed", "span")

    def __init__(self, span: Span, agent: AgentContext | None) -> None:
        self.span, self.agent = span, agent
        self.attributes: dict[str, object] = {}
        self.events: list[SpanEvent] = []
        self.missed = 0

    @property
    def traceparent(self) -> str:
        """The header by which another program continues its trace."""
        return self.span.traceparent

    def add_event(self, name: str, attributes: Mapping[str, object] = EMPTY) -> None:
        """Note what happens now; more than `MAX_EVENTS` are only counted."""
        if len(self.events) < MAX_EVENTS:
            self.events.append(SpanEvent(time.time_ns(), name, dict(attributes)))
        else:
            self.missed += 1
            self.attributes["greenroom.events.dropped"] = self.missed

    def finish(self, status: SpanStatus, error: str = "", usage: Usage | None = None) -> Span:
        """Return the ended span."""
        span = self.span
        return replace(
            span,
            end=max(time.time_ns(), span.start + 1),
            status=status,
            error=error,
            usage=usage,
            attributes={**span.attributes, **self.attributes},
            events=tuple(self.events),
        )


class Scope(Protocol):
    """What `span` needs of the tracer whose span is the current one."""

    def begin_own(self, name: str, attributes: Mapping[str, object]) -> OpenSpan:
        """Begin a span of the user's within the current one."""
        ...

    def end_own(self, opened: OpenSpan, error: BaseException | None) -> None:
        """End it."""
        ...


current = cast("ContextVar[tuple[Scope, OpenSpan] | None]", current_span)
"""The innermost open span of this task or thread, with its tracer."""


@contextmanager
def span(name: str, **attributes: object) -> Iterator[None]:
    """Wrap a part of your own code in a span, which is a child of the current one.

    Use it in an agent's function or in a tool, even in its thread. Without a `Tracer` around, it
    does nothing. Whatever the block raises is noted, and raised on.

    Args:
        name: its name.
        attributes: facts; texts in them leave only where content may.

    Example:
        >>> with span("parse the page", size=12):
        ...     pass
    """
    here = current.get()
    if here is None:
        yield
        return
    tracer = here[0]
    opened = tracer.begin_own(name, attributes)
    token = current.set((tracer, opened))
    error: BaseException | None = None
    try:
        yield
    except BaseException as raised:
        error = raised
        raise
    finally:
        with suppress(ValueError):  # a generator may be closed by another task than began it
            current.reset(token)
        tracer.end_own(opened, error)


def read_traceparent(value: object) -> tuple[str, str] | None:
    """Read the ids of trace and parent out of a `traceparent`; None if it is not one.

    Example:
        >>> read_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        ('0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331')
        >>> read_traceparent("no") is None
        True
    """
    found = _TRACEPARENT.fullmatch(value) if isinstance(value, str) else None
    return (found[1], found[2]) if found else None


def new_trace_id() -> str:
    """Make the id of a trace."""
    return f"{_random.getrandbits(128) | 1:032x}"


def new_span_id() -> str:
    """Make the id of a span."""
    return f"{_random.getrandbits(64) | 1:016x}"
