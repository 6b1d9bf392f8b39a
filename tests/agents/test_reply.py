"""`stream_reply`: the request unchanged, the deltas as they come, the reply in the history."""

from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from greenroom.agents import stream_reply
from greenroom.core import (
    BudgetExceededError,
    Done,
    Error,
    Message,
    StopReason,
    TextBlock,
    TextComplete,
    TextDelta,
    ThinkingBlock,
    ThinkingComplete,
    ThinkingDelta,
    TurnStatus,
    Usage,
    UsageReport,
)
from greenroom.llm import ModelSettings, ModelStreamError, StreamEnd
from greenroom.llm._internal import OpenModels, StreamStart, UsageUpdate
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore
from greenroom.testing import Reply, ScriptedProvider
from greenroom.tools import ToolRegistry, tool


async def talker(agent, llm, **options):
    async for message in agent.inputs():
        async with agent.turn(message):
            await stream_reply(agent, llm, **options)


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_reply_that_broke_off_is_not_told_of_as_one_that_nothing_has_counted(hangs, caplog):
    reply = Reply("so far", hangs=hangs, error=None if hangs else ModelStreamError("cut"))
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        session = AgentSession.new("talker")
        handle = runtime.spawn(session, talker, ScriptedProvider(reply))
        async with handle.subscribe() as chunks:
            await handle.send_input("hi")
            async for chunk in chunks:
                if isinstance(chunk, TextDelta):
                    handle.interrupt_nowait()
                if isinstance(chunk, Done):
                    break
    assert session.history[1].text.startswith("so")
    assert [record for record in caplog.records if "model_call" in record.getMessage()] == []


async def one_turn(llm, agent_fn=talker, text="hi", *args):
    """Run one turn; return its chunks, its result and the session."""
    session = AgentSession.new("talker")
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(session, agent_fn, llm, *args)
        result = await handle.ask(text)
        async with handle.subscribe("all") as reader:
            await handle.shutdown()
            chunks = [chunk async for chunk in reader]
    return chunks, result, session


def kinds(chunks, *wanted):
    return [chunk for chunk in chunks if isinstance(chunk, wanted)]


async def test_deltas_add_up_to_the_complete_text():
    llm = ScriptedProvider("one two three")
    chunks, result, session = await one_turn(llm)
    deltas = kinds(chunks, TextDelta)
    assert len(deltas) == 3
    assert "".join(delta.text for delta in deltas) == "one two three"
    assert kinds(chunks, TextComplete) == [TextComplete("one two three")]
    assert result.text == "one two three"
    assert result.stop_reason is StopReason.END_TURN
    assert [message.role for message in session.history] == ["user", "assistant"]


async def test_thinking_is_streamed_and_its_signature_kept():
    thought = ThinkingBlock("hm, well", signature="sig")
    chunks, _, session = await one_turn(ScriptedProvider([thought, TextBlock("yes")]))
    assert "".join(chunk.text for chunk in kinds(chunks, ThinkingDelta)) == "hm, well"
    assert kinds(chunks, ThinkingComplete) == [ThinkingComplete("hm, well")]
    assert session.history[-1].content[0] == thought


async def test_every_option_reaches_the_provider_unchanged():
    @tool
    def look(place: str) -> str:
        """Look somewhere."""
        return place

    async def agent_fn(agent, llm):
        async for message in agent.inputs():
            async with agent.turn(message):
                await stream_reply(
                    agent,
                    llm,
                    ToolRegistry([look]),
                    instructions="Exactly this. ",
                    tool_choice="any",
                    settings=ModelSettings(
                        max_tokens=7,
                        temperature=0.5,
                        top_p=0.9,
                        stop=["STOP"],
                        thinking=1024,
                        extra={"metadata": {"user_id": "u"}},
                    ),
                )

    llm = ScriptedProvider("ok")
    await one_turn(llm, agent_fn)
    (request,) = llm.requests
    assert request.system == "Exactly this. "
    assert request.tool_choice == "any"
    assert (request.max_tokens, request.temperature, request.top_p) == (7, 0.5, 0.9)
    assert (request.stop_sequences, request.thinking) == (("STOP",), 1024)
    assert request.options == {"metadata": {"user_id": "u"}}
    assert [each.name for each in request.tools] == ["look"]
    assert request.messages == (Message.user("hi"),)


