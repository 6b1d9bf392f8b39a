"""Turns: however they end, the history is valid, and readers see one clean end."""

import gc
import sys
import weakref

import pytest
import trio
from hypothesis import given, strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from greenroom.agents import stream_reply
from greenroom.core import (
    AgentState,
    Done,
    MailboxFullError,
    Message,
    TextBlock,
    ToolEnd,
    ToolError,
    ToolResult,
    ToolResultBlock,
    ToolResultInput,
    ToolStart,
    ToolUseBlock,
    TurnError,
    TurnStart,
    TurnStatus,
    Usage,
    UsageReport,
    UserInput,
)
from greenroom.core._internal import EndStatus
from greenroom.core.serde import InvalidJSONError
from greenroom.llm import ModelError
from greenroom.runtime import AgentNotRunningError, AgentRuntime, RuntimeLimits
from greenroom.runtime.mailbox import ClientResults
from greenroom.session import AgentSession, InMemoryStore
from greenroom.session.transcript import Transcript
from greenroom.testing import Reply, ScriptedProvider


def new():
    return AgentSession.new("worker")


async def chunks_of(handle, *kinds):
    await handle.shutdown()
    return [chunk async for chunk in handle.subscribe("all") if isinstance(chunk, kinds)]


async def test_a_turn_inside_a_turn_is_refused(runtime):
    async def agent_fn(agent):
        message = await agent.receive()
        async with agent.turn(message):
            with pytest.raises(TurnError):
                async with agent.turn(message):
                    pass

    handle = runtime.spawn(new(), agent_fn)
    assert (await handle.ask("a")).status is TurnStatus.COMPLETED


async def test_a_turn_is_entered_once(runtime):
    async def agent_fn(agent):
        turn = agent.turn(await agent.receive())
        async with turn:
            pass
        with pytest.raises(TurnError, match="entered once"):
            async with turn:
                pass

    handle = runtime.spawn(new(), agent_fn)
    await handle.send_input("a")
    await handle.wait(check=True)


async def test_turns_may_be_opened_for_messages_of_one_s_own(runtime):
    async def agent_fn(agent):
        for text in ("a", "b"):
            async with agent.turn(UserInput((TextBlock(text),))):
                assert agent.context.current_turn == (1 if text == "a" else 2)

    handle = runtime.spawn(new(), agent_fn)
    await handle.wait(check=True)
    assert [message.text for message in await handle.history()] == ["a", "b"]
    assert (await handle.statistics()).turns == 2


async def test_a_message_that_can_t_be_stored_opens_no_turn(runtime):
    async def agent_fn(agent):
        with pytest.raises(InvalidJSONError):
            async with agent.turn(UserInput((TextBlock("x", {"bad": object()}),))):
                pass
        async with agent.turn(UserInput((TextBlock("fine"),))):
            pass

    handle = runtime.spawn(new(), agent_fn)
    await handle.wait(check=True)
    assert [message.text for message in await handle.history()] == ["fine"]


async def test_a_turn_of_an_agent_that_has_ended_is_refused(runtime):
    kept = []

    async def agent_fn(agent):
        kept.append(agent)

    await runtime.spawn(new(), agent_fn).wait()
    with pytest.raises(AgentNotRunningError):
        async with kept[0].turn(UserInput((TextBlock("late"),))):
            pass
    with pytest.raises(TurnError, match="done to idle"):
        kept[0].set_state(AgentState.idle())
    assert kept[0].lineage == ("worker",)


async def test_the_next_message_makes_an_older_one_without_a_turn_history(runtime):
    async def agent_fn(agent):
        await agent.receive()
        second = await agent.receive()
        async with agent.turn(second):
            await trio.sleep_forever()

    handle = runtime.spawn(new(), agent_fn)
    await handle.send_input("a")
    await handle.send_input("b")
    await wait_all_tasks_blocked()
    await handle.interrupt()
    (start,) = await chunks_of(handle, TurnStart)
    assert [message.text for message in await handle.history()] == ["b"]
    assert start.input_id


