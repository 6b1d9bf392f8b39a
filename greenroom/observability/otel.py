"""OpenTelemetry: spans and metrics by the GenAI conventions, for any backend that takes OTLP.

What goes out is what the `Tracer` lets through; names and forms are those of the conventions in the
version that `semconv` says. OpenTelemetry's span has the ids of ours, so that a `traceparent` which
a tool sends leads to a span that the backend has.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import local
from types import TracebackType
from typing import Self, cast

import trio

from greenroom.core import AgentContext, ConfigurationError
from greenroom.core._internal import serde, valid_unicode
from greenroom.observability import semconv as names
from greenroom.observability.spans import Span, SpanKind, SpanStatus

try:
    from opentelemetry import context, metrics, trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.id_generator import IdGenerator
    from opentelemetry.util.types import AttributeValue
except ImportError as error:
    raise ConfigurationError(
        "OpenTelemetry is not installed", hint="pip install 'greenroom[otel]'"
    ) from error

SCHEMA_URL = f"https://opentelemetry.io/schemas/{names.VERSION}"
MAX_OPEN = 100_000
"""Spans that are open at once; what would be more is left out."""

_MOST = 1 << 63  # of an integer of theirs; what does not fit is written as a text
_TOKENS = tuple(4**power for power in range(14))
_SECONDS = tuple(0.01 * 2**power for power in range(14))


class _Ids(IdGenerator):
    """Gives the next span of a thread the ids that it is told."""

    def __init__(self) -> None:
        self._next = local()

    def tell(self, trace_id: int, span_id: int) -> None:
        self._next.ids = trace_id, span_id

    def generate_trace_id(self) -> int:
        return cast("int", self._next.ids[0])

    def generate_span_id(self) -> int:
        return cast("int", self._next.ids[1])


class OpenTelemetry:
    """A sink that hands spans and metrics to OpenTelemetry; it needs the extra `greenroom[otel]`.

    Use it as `async with OpenTelemetry() as sink`, around the runtime. Without providers it takes
    those that your program has set, and where it has set none, it makes one that exports by OTLP
    over HTTP, as the variables OTEL_* say; that one is flushed and shut down, in a thread, when the
    block ends. A backend that does not answer holds this up for half a minute at most, and what is
    not sent by then is lost; OTEL_EXPORTER_OTLP_TIMEOUT, in seconds, makes it less. Resource
    attributes and sampling are the provider's.

    Args:
        tracer_provider: what makes spans.
        meter_provider: what makes metrics.

    Raises:
        ConfigurationError: OpenTelemetry is not installed.

    Example:
        ```python
        async with OpenTelemetry() as sink:
            async with AgentRuntime(store, instruments=[Tracer(sink)]) as runtime:
                ...
        ```
    """

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
    ) -> None:
        self._own: TracerProvider | None = None
        provider = tracer_provider or trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider):
            provider = self._own = TracerProvider(shutdown_on_exit=False)
            self._own.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._ids = _Ids()
        self._tracer = provider.get_tracer("greenroom", schema_url=SCHEMA_URL)
        if hasattr(self._tracer, "id_generator"):  # the SDK's
            self._tracer.id_generator = self._ids
        meters = meter_provider or metrics.get_meter_provider()
        meter = meters.get_meter("greenroom", schema_url=SCHEMA_URL)
        self._seconds = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._open: dict[str, trace.Span] = {}

    async def __aenter__(self) -> Self:
        await trio.lowlevel.checkpoint()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self._own is not None:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._own.shutdown)

    def begin(self, span: Span, agent: AgentContext | None) -> None:
        """Begin OpenTelemetry's span, with the ids of ours."""
        if len(self._open) >= MAX_OPEN:
            return
        self._ids.tell(int(span.trace_id, 16), int(span.span_id, 16))
        kinds = trace.SpanKind
        self._open[span.span_id] = self._tracer.start_span(
            valid_unicode(span.name),
            context=self._find_parent(span),
            kind=kinds.CLIENT if span.kind == SpanKind.MODEL else kinds.INTERNAL,
            attributes=_convert(span.attributes),
            start_time=span.start,
        )

    def end(self, span: Span, agent: AgentContext | None) -> None:
        """End it, and count its tokens and time."""
        opened = self._open.pop(span.span_id, None)
        if opened is not None:
            opened.set_attributes(_convert(span.attributes))
            if span.status is SpanStatus.ERROR:
                said = valid_unicode(span.error)
                kind = span.attributes.get(names.ERROR_TYPE) or said.partition(":")[0]
                opened.set_attributes(_convert({names.ERROR_TYPE: str(kind or "_OTHER")}))
                opened.set_status(trace.Status(trace.StatusCode.ERROR, said or None))
            for event in span.events:
                opened.add_event(valid_unicode(event.name), _convert(event.attributes), event.at)
            opened.end(span.end)
        if span.kind == SpanKind.MODEL:
            self._count(span)

    @contextmanager
    def scope(self, span: Span) -> Iterator[None]:
        """Make it OpenTelemetry's current span, so that what other libraries trace is below it."""
        opened = self._open.get(span.span_id)
        if opened is None:
            yield
            return
        token = context.attach(trace.set_span_in_context(opened))
        try:
            yield
        finally:
            context.detach(token)

    def _find_parent(self, span: Span) -> context.Context:
        """Return the context of the parent, which another process may have."""
        if not span.parent_id:
            return context.Context()
        parent = self._open.get(span.parent_id)
        if parent is None:
            flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
            trace_id, parent_id = int(span.trace_id, 16), int(span.parent_id, 16)
            far = trace.SpanContext(trace_id, parent_id, is_remote=True, trace_flags=flags)
            parent = trace.NonRecordingSpan(far)
        return trace.set_span_in_context(parent, context.Context())

    def _count(self, span: Span) -> None:
        known = (names.OPERATION, names.PROVIDER, names.REQUEST_MODEL)
        given = {name: str(span.attributes[name]) for name in known if name in span.attributes}
        about = _convert(given)
        failed = {names.ERROR_TYPE: str(span.attributes.get(names.ERROR_TYPE, "_OTHER"))}
        self._seconds.record(span.seconds, about | (failed if span.error else {}))
        for kind, name in (("input", names.INPUT_TOKENS), ("output", names.OUTPUT_TOKENS)):
            tokens = span.attributes.get(name)
            if isinstance(tokens, int):
                self._tokens.record(tokens, {**about, "gen_ai.token.type": kind})


def _convert(attributes: Mapping[str, object]) -> dict[str, AttributeValue]:
    """Write values as OpenTelemetry takes them: what is more than a list of texts becomes JSON.

    One text that UTF-8 can't carry would keep the exporter from sending all that waits with it.
    """
    found: dict[str, AttributeValue] = {}
    for name, value in attributes.items():
        kind = type(value)  # most are plain, and each call counts where there are many
        if kind is str:
            text = cast("str", value)
            found[name] = text if text.isascii() else valid_unicode(text)
        elif kind is float or kind is bool:
            found[name] = cast("float", value)
        elif isinstance(value, float) or (isinstance(value, int) and -_MOST <= value < _MOST):
            found[name] = value
        elif isinstance(value, str):
            found[name] = valid_unicode(value)
        elif isinstance(value, list) and value and all(isinstance(each, str) for each in value):
            found[name] = [valid_unicode(each) for each in value]
        elif value is not None:
            found[name] = serde.encode(value).decode()
    if not "".join(found).isascii():
        return {valid_unicode(name): value for name, value in found.items()}
    return found