async def test_other_messages_are_sent_instead_of_the_history_and_the_reply_joins_it():
    llm = ScriptedProvider("one", "two")
    shorter = [Message.user("in short: hi")]

    async def agent_fn(agent, llm):
        async for message in agent.inputs():
            async with agent.turn(message):
                await stream_reply(agent, llm, messages=shorter)
                shorter.clear()  # what was asked is no longer the caller's
                await stream_reply(agent, llm, messages=[])

    _, result, session = await one_turn(llm, agent_fn)
    assert [[each.text for each in r.messages] for r in llm.requests] == [["in short: hi"], []]
    assert [message.text for message in session.history] == ["hi", "one", "two"]
    assert result.text == "two"


async def test_what_joins_the_turn_at_its_step_follows_the_messages_that_are_sent():
    llm = ScriptedProvider("done")
    session = AgentSession.new("talker")

    async def agent_fn(agent, llm):
        async for message in agent.inputs():
            async with agent.turn(message, steer=True):
                handle.send_input_nowait("quickly")
                await stream_reply(agent, llm, messages=[Message.user("in short: hi")])

    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(session, agent_fn, llm)
        await handle.ask("hi")
    assert [each.text for each in llm.requests[0].messages] == ["in short: hi", "quickly"]
    assert [each.text for each in session.history] == ["hi", "quickly", "done"]


async def test_what_is_sent_in_place_of_the_history_is_taken_at_the_call():
    """A list that changes while the step waits, and an iterator, are sent as they were."""
    llm = ScriptedProvider("one", "two")

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                messages = [Message.user("first")]
                begun = trio.Event()

                async def change(begun=begun, messages=messages):
                    await begun.wait()
                    messages.append(Message.user("late"))

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(change)
                    await trio.testing.wait_all_tasks_blocked()
                    begun.set()
                    await stream_reply(agent, llm, messages=messages)
                await stream_reply(agent, llm, messages=(each for each in messages[:1]))

    async with AgentRuntime(store=InMemoryStore()) as runtime:
        await runtime.spawn(AgentSession.new("agent"), agent_fn).ask("go")
    assert [[each.text for each in sent.messages] for sent in llm.requests] == [["first"]] * 2


@pytest.mark.parametrize("messages", ["hi", [TextBlock("hi")]])
async def test_what_is_sent_instead_has_to_be_messages(messages):
    with pytest.raises(TypeError, match=r"not a message: write Message\.user"):
        await stream_reply(None, ScriptedProvider(), messages=messages)


async def test_the_model_that_answered_stands_in_the_session():
    _, _, session = await one_turn(ScriptedProvider("ok", name="acme", model="acme-1"))
    assert (session.provider, session.model) == ("acme", "acme-1")


async def test_usage_is_reported_and_summed():
    llm = ScriptedProvider(Reply("a", Usage(10, 1)), Reply("b", Usage(20, 2)))
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("talker"), talker, llm)
        await handle.ask("one")
        result = await handle.ask("two")
        async with handle.subscribe("all") as reader:
            await handle.shutdown()
            reports = kinds([chunk async for chunk in reader], UsageReport)
    assert [report.usage.total for report in reports] == [11, 22]
    assert [report.total.total for report in reports] == [11, 33]
    assert result.usage.total == 22


async def test_a_broken_stream_ends_the_turn_and_keeps_what_had_come():
    llm = ScriptedProvider(Reply("half a", error=ModelStreamError("cut")), "whole")
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("talker"), talker, llm)
        failed = await handle.ask("one")
        assert failed.status is TurnStatus.FAILED
        assert "cut" in failed.error
        async with handle.subscribe("turn") as reader:
            again = await handle.ask("two")
            assert again.text == "whole"
            await handle.shutdown()
            chunks = [chunk async for chunk in reader]
        history = await handle.history()
    assert [error.kind for error in kinds(chunks, Error)] == ["ModelStreamError"]
    assert [done.status for done in kinds(chunks, Done)] == ["failed", "completed"]
    assert [(message.role, message.text) for message in history] == [
        ("user", "one"),
        ("assistant", "half a"),
        ("user", "two"),
        ("assistant", "whole"),
    ]
    assert history[1].stop_reason is StopReason.INTERRUPTED


async def test_an_interrupt_keeps_the_partial_text_and_the_next_input_is_answered():
    llm = ScriptedProvider(Reply("so far so good", hangs=True), "again")
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("talker"), talker, llm)
        receipt = await handle.send_input("one")
        with trio.fail_after(60):
            async for chunk in handle.stream(receipt):
                if chunk == TextDelta(" good"):
                    break
        assert await handle.partial_text() == "so far so good"
        report = await handle.interrupt()
        assert (report.abandoned, report.repaired) == ((), ())
        assert (await handle.history())[-1].text == "so far so good"
        assert str(handle.state) == "idle"
        assert (await handle.ask("two")).text == "again"


