"""OpenTelemetry gets the tree of a run, by the conventions, with the ids of our spans."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import jsonschema
import pytest
import trio
from msgspec.structs import replace
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult

from greenroom import Agent, AgentRuntime, AgentSession, InMemoryStore
from greenroom.llm import ModelRateLimitError
from greenroom.observability import OpenTelemetry, Span, Tracer, current_traceparent
from greenroom.observability._internal import SpanStatus
from greenroom.observability.spans import SpanEvent
from greenroom.testing import ScriptedProvider, call

SCHEMAS = Path(__file__).with_name("semconv")
CONTENT = {
    "gen_ai.input.messages": "input-messages",
    "gen_ai.output.messages": "output-messages",
    "gen_ai.system_instructions": "system-instructions",
    "gen_ai.tool.definitions": "tool-definitions",
}
OUTER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter):
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider
    provider.shutdown()


def fail(request):
    raise ModelRateLimitError("slow down")


def fetch(page: str) -> str:
    """Fetch a page."""
    with trace.get_tracer("theirs").start_as_current_span("their own"):
        return current_traceparent()


def make_agent():
    inner = Agent(ScriptedProvider([call("fetch", page="b")], fail), name="Sub", tools=[fetch])
    calls = [call("fetch", page="a"), call("ask", prompt="Find b.")]
    ask = inner.as_tool("ask", description="Ask.")
    script = ScriptedProvider(calls, "done")
    return Agent(script, name="Ann", tools=[fetch, ask], instructions="Be brief.")


async def run(sink, content="full"):
    async with AgentRuntime(
        InMemoryStore(), instruments=[Tracer(sink, content=content)]
    ) as runtime:
        await make_agent().run("Go.", runtime=runtime)


def tree(spans, parent=None):
    found = [each for each in spans if (each.parent.span_id if each.parent else None) == parent]
    found.sort(key=lambda each: each.start_time)
    return [(each.name, tree(spans, each.context.span_id)) for each in found]


async def test_the_tree_is_that_of_the_conventions(provider, exporter):
    await run(OpenTelemetry(provider, MeterProvider(shutdown_on_exit=False)))
    spans = exporter.get_finished_spans()
    fetched = ("execute_tool fetch", [])
    sub = [("chat script", []), fetched, ("chat script", [])]
    asked = ("execute_tool ask", [("invoke_agent Sub", sub)])
    assert tree(spans) == [
        ("invoke_agent Ann", [("chat script", []), fetched, asked, ("chat script", [])])
    ]
    assert {each.context.trace_id for each in spans} == {spans[0].context.trace_id}
    for each in spans:
        operation = each.attributes["gen_ai.operation.name"]
        assert operation == each.name.split()[0]
        is_model = operation == "chat"
        assert each.kind is (trace.SpanKind.CLIENT if is_model else trace.SpanKind.INTERNAL)
        needed = {
            "chat": ("gen_ai.provider.name", "gen_ai.request.model"),
            "execute_tool": ("gen_ai.tool.name", "gen_ai.tool.call.id"),
            "invoke_agent": ("gen_ai.provider.name", "gen_ai.agent.name"),
        }
        assert all(each.attributes[name] for name in needed[operation])
    (failed,) = (
        e
        for e in spans
        if e.name == "chat script" and not e.status.is_ok and e.attributes.get("error.type")
    )
    assert failed.attributes["error.type"] == "ModelRateLimitError"


async def test_what_was_said_fits_the_schemas_and_stays_here_by_default(provider, exporter):
    await run(OpenTelemetry(provider))
    seen = set()
    for each in exporter.get_finished_spans():
        for name, schema in CONTENT.items():
            if name in each.attributes:
                seen.add(name)
                value = json.loads(each.attributes[name])
                text = (SCHEMAS / f"gen-ai-{schema}.json").read_text()
                jsonschema.validate(value, json.loads(text))
    assert seen == CONTENT.keys()
    exporter.clear()
    await run(OpenTelemetry(provider), content="none")
    assert not [
        each for each in exporter.get_finished_spans() if CONTENT.keys() & each.attributes.keys()
    ]


async def test_ids_are_those_that_a_tool_sends_on(provider, exporter):
    sent = []

    async def send(page: str) -> str:
        """Send a page."""
        sent.append(current_traceparent())
        with trace.get_tracer_provider().get_tracer("x").start_as_current_span("ignored"):
            with provider.get_tracer("theirs").start_as_current_span("theirs"):
                await trio.lowlevel.checkpoint()
        return ""

    agent = Agent(ScriptedProvider([call("send", page="a")], "done"), tools=[send])
    async with AgentRuntime(
        InMemoryStore(), instruments=[Tracer(OpenTelemetry(provider))]
    ) as runtime:
        handle = runtime.spawn(AgentSession.new("agent"), agent)
        await handle.ask("Go.", metadata={"traceparent": OUTER})
    spans = {each.name: each for each in exporter.get_finished_spans()}
    tool, theirs = spans["execute_tool send"], spans["theirs"]
    assert sent == [f"00-{tool.context.trace_id:032x}-{tool.context.span_id:016x}-01"]
    assert theirs.parent.span_id == tool.context.span_id
    turn = spans["invoke_agent agent"]
    assert f"{turn.context.trace_id:032x}" == OUTER[3:35]
    assert f"{turn.parent.span_id:016x}" == OUTER[36:52]


async def test_tokens_and_seconds_are_metrics(provider):
    reader = InMemoryMetricReader()
    await run(OpenTelemetry(provider, MeterProvider([reader], shutdown_on_exit=False)))
    (resource,) = reader.get_metrics_data().resource_metrics
    found = {each.name: each for each in resource.scope_metrics[0].metrics}
    tokens = found["gen_ai.client.token.usage"].data.data_points
    assert {each.attributes["gen_ai.token.type"] for each in tokens} == {"input", "output"}
    seconds = found["gen_ai.client.operation.duration"].data.data_points
    assert sum(each.count for each in seconds) == 4
    assert "ModelRateLimitError" in {each.attributes.get("error.type") for each in seconds}


class Collector(BaseHTTPRequestHandler):
    """Takes OTLP over HTTP."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, self.headers["Content-Encoding"], body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


