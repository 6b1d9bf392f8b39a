"""An unchanged agent asks its model the same again, and a change is named where it shows first."""

import os
import socket
import subprocess
from contextlib import nullcontext

import pytest
import trio
from msgspec.structs import replace

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    ConfigurationError,
    FileStore,
    InMemoryStore,
    Message,
    PermissionManager,
    PermissionRule,
    TextBlock,
    ToolRegistry,
    run_tools,
    stream_reply,
    tool,
)
from greenroom.core._internal import NamedTool
from greenroom.llm import ModelSettings
from greenroom.observability import Redactor, Trace, TraceFile, Tracer, read_trace
from greenroom.testing import (
    Drift,
    Reply,
    ScriptedApprover,
    ScriptedProvider,
    call,
    drift,
    replay,
    run_in_virtual_time,
)
from greenroom.testing.recording import Recording
from tests.testing import recorded_talks
from tests.testing.recorded_talks import make, record

TALKS = int(os.environ.get("GREENROOM_DRIFT", "4"))


@pytest.mark.parametrize("seed", sorted({*range(TALKS), 45}))
def test_whatever_was_recorded_runs_again_as_it_was(tmp_path, seed):
    async def main():
        session, trace = await record(tmp_path, seed)
        before = list(recorded_talks.ran)
        assert await drift(session, trace, make()) is None
        assert recorded_talks.ran == before

    run_in_virtual_time(main)


async def converse(agent, llm, tools, edit=tuple, choice="auto", settings=None):
    """A loop written out, whose requests can be edited."""
    permissions = PermissionManager(rules=[PermissionRule.allow_all()])
    async for message in agent.inputs():
        async with agent.turn(message):
            while True:
                reply = await stream_reply(
                    agent,
                    llm,
                    tools,
                    instructions="Be brief.",
                    tool_choice=choice,
                    settings=settings,
                    messages=edit(agent.session.history),
                )
                if not reply.tool_uses:
                    break
                await run_tools(agent, reply.tool_uses, tools, permissions)


def fetch(page: str) -> str:
    """Fetch a page."""
    return f"the text of {page}"


def described(page: str) -> str:
    """Fetch a page quickly."""
    return page


def typed(page: int) -> str:
    """Fetch a page."""
    return str(page)


def other(page: str) -> str:
    """Fetch a page."""
    return page


described.__name__ = typed.__name__ = "fetch"


def loop(*functions, steps=(), model="script", **named):
    async def agent_fn(agent):
        llm = ScriptedProvider(*steps, model=model)
        await converse(agent, llm, ToolRegistry(map(tool, functions or (fetch,))), **named)

    return agent_fn


def drop(history):
    """Leave out what was said in the second turn."""
    return tuple(each for each in history if each.text != "Read b.")


def shorten(history):
    """Shorten results."""
    return tuple(
        replace(each, content=[replace(r, content=[TextBlock("cut")]) for r in each.tool_results])
        if each.tool_results
        else each
        for each in history
    )


LOOPS = {  # by the request that shows it
    "nothing": (None, loop()),
    "a tool's description": (1, loop(described)),
    "a tool's schema": (1, loop(typed)),
    "a tool's name": (1, loop(other)),
    "a tool more": (1, loop(fetch, other)),
    "tool_choice": (1, loop(choice="any")),
    "the tool that must be called": (1, loop(choice=NamedTool("fetch"))),
    "the most tokens": (1, loop(settings=ModelSettings(max_tokens=77))),
    "the effort": (1, loop(settings=ModelSettings(effort="low"))),
    "the model": (1, loop(model="another")),
    "a result's text": (2, loop(edit=shorten)),
    "a dropped message": (3, loop(edit=drop)),
}


@pytest.mark.parametrize("change", LOOPS)
def test_a_change_is_named_at_the_request_that_shows_it(tmp_path, change):
    step, changed = LOOPS[change]
    steps = [[call("fetch", page="a")], "one", [call("fetch", page="b")], "two"]

    async def main():
        store = FileStore(tmp_path)
        async with TraceFile() as file:
            tracer = Tracer(file, content="redacted")
            async with AgentRuntime(store, instruments=[tracer]) as runtime:
                session = AgentSession.new("ann", store=store)
                handle = runtime.spawn(session, loop(steps=steps))
                await handle.ask("Read a.")
                await handle.ask("Read b.")
                await handle.shutdown()
        trace = await read_trace(session.session_id, store=store)
        found = await drift(session, trace, changed)
        assert (found and found.step) == step
        assert not found or "\n-" in found.diff or "\n+" in found.diff

    run_in_virtual_time(main)


