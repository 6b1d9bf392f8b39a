"""One run, recorded once, as a person, a developer and an auditor read it."""

import json
from collections import Counter
from io import StringIO

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from greenroom import Agent, AgentRuntime, AgentSession, FileStore, InMemoryStore
from greenroom.core import Done, Instrument, ToolEnd, UsageReport
from greenroom.export import export_session
from greenroom.observability import (
    Audit,
    JsonLog,
    Metrics,
    OpenTelemetry,
    TraceFile,
    Tracer,
    read_trace,
    verify_audit,
)
from greenroom.testing import ScriptedProvider, call


def fetch(page: str) -> str:
    """Fetch a page."""
    return f"the text of {page}"


async def test_one_run_gives_each_reader_their_own_output(tmp_path):
    store = FileStore(tmp_path / "sessions")
    agent = Agent(ScriptedProvider([call("fetch", page="appendix")], "Done."), tools=[fetch])
    audit_file = tmp_path / "audit.jsonl"
    async with TraceFile() as file, Audit(audit_file) as audit:
        instruments = [Tracer(file, content="redacted")]
        async with AgentRuntime(store, gates=[audit], instruments=instruments) as runtime:
            await agent.run("Read the appendix.", runtime=runtime, session="s-1")
    session = await AgentSession.load("s-1", store=store)

    await export_session(session, (written := StringIO()).write)
    page = written.getvalue()
    assert "Read the appendix." in page
    assert "Done." in page

    trace = await read_trace("s-1", store=store)
    kinds = [each.kind for each in trace.spans]
    assert kinds.count("model") == 2
    assert kinds.count("tool") == 1
    await export_session(session, (written := StringIO()).write, "json")
    assert "the text of appendix" in json.dumps(json.loads(written.getvalue()))

    report = verify_audit(audit_file, head=audit.head)
    assert report.ok
    lines = [json.loads(each) for each in audit_file.read_text().splitlines()]
    assert [each["event"] for each in lines if each.get("event") == "ran"] == ["ran"]
    assert "appendix" not in audit_file.read_text()


class Chunks(Instrument):
    """Counts what subscribers get."""

    def __init__(self):
        self.counts = Counter()

    def on_chunk(self, agent, chunk):
        kinds = {Done: "turn", UsageReport: "model", ToolEnd: "tool"}
        self.counts.update(kinds[kind] for kind in kinds if isinstance(chunk, kind))


async def test_whoever_counts_counts_the_same(kept, caplog):
    caplog.set_level("INFO", "greenroom.spans")
    sub = Agent(ScriptedProvider([call("fetch", page="b")], "Found."), name="Sub", tools=[fetch])
    calls = [call("fetch", page="a"), call("nothing"), call("ask", prompt="Find b.")]
    ask = sub.as_tool("ask", description="Ask.")
    agent = Agent(ScriptedProvider(calls, "Done."), name="Ann", tools=[fetch, ask])
    exporter, tracers = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    otel = OpenTelemetry(tracers, MeterProvider(shutdown_on_exit=False))
    metrics, chunks = Metrics(), Chunks()
    tracer = Tracer(kept, metrics, JsonLog(), otel)
    async with AgentRuntime(InMemoryStore(), instruments=[tracer, chunks]) as runtime:
        await agent.run("Go.", runtime=runtime)
    traced = Counter(str(each.kind) for each in kept.spans)
    assert traced == chunks.counts == {"turn": 2, "model": 4, "tool": 4}
    assert Counter(str(each.span_kind) for each in caplog.records) == traced
    totals = {"turn": "turns", "model": "model_calls", "tool": "tool_calls"}
    assert traced == {
        kind: metrics.value(f"greenroom_{name}_total") for kind, name in totals.items()
    }
    sent = [(each.name, f"{each.context.span_id:016x}") for each in exporter.get_finished_spans()]
    assert sorted(sent) == sorted((each.name, each.span_id) for each in kept.spans)
