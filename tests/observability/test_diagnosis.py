"""Each planted fault is found, and nothing else is."""

import pytest
import trio

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    FileStore,
    PermissionManager,
    PermissionRule,
    ToolError,
    Usage,
    tool,
)
from greenroom.core import Custom, Price
from greenroom.flow import TextTools
from greenroom.llm import ModelOverloadedError, resilient
from greenroom.observability import Span, Trace, TraceFile, Tracer, diagnose, read_trace
from greenroom.resilience import Retry
from greenroom.testing import Reply, ScriptedProvider, call

FREE = Price(0.0, 0.0)


def scripted(*steps, **named):
    return ScriptedProvider(*steps, **{"price": FREE, **named})


def fail(request):
    raise ModelOverloadedError("busy")


def fetch(page: str) -> str:
    """Fetch a page."""
    return f"{page}!"


def make(*steps, **named):
    return Agent(scripted(*steps, "done"), tools=[fetch], **named)


async def report(agent, internals_kind):
    """An agent function that reports something of this kind."""
    async for message in agent.inputs():
        async with agent.turn(message):
            await agent.send(Custom(internals_kind, {}, "x"))


@tool(timeout=60)
async def crawl() -> str:
    """Crawl."""
    await trio.sleep(31)
    return "there"


PLANTED = {
    "slow tool": lambda: Agent(scripted([call("crawl")], "done"), tools=[crawl]),
    "never answered": lambda: make(
        [call("fetch", page="a")],
        permissions=PermissionManager(rules=[PermissionRule.ask_for_tool("fetch")]),
    ),
    "loop": lambda: make(*[[call("fetch", page="a")]] * 4),
    "invented tool": lambda: make([call("fecth", page="a")]),
    "invalid input": lambda: make([call("fetch", pages="a")]),
    "denied": lambda: make(
        [call("fetch", page="a")],
        permissions=PermissionManager(rules=[PermissionRule.deny_tool("fetch")]),
    ),
    "retry": lambda: Agent(resilient(scripted(fail, "done"))),
    "fallback": lambda: Agent(
        resilient(scripted(fail), fallback=[scripted("done")], retry=Retry(attempts=1))
    ),
    "format error": lambda: Agent(
        TextTools(scripted("Action: [", "Final Answer: done")), tools=[fetch]
    ),
    "context pressure": lambda: Agent(
        scripted(
            Reply("done", usage=Usage(190_000, 5, cost=0.1)),
            name="anthropic",
            model="claude-haiku-4-5",
        )
    ),
    "unpriced": lambda: Agent(ScriptedProvider("done")),
    "memory failed": "memory.failed",
    "guard": "guard.tripped",
}


async def look_at(made, store, turns=1):
    async with TraceFile() as file:
        tracer = Tracer(file, content="redacted")
        async with AgentRuntime(store, instruments=[tracer]) as runtime:
            session = AgentSession.new("agent", store=store)
            if isinstance(made, str):
                handle = runtime.spawn(session, report, made)
            else:
                handle = runtime.spawn(session, made, unattended="suspend")
            for _ in range(turns):
                await handle.ask("Go.")
            await handle.shutdown()
    loaded = await AgentSession.load(session.session_id, store=store, keep_open=True)
    return diagnose(loaded, await read_trace(session.session_id, store=store, tree=False))


class VirtualTime:
    """The time of spans: that of trio's clock, which jumps."""

    def time_ns(self):
        return 10**18 + int(trio.current_time() * 1e9)

    monotonic_ns = time_ns


@pytest.fixture(autouse=True)
def _virtual_time(monkeypatch):
    for module in ("spans", "span_output", "tracer"):
        monkeypatch.setattr(f"greenroom.observability.{module}.time", VirtualTime())


def test_there_are_as_many_kinds_as_the_page_says():
    assert len(PLANTED) == 13


@pytest.mark.parametrize("kind", PLANTED)
async def test_a_planted_fault_is_found_and_no_other(kind, tmp_path):
    planted = PLANTED[kind]
    made = planted if isinstance(planted, str) else planted()
    found = await look_at(made, FileStore(tmp_path))
    kinds = [each.kind for each in found]
    # Who fails over has tried again before.
    assert [each for each in kinds if (kind, each) != ("fallback", "retry")] == [kind]
    assert all(each.message and each.hint for each in found)


@pytest.mark.parametrize(
    ("seconds", "is_slow"),
    [
        ([31], True),
        ([29], False),
        ([1, 1, 1, 1, 11], True),
        ([1, 1, 1, 11], False),
        ([9] * 9, False),
    ],
)
def test_a_tool_is_slow_over_half_a_minute_or_ten_times_as_long_as_usual(seconds, is_slow):
    spans = tuple(
        Span(
            "tool",
            "execute_tool fetch",
            "s-1",
            (),
            "t",
            str(at),
            start=1,
            end=1 + each * 10**9,
            attributes={"gen_ai.tool.name": "fetch"},
        )
        for at, each in enumerate(seconds)
    )
    found = diagnose(AgentSession.new("agent", session_id="s-1"), Trace(spans))
    assert [each.kind for each in found] == ["slow tool"] * is_slow


def lookup(page: str) -> str:
    """Look a page up."""
    raise ToolError("there is no such page")


def clean(number):
    """An agent that does nothing odd: calls one after another, side by side, of others, none."""
    pages = [call("fetch", page=str(at)) for at in range(number // 4)]
    match number % 4:
        case 0:
            return make(*[[each] for each in pages])
        case 1:
            return make(*[pages] * bool(pages))
        case 2:  # a tool that says why it failed is no fault of the agent
            steps = [[call("lookup", page=str(at))] for at in range(number // 8)]
            return Agent(scripted(*steps, "done"), tools=[lookup])
        case _:
            inner = make(*[[each] for each in pages], name="Sub", description="Helps.")
            return Agent(scripted([call("Sub", prompt="Find.")], "done"), tools=[inner.as_tool()])


@pytest.mark.parametrize("number", range(20))
async def test_of_a_clean_session_nothing_is_said(number, tmp_path):
    assert await look_at(clean(number), FileStore(tmp_path)) == ()