async def test_a_turn_of_another_message_than_the_one_taken_ends_the_wait_for_that(runtime):
    async def agent_fn(agent):
        await agent.receive()
        async with agent.turn(UserInput((TextBlock("mine"),))):
            pass
        await agent.receive()

    handle = runtime.spawn(new(), agent_fn)
    with pytest.raises(TurnError):
        await handle.ask("yours")


@pytest.mark.parametrize("how", ["return", "fail", "interrupt", "shutdown", "kill", "bug"])
async def test_each_tool_that_starts_ends_once_however_the_turn_ends(runtime, how):
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.send(ToolStart("ended", "Read"))
                await agent.send(ToolEnd("ended", ToolResult.ok("x")))
                await agent.send(ToolStart("open", "Bash"))
                if how == "fail":
                    raise ModelError("down")
                if how == "bug":
                    raise ValueError("bug")
                if how != "return":
                    await trio.sleep_forever()

    handle = runtime.spawn(new(), agent_fn)
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    if how == "interrupt":
        await handle.interrupt()
    elif how == "kill":
        handle.kill()
    await handle.shutdown(grace=1)
    ends = await chunks_of(handle, ToolEnd, Done)
    assert [getattr(chunk, "id", "done") for chunk in ends] == ["ended", "open", "done"]


async def test_a_model_that_is_cut_off_keeps_its_partial_text(runtime):
    async def agent_fn(agent, llm):
        async for message in agent.inputs():
            async with agent.turn(message):
                await stream_reply(agent, llm)

    llm = ScriptedProvider(Reply("half a sentence", hangs=True), "whole")
    handle = runtime.spawn(new(), agent_fn, llm)
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    assert await handle.partial_text() in {"half a sentence", ""}
    await handle.interrupt()
    assert (await handle.ask("again")).text == "whole"
    assert [message.text for message in await handle.history()] == [
        "go",
        "half a sentence",
        "again",
        "whole",
    ]


def is_paired(history):
    """Whether each call of a reply has exactly one result, before the next reply."""
    calls = []
    for message in history:
        if message.role == "assistant":
            if calls:
                return False
            calls = [call.id for call in message.tool_uses]
        else:
            for result in message.tool_results:
                if result.tool_use_id not in calls:
                    return False
                calls.remove(result.tool_use_id)
    return not calls


REPLIES = st.lists(st.integers(0, 3), min_size=1, max_size=4)


@given(
    replies=REPLIES, cut=st.integers(0, 25), how=st.sampled_from(["interrupt", "kill", "fail", "-"])
)
def test_the_history_is_paired_wherever_the_turn_is_cut(replies, cut, how):
    """Replies with so many calls each; after `cut` steps something ends the turn."""
    store = InMemoryStore()

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await run(agent)

    async def run(agent):
        step = 0

        async def pause():
            nonlocal step
            step += 1
            if step == cut and how == "fail":
                raise ModelError("down")
            if step == cut and how != "-":
                reached.set()
                await trio.sleep_forever()
            await trio.lowlevel.checkpoint()

        for number, count in enumerate(replies):
            ids = [f"t{number}-{index}" for index in range(count)]
            await pause()
            agent.session.add_message(
                Message.assistant([TextBlock("x"), *(ToolUseBlock(id_, "T") for id_ in ids)])
            )
            await pause()
            results = []
            try:
                for id_ in ids:
                    await agent.send(ToolStart(id_, "T"))
                    await pause()
                    results.append(ToolResultBlock(id_, (TextBlock("real"),)))
                    agent.send_nowait(ToolEnd(id_, ToolResult.ok("real")))
            finally:
                if results:
                    agent.session.add_message(Message.user(results))
        finished.set()

    async def main():
        nonlocal reached, finished
        reached, finished = trio.Event(), trio.Event()
        async with AgentRuntime(store=store) as runtime:
            handle = runtime.spawn(new(), agent_fn)
            await handle.send_input("go")
            await wait_all_tasks_blocked()
            if reached.is_set() and how == "interrupt":
                await handle.interrupt()
            elif reached.is_set():
                handle.kill()
            await handle.shutdown()
            return handle, [chunk async for chunk in handle.subscribe("all")]

    reached = finished = None
    handle, chunks = trio.run(main, clock=MockClock(autojump_threshold=0))
    stored = trio.run(_load, store, handle.session_id)
    assert is_paired(stored.history)
    starts = [chunk.id for chunk in chunks if isinstance(chunk, ToolStart)]
    ends = [chunk.id for chunk in chunks if isinstance(chunk, ToolEnd)]
    assert starts == ends
    assert sum(isinstance(chunk, Done) for chunk in chunks) == 1