async def test_what_was_said_is_stored_before_the_model_is_asked():
    store, llm = InMemoryStore(), ScriptedProvider(Reply("so far", hangs=True))
    async with AgentRuntime(store=store) as runtime:
        handle = runtime.spawn(AgentSession.new("talker"), talker, llm)
        receipt = await handle.send_input("one")
        with trio.fail_after(60):
            async for chunk in handle.stream(receipt):
                if isinstance(chunk, TextDelta):
                    break
        stored = await AgentSession.load(handle.session_id, store=store)
        await handle.interrupt()
    assert [message.text for message in stored.history] == ["one"]


async def test_a_budget_of_calls_ends_the_turn_with_its_reason():
    async def agent_fn(agent, llm):
        async for message in agent.inputs():
            async with agent.turn(message):
                with agent.budget(model_calls=2) as budget:
                    for left in (2, 1, 0):
                        assert budget.remaining == {"model_calls": left}
                        await stream_reply(agent, llm)

    llm = ScriptedProvider("a", "b", "never")
    _, result, _ = await one_turn(llm, agent_fn)
    assert result.status is TurnStatus.FAILED
    assert "2 model calls" in result.error
    assert len(llm.requests) == 2


async def test_outside_of_a_turn_a_spent_budget_is_raised():
    seen = []

    async def agent_fn(agent, llm):
        async for _ in agent.inputs():
            with pytest.raises(BudgetExceededError):
                with agent.budget(model_calls=0):
                    await stream_reply(agent, llm)
            seen.append("raised")

    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("talker"), agent_fn, ScriptedProvider())
        await handle.send_input("x")
        await trio.testing.wait_all_tasks_blocked()
    assert seen == ["raised"]


class CutAt(ScriptedProvider):
    """A model whose stream calls `cut` when an event of this kind has come."""

    def __init__(self, kind, *script):
        super().__init__(*script)
        self.kind = kind
        self.cut = None

    @asynccontextmanager
    async def stream(self, request):
        async with super().stream(request) as stream:
            receive = stream.receive

            async def receive_and_cut():
                events = await receive()
                if any(isinstance(event, self.kind) for event in events):
                    self.cut()
                return events

            stream.receive = receive_and_cut
            yield stream


async def interrupted_when_has_come(kind):
    llm = CutAt(kind, Reply("a whole reply", Usage(10, 1)))
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("talker"), talker, llm)
        llm.cut = handle.interrupt_nowait
        result = await handle.ask("one")
        assert result.status is TurnStatus.INTERRUPTED
        return await handle.history(), result.usage, await handle.usage()


async def test_a_reply_that_is_whole_when_the_interrupt_comes_is_kept_and_billed():
    history, usage, total = await interrupted_when_has_come(StreamEnd)
    assert (history[-1].text, history[-1].stop_reason) == ("a whole reply", StopReason.END_TURN)
    assert usage == total == Usage(10, 1)


async def test_a_reply_that_is_cut_off_is_billed_as_far_as_the_provider_has_told():
    history, usage, total = await interrupted_when_has_come(UsageUpdate)
    assert history[-1].stop_reason is StopReason.INTERRUPTED
    assert usage == total == Usage(10, 1)
    history, usage, total = await interrupted_when_has_come(StreamStart)
    assert [message.role for message in history] == ["user"]
    assert usage == total == Usage()


async def test_a_model_is_opened_by_its_name_once_in_a_runtime_and_closed_with_it():
    opened, closed = [], []

    class Model(ScriptedProvider):
        async def aclose(self):
            closed.append(self)

    def open_model(name):
        opened.append(Model("one", "two"))
        return opened[-1]

    async def talker(agent, llm):
        async for message in agent.inputs():
            async with agent.turn(message):
                await stream_reply(agent, llm)

    async with AgentRuntime(store=InMemoryStore()) as runtime:
        runtime.resources.insert(OpenModels(open_model))
        for text in ("one", "two"):
            handle = runtime.spawn(AgentSession.new("talker"), talker, "anthropic:some-model")
            assert (await handle.ask("hello")).text == text
        assert len(opened) == 1
        assert not closed
    assert closed == opened


async def test_a_list_of_tools_is_no_registry():
    async def talker(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await stream_reply(agent, ScriptedProvider("hello"), [])

    async with AgentRuntime(store=InMemoryStore()) as runtime:
        result = await runtime.spawn(AgentSession.new("talker"), talker).ask("hello")
        assert "tools belong in a ToolRegistry, not in a list" in result.error
