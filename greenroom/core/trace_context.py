"""The trace that a task or a thread works for, so that any package may pass it on.

A `Tracer` sets it, several packages above; requests to other programs carry it as `traceparent`.
See W3C Trace Context, https://www.w3.org/TR/trace-context/.
"""

from contextvars import ContextVar
from typing import Protocol


class Traced(Protocol):
    """What is known here of an open span."""

    @property
    def traceparent(self) -> str:
        """The header by which another program continues its trace."""
        ...


current_span: ContextVar[tuple[object, Traced] | None] = ContextVar("greenroom_span", default=None)
"""The innermost open span of this task or thread, behind its tracer."""


def current_traceparent() -> str:
    """Return the header for a request by which another program continues the current trace.

    A tool of yours sends it as `traceparent`; the text is empty without a `Tracer`. To continue a
    trace here, give it to an agent as `metadata={"traceparent": …}` of an input. See W3C Trace
    Context, https://www.w3.org/TR/trace-context/.

    Example:
        >>> current_traceparent()
        ''
    """
    here = current_span.get()
    return here[1].traceparent if here else ""