def test_a_conversation_that_is_shortened_later_is_named_where_it_was(tmp_path):
    async def main():
        session, trace = await record(tmp_path, 0, plain=True)
        chats = [each for each in trace.spans if each.name == "chat script"]
        has_tools = [bool(each.attributes["gen_ai.tool.definitions"]) for each in chats]
        shortened = has_tools.index(False) + 1  # the request for a summary has none
        found = await drift(session, trace, make(window=3_000))
        assert found.step == shortened
        sooner = await drift(session, trace, make(window=1_200))
        assert 1 < sooner.step < shortened

    run_in_virtual_time(main)


def test_other_instructions_and_fewer_steps_are_named(tmp_path):
    async def main():
        session, trace = await record(tmp_path, 0, plain=True)
        assert (await drift(session, trace, make(instructions="Be quick."))).step == 1
        assert (await drift(session, trace, make(max_steps=1))).step <= 2

    run_in_virtual_time(main)


def test_a_turn_that_led_nowhere_leads_nowhere_again(tmp_path):
    """What is repeated, or raises, ends the turn as it did; its note is not doubled."""

    async def main():
        for name in ("fetch", "fail"):
            steps = [[call(name, page="aa")] for _ in range(8)]
            folder = tmp_path / name
            session, trace = await record(folder, 1, make(ScriptedProvider(*steps), max_steps=9))
            assert await drift(session, trace, make(max_steps=9)) is None

    run_in_virtual_time(main)


def test_nothing_runs_and_no_socket_opens(tmp_path, monkeypatch):
    async def main():
        session, trace = await record(tmp_path, 3)
        recorded_talks.ran.clear()
        with monkeypatch.context() as patch:
            for name in ("socket", "create_connection"):
                patch.setattr(socket, name, None)
            patch.setattr(subprocess, "Popen", None)
            assert await drift(session, trace, make("anthropic:claude-sonnet-5-5")) is not None
            assert await drift(session, trace, make()) is None
        assert recorded_talks.ran == []

    run_in_virtual_time(main)


def test_what_a_record_hides_may_be_anything(tmp_path):
    async def main():
        agent = make(ScriptedProvider("one"), instructions="The number is ACME-123 of today.")
        store = FileStore(tmp_path)
        async with TraceFile() as file:
            tracer = Tracer(file, content="redacted", redact=Redactor([r"ACME-\d+"]))
            async with AgentRuntime(store, instruments=[tracer]) as runtime:
                session = (await agent.run("Go.", runtime=runtime)).session
        trace = await read_trace(session.session_id, store=store)
        assert await drift(session, trace, make(instructions=agent.instructions)) is None
        changed = make(instructions="The number is ACME-123 of tomorrow.")
        assert (await drift(session, trace, changed)).step == 1

    run_in_virtual_time(main)


def test_what_came_after_the_end_of_the_process_is_not_compared(tmp_path):
    """A turn that was cut off is compared as far as it came."""

    async def main():
        session, trace = await record(tmp_path, 3, plain=True)
        turns = [each for each in trace.spans if each.kind == "turn"]
        cut = replace(turns[1], end=0, status="open")
        spans = tuple(cut if each is turns[1] else each for each in trace.spans)
        upto = [each for each in spans if each.kind == "model" and each.start < turns[2].start]
        assert await drift(session, Trace(spans), make()) is None
        last = upto[-1]
        named = replace(last, attributes={**last.attributes, "gen_ai.request.model": "x"})
        changed = tuple(named if each is last else each for each in spans)
        assert (await drift(session, Trace(changed), make())).step == len(upto)

    run_in_virtual_time(main)


def test_a_trace_that_is_not_whole_is_refused(tmp_path):
    async def main():
        session, trace = await record(tmp_path, 3)
        with pytest.raises(ConfigurationError, match=r"2 lines of the trace of .* were dropped"):
            await drift(session, Trace(trace.spans, missing=2), make())

    run_in_virtual_time(main)


def test_an_agent_that_ends_has_drifted(tmp_path):
    async def ends(agent):
        await agent.receive()

    async def main():
        session, trace = await record(tmp_path, 3)
        found = await drift(session, trace, ends)
        assert found.step == 1

    run_in_virtual_time(main)