async def _load(store, session_id):
    return await AgentSession.load(session_id, store=store)


def waiting_for_results(collected):
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                for id_ in message.text.split():
                    collected.append((await agent.wait_tool_result(id_)).text)

    return agent_fn


async def test_a_client_s_result_goes_to_the_one_who_waits_for_it(runtime):
    collected = []
    handle = runtime.spawn(new(), waiting_for_results(collected))
    await handle.send_input("t1 t2")
    await wait_all_tasks_blocked()
    # It comes early, and is kept for the one who will ask for it.
    await handle.send_tool_result("t2", ToolResult.ok("two"))
    await wait_all_tasks_blocked()
    assert collected == []
    await handle.send_tool_result("t1", ToolResult.ok("one"))
    await wait_all_tasks_blocked()
    assert collected == ["one", "two"]


async def test_a_client_s_result_is_an_input_message_and_is_taken_once():
    results, message = ClientResults(limit=1), ToolResultInput("t1", ToolResult.ok("one"))
    results.put(message)
    assert await results.take("t1") == message.result
    results.put(message)
    assert results.drop() == ("t1",)
    assert results.drop() == ()


async def test_a_result_that_comes_twice_late_or_for_nobody(runtime, caplog):
    handle = runtime.spawn(new(), waiting_for_results([]))
    with pytest.raises(ToolError, match="no turn is open"):
        await handle.send_tool_result("t1", ToolResult.ok("early bird"))
    await handle.send_input("t1")
    await wait_all_tasks_blocked()
    await handle.send_tool_result("unknown", ToolResult.ok("?"))
    with pytest.raises(ToolError, match="already"):
        await handle.send_tool_result("unknown", ToolResult.ok("?"))
    await handle.send_tool_result("t1", ToolResult.ok("one"))
    await wait_all_tasks_blocked()
    assert "the call unknown, and nothing waited for it" in caplog.text
    with pytest.raises(ToolError, match="no turn is open"):
        await handle.send_tool_result("t1", ToolResult.ok("late"))


async def test_one_waits_for_a_result_and_a_second_is_refused(runtime):
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message), trio.open_nursery() as nursery:
                nursery.start_soon(agent.wait_tool_result, "t1")
                await wait_all_tasks_blocked()
                await agent.wait_tool_result("t1")

    handle = runtime.spawn(new(), agent_fn)
    result = await handle.ask("go")
    assert (result.status, "already" in result.error) == (TurnStatus.FAILED, True)


async def test_a_wait_that_is_given_up_can_be_repeated(runtime):
    collected = []

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                with trio.move_on_after(1):
                    await agent.wait_tool_result("t1")
                collected.append((await agent.wait_tool_result("t1")).text)

    handle = runtime.spawn(new(), agent_fn)
    await handle.send_input("go")
    await trio.sleep(2)
    await handle.send_tool_result("t1", ToolResult.ok("one"))
    await wait_all_tasks_blocked()
    assert collected == ["one"]