async def test_without_a_provider_it_exports_by_otlp_as_the_variables_say(monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    server.requests = []
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
        async with OpenTelemetry() as sink:
            await run(sink, content="none")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    names, services = [], set()
    for path, _, body in server.requests:
        assert path == "/v1/traces"
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            services |= {
                each.value.string_value
                for each in resource.resource.attributes
                if each.key == "service.name"
            }
            names += [each.name for scope in resource.scope_spans for each in scope.spans]
    assert services == {"shop"}
    assert sorted(names) == sorted(
        ["invoke_agent Ann", "invoke_agent Sub", "execute_tool ask"]
        + ["chat script"] * 4
        + ["execute_tool fetch"] * 2
    )


class Meanwhile(Sampler):
    """A sampler that has something else happen while a span begins."""

    def __init__(self):
        self.steps = []

    def should_sample(self, *args, **named):
        if self.steps:
            self.steps.pop()()
        return SamplingResult(Decision.RECORD_AND_SAMPLE)

    def get_description(self):
        return "Meanwhile"


def test_spans_that_begin_in_two_threads_keep_their_ids():
    sampler, kept = Meanwhile(), InMemorySpanExporter()
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    sink = OpenTelemetry(provider, MeterProvider(shutdown_on_exit=False))
    first, second = (
        Span("span", name, "s-1", (), digit * 32, digit * 16, start=1, end=2)
        for name, digit in (("first", "1"), ("second", "2"))
    )

    def begin_in_a_thread():
        other = Thread(target=sink.begin, args=(second, None))
        other.start()
        other.join()

    sampler.steps.append(begin_in_a_thread)
    sink.begin(first, None)
    sink.end(first, None)
    sink.end(second, None)
    ids = {each.name: f"{each.context.span_id:016x}" for each in kept.get_finished_spans()}
    assert ids == {"first": "1" * 16, "second": "2" * 16}


def test_what_utf_8_can_t_carry_keeps_nothing_else_from_being_sent(collector, caplog):
    odd = os.fsdecode(b"caf\xe9.txt")
    facts = {odd: odd, "paths": [odd], "gen_ai.request.model": odd, "big": 2**64}
    begun = Span("model", f"read {odd}", "s-1", (), "a" * 32, "b" * 16, start=1, attributes=facts)
    event = SpanEvent(2, odd, {"path": odd})
    sink = OpenTelemetry(collector.tracers, collector.meters)
    sink.begin(begun, None)
    sink.end(
        replace(begun, end=3, status=SpanStatus.ERROR, error=f"no {odd}", events=(event,)), None
    )
    assert collector.sent.count("read caf\ufffd.txt".encode().decode("latin-1")) == 1
    assert str(2**64) in collector.sent
    encode_metrics(collector.metrics.get_metrics_data())
    assert not caplog.records