def make_lead(*replies, finds=(), ask="look", stops=False):
    """Make an agent function that has its helpers find something, side by side, by no tool call."""

    def look(place: str) -> str:
        """Look."""
        recorded_talks.ran.append("look")
        return f"rain in {place}"

    def make_helper(text):
        rules = [PermissionRule.ask_for_tool(ask), PermissionRule.allow_all()]
        return Agent(
            ScriptedProvider(*finds[text] if finds else []),
            name="helper",
            tools=[look],
            permissions=PermissionManager(rules=rules),
        )

    async def find(agent, place, found):
        with trio.move_on_after(5) if stops else nullcontext():
            helper = agent.spawn(AgentSession.new("helper"), make_helper(place))
            found[place] = (await helper.ask(f"Look at {place}.")).text
            await helper.shutdown()

    async def lead(agent):
        llm = ScriptedProvider(*replies)
        async for message in agent.inputs():
            async with agent.turn(message):
                found = {}
                async with trio.open_nursery() as nursery:
                    for place in message.text.split():
                        nursery.start_soon(find, agent, place, found)
                agent.session.add_message(Message.user(f"Found {sorted(found.items())}"))
                await stream_reply(agent, llm, ToolRegistry(), instructions="Sum up.")

    return lead


async def record_lead(folder, lead, decision="deny"):
    async with (
        TraceFile() as file,
        AgentRuntime(FileStore(folder), instruments=[Tracer(file, content="redacted")]) as runtime,
    ):
        session = AgentSession.new("lead", store=FileStore(folder))
        handle = runtime.spawn(session, lead)
        async with trio.open_nursery() as nursery:
            approver = ScriptedApprover(*[decision] * 9)
            await nursery.start(approver.attend, handle)
            await handle.ask("Paris Rome")
            await handle.ask("Oslo")
            await handle.shutdown()
    session = await AgentSession.load(session.session_id, store=FileStore(folder))
    return session, await read_trace(session.session_id, store=FileStore(folder))


FINDS = {
    "Paris": [[call("look", place="Paris")], "wet in Paris"],
    "Rome": ["dry in Rome"],
    "Oslo": [[call("look", place="Oslo")], "cold in Oslo"],
}


@pytest.mark.parametrize("decision", ["allow", "deny"])
def test_agents_that_no_tool_runs_are_answered_from_the_trace(tmp_path, decision):
    async def main():
        recorded_talks.ran.clear()
        recorded = make_lead("one", "two", finds=FINDS)
        session, trace = await record_lead(tmp_path, recorded, decision)
        ran = list(recorded_talks.ran)
        assert await drift(session, trace, make_lead()) is None
        record = (await Recording.of(session, trace)).to_text()
        await Drift.check(record, make_lead())
        assert recorded_talks.ran == ran

        async with AgentRuntime(InMemoryStore()) as runtime:
            runtime.resources.insert(replay(session, trace))
            again = AgentSession.new("lead")
            handle = runtime.spawn(again, make_lead(ask="nothing"))
            assert (await handle.ask("Paris Rome")).text == "one"
            assert "wet in Paris" in again.history[1].text
        assert recorded_talks.ran == ran

    run_in_virtual_time(main)


def test_an_agent_below_that_asks_more_than_is_on_record_is_no_drift(tmp_path):
    async def main():
        session, trace = await record_lead(tmp_path, make_lead("one", "two", finds=FINDS))
        alone = Trace(tuple(each for each in trace.spans if each.session_id == session.session_id))
        with pytest.raises(ConfigurationError, match="lead/helper asked its model more than"):
            await drift(session, alone, make_lead())

    run_in_virtual_time(main)


def test_a_session_that_asked_no_model_itself_names_those_that_did(tmp_path):
    async def lead(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                member = Agent(ScriptedProvider("Found."), name="member")
                await agent.spawn(AgentSession.new("member"), member).ask(message.text)

    async def main():
        session, trace = await record_lead(tmp_path, lead)
        first = next(each.session_id for each in trace.spans if each.kind == "model")
        with pytest.raises(ConfigurationError, match="has no request to a model") as caught:
            await drift(session, trace, lead)
        assert first in str(caught.value)

    run_in_virtual_time(main)


def test_an_agent_below_that_was_cut_off_is_refused(tmp_path):
    async def main():
        finds = {**FINDS, "Oslo": [Reply("", hangs=True)]}
        recorded = make_lead("one", "two", finds=finds, stops=True)
        session, trace = await record_lead(tmp_path, recorded)
        with pytest.raises(ConfigurationError, match="a turn of lead/helper was cut off"):
            await drift(session, trace, make_lead(stops=True))

    run_in_virtual_time(main)
