"""A runtime in memory on a clock that jumps, and a sink that keeps the spans."""

import inspect
from contextlib import nullcontext
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from greenroom.observability._internal import SpanStatus
from greenroom.testing import run_in_virtual_time


def run_virtually(function, clock=None, instruments=()):
    return run_in_virtual_time(function, instruments=instruments)


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and inspect.iscoroutinefunction(item.obj):
            item.add_marker(pytest.mark.trio(run=run_virtually), append=False)


class Kept:
    """A sink that keeps what it is given."""

    def __init__(self):
        self.begun, self.ended = {}, {}

    def begin(self, span, agent):
        assert span.span_id not in self.begun, "a span begins twice"
        assert span.is_open
        assert span.status is SpanStatus.OPEN
        self.begun[span.span_id] = span

    def end(self, span, agent):
        begun = self.begun[span.span_id]
        assert span.span_id not in self.ended, "a span ends twice"
        same = ("kind", "name", "session_id", "trace_id", "parent_id", "start")
        assert all(getattr(span, name) == getattr(begun, name) for name in same)
        self.ended[span.span_id] = span

    def scope(self, span):
        return nullcontext()

    @property
    def spans(self):
        return [self.ended[each] for each in self.begun]

    def find(self, name):
        (found,) = (each for each in self.spans if each.name == name)
        return found

    def tree(self, parent=""):
        """The names as nested dicts, in the order of their beginnings."""
        below = [each for each in self.spans if each.parent_id == parent]
        return [(each.name, self.tree(each.span_id)) for each in below]

    def check(self):
        """Every span has ended, within the span that it is a part of, in the same trace."""
        assert self.begun.keys() == self.ended.keys()
        for each in self.spans:
            if each.parent_id:
                parent = self.ended[each.parent_id]
                assert each.trace_id == parent.trace_id
                assert each.start >= parent.start


@pytest.fixture
def kept():
    return Kept()


class Wire(SpanExporter):
    """An exporter that keeps the bytes that OTLP would send."""

    def __init__(self):
        self.data = b""

    def export(self, spans):
        self.data += encode_spans(spans).SerializeToString()
        return SpanExportResult.SUCCESS


class Collector:
    """Providers of OpenTelemetry, and all that left them."""

    def __init__(self):
        self.spans, self.metrics = Wire(), InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self.meters = MeterProvider([self.metrics], shutdown_on_exit=False)

    @property
    def sent(self):
        """All that was sent, as a text: OTLP has texts as they are."""
        data = self.metrics.get_metrics_data()
        return self.spans.data.decode("latin-1") + (data.to_json() if data else "")


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.tracers.shutdown()
    made.meters.shutdown()