async def test_results_for_nobody_are_bounded_and_never_keep_out_an_awaited_one():
    collected = []
    async with AgentRuntime(store=InMemoryStore(), limits=RuntimeLimits(pending=2)) as runtime:
        handle = runtime.spawn(new(), waiting_for_results(collected))
        await handle.send_input("t1")
        await wait_all_tasks_blocked()
        for id_ in ("a", "b"):
            await handle.send_tool_result(id_, ToolResult.ok("?"))
        with pytest.raises(MailboxFullError):
            await handle.send_tool_result("c", ToolResult.ok("?"))
        await handle.send_tool_result("t1", ToolResult.ok("one"))
        await wait_all_tasks_blocked()
        assert collected == ["one"]


async def test_a_client_s_result_is_no_input_and_no_answer(runtime):
    seen = []

    async def agent_fn(agent):
        message = await agent.receive()
        async with agent.turn(message), trio.open_nursery() as nursery:
            nursery.start_soon(agent.request_permission, "Bash", "ls")
            seen.append(await agent.receive())
            nursery.cancel_scope.cancel()

    handle = runtime.spawn(new(), agent_fn)
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    await handle.send_tool_result("t1", ToolResult.ok("one"))
    await wait_all_tasks_blocked()
    assert (seen, len(await handle.pending())) == ([], 1)
    await handle.send_input("next")
    await handle.wait(check=True)
    assert [message.text for message in seen] == ["next"]


async def test_what_a_tool_keeps_in_its_context_is_saved_with_the_session(runtime, store):
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                context = agent.context.with_tool_use_id("t1")
                todos = context.metadata.setdefault("todos", [])
                todos.append(message.text)
                agent.session.set_metadata("mine", message.text)

    session = AgentSession.new("worker")
    session.set_metadata("mine", "before")
    handle = runtime.spawn(session, agent_fn)
    for text in ("a", "b"):
        await handle.ask(text)
    stored = await AgentSession.load(handle.session_id, store=store)
    # The session's own value is not put back to what the context began with.
    assert stored.metadata == {"todos": ["a", "b"], "mine": "b"}
    await handle.shutdown()

    async def later(agent):
        assert agent.context.get_metadata("todos") == ["a", "b"]

    again = await AgentSession.load(handle.session_id, store=store)
    await runtime.spawn(again, later).wait(check=True)


async def test_what_is_no_json_in_a_context_is_logged_and_keeps_nothing_else_from_the_disk(
    runtime, store, caplog
):
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                agent.context.metadata |= {"bad": (1, 2), "nan": float("nan"), 3: "x"}
                agent.context.set_metadata("good", message.text)

    handle = runtime.spawn(AgentSession.new("worker"), agent_fn)
    assert (await handle.ask("a")).status is TurnStatus.COMPLETED
    stored = await AgentSession.load(handle.session_id, store=store)
    assert (stored.metadata, len(stored.history)) == ({"good": "a"}, 1)
    for name in ("metadata 'bad'", "metadata 'nan'", "metadata 3"):
        assert f"{name} can't be stored" in caplog.text
    await handle.shutdown()
    assert (await handle.wait()).status is EndStatus.COMPLETED


async def test_the_text_of_an_input_is_no_input(runtime):
    async def hasty(agent):
        async for message in agent.inputs():
            async with agent.turn(message.text):
                pass

    handle = runtime.spawn(AgentSession.new("worker"), hasty)
    with pytest.raises(AgentNotRunningError, match=r"not 'hello': write agent\.turn"):
        await handle.ask("hello")


