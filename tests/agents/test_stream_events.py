"""The five kinds of events, and what each is made of."""

from datetime import UTC, datetime
from itertools import groupby

import msgspec
import pytest
import trio

from greenroom import Agent, AgentRuntime, AgentSession, InMemoryStore
from greenroom.agents import StreamEvent, stream_events
from greenroom.agents._internal import StreamEventType
from greenroom.core import (
    Custom,
    Done,
    Error,
    SubAgentOutput,
    TextDelta,
    ThinkingDelta,
    ToolEnd,
    ToolResult,
    ToolStart,
    TurnStart,
)
from greenroom.core._internal import set_clock
from greenroom.llm._internal import ModelQuotaError
from greenroom.testing import Reply, ScriptedProvider, call

NOON = datetime(2026, 1, 14, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def noon():
    set_clock(lambda: NOON)
    yield
    set_clock(None)


async def events(*chunks):
    async def stream():
        for chunk in chunks:
            await trio.lowlevel.checkpoint()
            yield chunk

    return [event async for event in stream_events(stream())]


@pytest.mark.parametrize(
    ("chunk", "kind", "data"),
    [
        (TextDelta("Hi"), "token", {"text": "Hi"}),
        (
            ToolStart("1", "look", {"at": "a"}),
            "tool_start",
            {"id": "1", "name": "look", "input": {"at": "a"}},
        ),
        (
            ToolEnd("1", ToolResult.ok("seen")),
            "tool_end",
            {"id": "1", "text": "seen", "is_error": False},
        ),
        (
            ToolEnd("1", ToolResult.error("gone"), is_error=True),
            "tool_end",
            {"id": "1", "text": "gone", "is_error": True},
        ),
        (
            Custom("handoff", {"from": "ann", "to": "ben", "why": "x"}),
            "agent_switch",
            {"from": "ann", "to": "ben"},
        ),
        (
            Error("no", "ModelError", "wait"),
            "error",
            {"message": "no", "kind": "ModelError", "hint": "wait"},
        ),
        (
            Custom("reply.restarted", {}, "it broke off"),
            "error",
            {
                "message": "it broke off",
                "kind": "reply.restarted",
                "hint": "forget the tokens of this reply",
            },
        ),
    ],
)
async def test_each_chunk_makes_its_event(chunk, kind, data):
    (event,) = await events(chunk)
    assert event == StreamEvent(StreamEventType(kind), data, NOON)
    assert msgspec.json.decode(msgspec.json.encode(event), type=StreamEvent) == event


async def test_all_else_is_left_out():
    others = [
        TurnStart("1"),
        ThinkingDelta("hm"),
        Custom("plan.step"),
        SubAgentOutput("s", TextDelta("inner")),
        Done("1"),
    ]
    assert await events(*others) == []


def test_there_are_five_kinds():
    assert list(StreamEventType) == ["token", "tool_start", "tool_end", "agent_switch", "error"]


async def test_the_events_of_a_run():
    def look() -> str:
        """Look."""
        return "rain"

    agent = Agent(ScriptedProvider(call("look"), "It rains."), tools=[look])
    async with agent.stream("Look!") as run:
        kinds = [event.type async for event in stream_events(run)]
    assert [kind for kind, _ in groupby(kinds)] == ["tool_start", "tool_end", "token"]


async def test_a_run_that_fails_ends_with_one_error():
    agent = Agent(ScriptedProvider(Reply("It ra", error=ModelQuotaError("no more"))))
    async with agent.stream("go") as run:
        *_, last = found = [event async for event in stream_events(run)]
    assert [kind for kind, _ in groupby(event.type for event in found)] == ["token", "error"]
    assert sum(event.type == "error" for event in found) == 1
    assert (last.data["message"], last.data["kind"]) == ("no more", "ModelQuotaError")
    assert last.data["hint"]


async def read_into(events, run):
    async for event in stream_events(run):
        events.append(event)


async def test_a_crash_comes_out_as_it_is_and_is_an_error_to_a_subscriber():
    def crash(context):
        raise KeyError("instructions")

    agent, events = Agent(ScriptedProvider("Hi"), instructions=crash), []
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("ann"), agent)
        async with handle.subscribe() as chunks:
            await handle.send_input("go")
            await read_into(events, chunks)
    assert [event.type for event in events] == ["error"]
    with pytest.raises(KeyError, match="instructions"):
        await read_run(agent)


async def read_run(agent):
    async with agent.stream("go") as run:
        await read_into([], run)
