"""One trace from a request to an agent, its subagent, and the server of a tool."""

import json
import os
from pathlib import Path

import trio

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    InMemoryStore,
    PermissionManager,
    PermissionRule,
)
from greenroom.interop import MCPServers
from greenroom.observability import Metrics, OpenTelemetry, Tracer
from greenroom.testing import ScriptedProvider, call
from tests.interop.servers import demo
from tests.warm_python import run_warm

OUTER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Kept:
    """A sink that keeps the spans that have ended."""

    def __init__(self):
        self.spans = []
        self.scope = Metrics().scope

    def begin(self, span, agent):
        pass

    def end(self, span, agent):
        self.spans.append(span)


def repeat(request):
    """Reply with the result of the last call."""
    return request.messages[-1].tool_results[0].text


async def ask(*sinks):
    """Have a subagent call the server; return the `_meta` that the server got."""
    allowed = PermissionManager([PermissionRule.allow_all()])
    async with (
        AgentRuntime(InMemoryStore(), instruments=[Tracer(*sinks)]) as runtime,
        MCPServers(demo(), runtime=runtime) as servers,
    ):
        inner = Agent(
            ScriptedProvider([call("mcp__demo__meta")], repeat),
            name="Sub",
            tools=servers,
            permissions=allowed,
        )
        calls = ScriptedProvider([call("ask", prompt="Go.")], "Done.")
        outer = Agent(calls, tools=[inner.as_tool("ask", description="Ask.")], permissions=allowed)
        handle = runtime.spawn(AgentSession.new("outer"), outer)
        await handle.ask("Go.", metadata={"traceparent": OUTER})
        [block] = [each for message in await handle.history() for each in message.tool_results]
        return json.loads(block.text)


async def test_a_server_gets_the_trace_and_the_call_as_its_parent():
    kept = Kept()
    with trio.fail_after(60):
        meta = await ask(kept)
    [tool] = [each for each in kept.spans if each.name == "execute_tool mcp__demo__meta"]
    assert meta["traceparent"] == tool.traceparent
    assert tool.trace_id in OUTER


def test_the_sdks_own_span_stands_between_the_call_and_the_server():
    root = Path(__file__).parents[2]
    code, printed, errors = run_warm(["-m", "tests.interop.test_mcp_trace"], root, {**os.environ})
    assert code == 0, errors
    names, ids, meta = json.loads(printed)
    _, trace_id, parent_id, _ = meta["traceparent"].split("-")
    assert trace_id in OUTER
    assert names[parent_id] == "MCP send tools/call meta"
    assert names[ids[parent_id]] == "execute_tool mcp__demo__meta"


def main():
    """Run with a provider for the whole process, as the SDK's spans need one."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    meta = trio.run(ask, OpenTelemetry(provider))
    spans = exporter.get_finished_spans()
    names = {f"{each.context.span_id:016x}": each.name for each in spans}
    ids = {f"{s.context.span_id:016x}": f"{s.parent.span_id:016x}" for s in spans if s.parent}
    print(json.dumps([names, ids, meta]))


if __name__ == "__main__":
    main()