async def test_a_text_is_no_chunk(runtime):
    async def hasty(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                with pytest.raises(TypeError, match=r"'hello' is not a chunk: .*TextComplete"):
                    agent.send_nowait(message.text)
                await agent.send(message.text)

    handle = runtime.spawn(AgentSession.new("worker"), hasty)
    result = await handle.ask("hello")
    assert "TypeError: 'hello' is not a chunk" in result.error


async def test_an_object_of_a_subclass_is_no_chunk(runtime):
    class Report(UsageReport, frozen=True):
        """A report that no budget would count."""

    async def reporter(agent):
        with pytest.raises(TypeError, match="is not a chunk"):
            agent.send_nowait(Report(Usage(100, 50)))

    await runtime.spawn(AgentSession.new("worker"), reporter).wait(check=True)


@pytest.mark.parametrize("keep", [0, 1, 2, 4])
async def test_a_turn_in_which_the_session_is_compacted_tells_its_own_last_reply(runtime, keep):
    async def agent_fn(agent):
        for reply in ("old", "first", "second"):
            async with agent.turn(await agent.receive()):
                agent.session.add_message(Message.assistant(reply))
                if reply == "second":
                    await agent.session.compact("what was said", keep)

    handle = runtime.spawn(new(), agent_fn)
    told = [(await handle.ask(text)).text for text in "abc"]
    assert told == ["old", "first", "second" if keep else ""]


async def test_a_turn_that_rewinds_behind_its_beginning_has_said_nothing(runtime):
    async def agent_fn(agent):
        for reply in ("old", "new"):
            async with agent.turn(await agent.receive()):
                agent.session.add_message(Message.assistant(reply))
                if reply == "new":
                    await agent.session.rewind(to=2)

    handle = runtime.spawn(new(), agent_fn)
    assert [(await handle.ask(text)).text for text in "ab"] == ["old", ""]


async def test_a_turn_that_rewinds_some_of_its_own_replies_tells_one_that_stayed(runtime):
    async def agent_fn(agent):
        async with agent.turn(await agent.receive()):
            agent.session.add_message(Message.assistant("old"))
        async with agent.turn(await agent.receive()):
            for reply in ("first", "second"):
                agent.session.add_message(Message.assistant(reply))
            await agent.session.rewind(to=4)
            await agent.session.compact("what was said", 1)

    handle = runtime.spawn(new(), agent_fn)
    assert [(await handle.ask(text)).text for text in "ab"] == ["old", "first"]


async def test_a_turn_copies_no_conversation(runtime, monkeypatch):
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                agent.session.add_message(Message.assistant("done"))

    def copy(transcript):
        raise AssertionError("a long conversation would make each turn slower")

    monkeypatch.setattr(Transcript, "messages", property(copy))
    handle = runtime.spawn(new(), agent_fn)
    assert [(await handle.ask(text)).text for text in "ab"] == ["done", "done"]


async def test_what_a_compaction_has_replaced_is_freed_at_the_end_of_the_turn(runtime):
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                agent.session.add_message(Message.assistant("done"))
                if message.text == "compact":
                    await agent.session.compact("what was said", keep=1)

    session, alone = new(), Message.user("nobody else holds it")
    handle = runtime.spawn(session, agent_fn)
    await handle.ask("long ago")
    old = session.history[0]
    await handle.ask("compact")
    assert sys.getrefcount(old) == sys.getrefcount(alone)


async def test_a_turn_is_freed_once_the_next_has_ended_without_the_garbage_collector(runtime):
    turns = []

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                turns.append(weakref.ref(turn))

    handle = runtime.spawn(new(), agent_fn)
    gc.disable()
    try:
        for text in "ab":
            await handle.ask(text)
        assert [turn() is None for turn in turns] == [True, False]
    finally:
        gc.enable()


async def test_replies_of_a_model_that_no_budget_has_counted_are_told_and_others_are_not(caplog):
    async def adds(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                model = "m" if message.text == "ask" else ""
                agent.session.add_message(Message("assistant", (TextBlock("hi"),), model=model))

    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(new(), adds)
        with caplog.at_level("WARNING", "greenroom.runtime"):
            await handle.ask("make one up")
            assert caplog.messages == []
            await handle.ask("ask")
    (said,) = caplog.messages
    assert "added 1 replies, of which 0 came out of `agent.model_call`" in said
