"""Output: one total order, bounded, nothing waits for a reader, and late readers catch up."""

import pytest
import trio
from hypothesis import given, strategies as st
from trio.testing import wait_all_tasks_blocked

from greenroom.core import (
    AgentState,
    Custom,
    Done,
    Exited,
    Lagged,
    StateChange,
    SubAgentComplete,
    SubAgentOutput,
    SubAgentSpawned,
    TextComplete,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
    ToolStart,
    TurnError,
    TurnStart,
    TurnStatus,
    Usage,
    UsageReport,
)
from greenroom.core._internal import EndStatus, StateKind, serde
from greenroom.core.serde import InvalidJSONError
from greenroom.runtime import AgentRuntime, RuntimeLimits
from greenroom.runtime._internal import AgentStatistics
from greenroom.runtime.output_ring import OutputRing, PartialText
from greenroom.session import AgentSession, InMemoryStore


def new(**options):
    return AgentSession.new("worker", **options)


def small(**limits):
    return AgentRuntime(store=InMemoryStore(), limits=RuntimeLimits(**limits))


async def parrot(agent):
    """Say each word of the input as a delta, in a turn."""
    async for message in agent.inputs():
        async with agent.turn(message):
            for word in message.text.split():
                await agent.send(TextDelta(word))


async def read(subscription, kind=object):
    return [chunk async for chunk in subscription if isinstance(chunk, kind)]


def words(chunks):
    return " ".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


async def test_every_reader_sees_the_same_chunks_in_the_same_order(runtime):
    handle = runtime.spawn(new(), parrot)
    readers = [handle.subscribe("all") for _ in range(3)]
    await handle.ask("a b c")
    await handle.shutdown()
    streams = [await read(reader) for reader in readers]
    assert streams[0] == streams[1] == streams[2]
    assert streams[0] == [
        TurnStart(streams[0][0].input_id, text="a b c"),
        StateChange(AgentState.processing()),
        TextDelta("a"),
        TextDelta("b"),
        TextDelta("c"),
        StateChange(AgentState.idle()),
        Done(streams[0][0].input_id, inputs=(streams[0][0].input_id,)),
        StateChange(AgentState.done()),
        Exited(EndStatus.COMPLETED),
    ]


async def test_readers_that_wait_are_woken_in_the_same_step(runtime):
    handle = runtime.spawn(new(), parrot)
    seen = []

    async def reader():
        async with handle.subscribe("none") as chunks:
            seen.extend(await read(chunks))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader)
        nursery.start_soon(reader)
        await wait_all_tasks_blocked()
        await handle.ask("a")
        await handle.shutdown()
    assert seen.count(TextDelta("a")) == 2
    assert seen.count(Exited(EndStatus.COMPLETED)) == 2


async def test_where_a_late_reader_may_begin(runtime):
    handle = runtime.spawn(new(), parrot)
    await handle.ask("first turn")
    half = handle.subscribe("none").position
    await handle.ask("second turn")
    turn, everything = handle.subscribe(), handle.subscribe("all")
    nothing, position = handle.subscribe("none"), handle.subscribe(half)
    await handle.shutdown()
    assert words(await read(turn)) == "second turn"
    assert words(await read(position)) == "second turn"
    assert words(await read(everything)) == "first turn second turn"
    assert words(await read(nothing)) == ""


async def test_a_position_goes_on_where_a_reader_has_left(runtime):
    handle = runtime.spawn(new(), parrot)
    await handle.ask("a b c d")
    await handle.shutdown()
    first = handle.subscribe("all")
    head = [await anext(first) for _ in range(4)]
    assert head + await read(handle.subscribe(first.position)) == await read(
        handle.subscribe("all")
    )


@pytest.mark.parametrize("position", [(99, 3), (1, -5), (0, 0)])
async def test_a_position_of_another_epoch_is_told_so_and_begins_with_what_is_held(
    runtime, position
):
    handle = runtime.spawn(new(), parrot)
    await handle.ask("a b")
    await handle.shutdown()
    reader, kept = handle.subscribe(position), await read(handle.subscribe("all"))
    assert reader.position == position  # until it is told
    assert await read(reader) == [Lagged(None), *kept]


@pytest.mark.parametrize("replay", ["none", "turn", "all", (1, 10_000)])
async def test_a_reader_after_the_end_learns_how_it_ended_and_ends(runtime, replay):
    handle = runtime.spawn(new(), parrot)
    await handle.ask("a")
    await handle.shutdown()
    chunks = await read(handle.subscribe(replay))
    assert chunks[-1] == Exited(EndStatus.COMPLETED)
    assert [chunk async for chunk in handle.stream()] == [Exited(EndStatus.COMPLETED)]


async def test_a_reader_that_is_too_slow_learns_how_much_it_missed_and_goes_on():
    async with small(ring_chunks=4) as runtime:
        handle = runtime.spawn(new(), parrot)
        reader = handle.subscribe("all")
        await handle.ask("a b c d e f g h")
        published = (await handle.statistics()).published
        assert await anext(reader) == Lagged(published - 4)
        assert [await anext(reader) for _ in range(2)] == [TextDelta("g"), TextDelta("h")]


async def test_the_ring_is_bounded_in_bytes_and_keeps_the_newest_chunk():
    async with small(ring_bytes=1000) as runtime:
        handle = runtime.spawn(new(), parrot)
        await handle.ask(" ".join(["x" * 300] * 5))
        statistics = await handle.statistics()
        assert 1 <= statistics.kept <= 4

        async def big(agent):
            await agent.send(TextDelta("é" * 5000))
            await agent.receive()

        handle = runtime.spawn(new(), big)
        await wait_all_tasks_blocked()
        assert (await handle.statistics()).kept == 1
        assert await anext(handle.subscribe("all")) == TextDelta("é" * 5000)


async def test_a_reader_that_never_reads_costs_nothing_and_delays_nothing():
    async with small(ring_chunks=16) as runtime:
        handle = runtime.spawn(new(), parrot)
        async with handle.subscribe("all"):
            await handle.ask("word " * 500)
            statistics = await handle.statistics()
        assert (statistics.kept, statistics.subscribers) == (16, 1)
        assert statistics.largest_lag == statistics.published
        assert (await handle.statistics()).subscribers == 0


async def test_how_far_a_reader_lags_behind(runtime):
    handle = runtime.spawn(new(), parrot)
    quick, slow = handle.subscribe("all"), handle.subscribe("none")
    await handle.ask("a b")
    published = (await handle.statistics()).published
    assert quick.lag == slow.lag == published
    await anext(quick)
    assert (quick.lag, slow.lag) == (published - 1, published)
    await handle.shutdown()
    await read(quick)
    assert quick.lag == 0


async def test_statistics_count_what_an_agent_holds(runtime):
    async def child(agent):
        await agent.receive()

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                agent.spawn(new(), child)
                agent.context.on_abandon("a thread")
                await agent.send(ToolStart("call", "Bash", {}))
                with agent.budget(tokens=3):
                    await agent.request_permission("Bash", "run")

    handle = runtime.spawn(new(), agent_fn)
    assert await handle.statistics() == AgentStatistics(*[0] * 11, ())
    async with handle.subscribe():
        for text in ("taken", "waits", "waits too"):
            await handle.send_input(text)
        await wait_all_tasks_blocked()
        # Published: the turn's start, processing, the subagent, the tool, the request, waiting for
        # it.
        found = await handle.statistics()
        assert 500 <= found.kept_bytes <= 2000
        assert found == AgentStatistics(
            mailbox=2,
            published=6,
            kept=6,
            kept_bytes=found.kept_bytes,
            subscribers=1,
            largest_lag=6,
            pending=1,
            subagents=1,
            turns=1,
            open_tools=1,
            abandoned=1,
            budgets=({"tokens": 3},),
        )


async def test_send_lets_others_run_at_least_every_64_chunks(runtime):
    turns = 0

    async def other():
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async def talker(agent):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            for _ in range(6400):
                await agent.send(TextDelta("x"))
            nursery.cancel_scope.cancel()

    await runtime.spawn(new(), talker).wait(check=True)
    assert 99 <= turns <= 102


async def test_send_is_a_cancellation_point_and_its_twin_is_not(runtime):
    async def agent_fn(agent):
        with trio.CancelScope() as scope:
            scope.cancel()
            agent.send_nowait(TextDelta("kept"))
            await agent.send(TextDelta("not sent"))

    handle = runtime.spawn(new(), agent_fn)
    await handle.wait(check=True)
    assert words(await read(handle.subscribe("all"))) == "kept"


async def test_chunks_that_are_sent_together_reach_a_waiting_reader_together(runtime):
    async def agent_fn(agent):
        await agent.receive()
        agent.send_nowait(TextDelta("a"), TextDelta("b"), TextDelta("c"))
        with pytest.raises(TypeError, match="is not a chunk"):
            agent.send_nowait(TextDelta("not sent"), "nonsense")
        with pytest.raises(InvalidJSONError):
            agent.send_nowait(TextDelta("d"), Custom(5), TextDelta("not sent"))

    handle = runtime.spawn(new(), agent_fn)
    reader = handle.subscribe()
    taken = []
    async with trio.open_nursery() as nursery:

        async def take():
            while chunks := await reader.take():
                taken.append(words(chunks))

        nursery.start_soon(take)
        await trio.testing.wait_all_tasks_blocked()
        await handle.send_input("go")
        await handle.wait(check=True)
    assert list(filter(None, taken)) in (["a b c d"], ["a b c", "d"])


async def test_a_reader_of_a_full_ring_lets_others_run(runtime):
    async def talker(agent):
        for _ in range(1000):
            agent.send_nowait(TextDelta("x"))

    handle = runtime.spawn(new(), talker)
    await handle.wait()
    with trio.CancelScope() as scope:
        trio.lowlevel.spawn_system_task(_cancel, scope)
        await read(handle.subscribe("all"))
    assert scope.cancelled_caught


async def _cancel(scope):
    scope.cancel()


async def test_a_subagent_s_chunks_stand_wrapped_in_the_outputs_above(runtime):
    async def leaf(agent):
        await agent.send(TextDelta("leaf"))

    async def middle(agent):
        await agent.send(TextDelta("middle"))
        await agent.spawn(new(session_id="leaf"), leaf, name="l").wait()

    async def top(agent):
        await agent.spawn(new(session_id="middle"), middle, name="m").wait()

    handle = runtime.spawn(new(), top)
    await handle.wait(check=True)

    def wrapped(chunk):
        return SubAgentOutput("middle", chunk)

    chunks = await read(handle.subscribe("all"))
    assert chunks == [
        SubAgentSpawned("middle", "worker", "m"),
        wrapped(TextDelta("middle")),
        wrapped(SubAgentSpawned("leaf", "worker", "l")),
        wrapped(SubAgentOutput("leaf", TextDelta("leaf"))),
        wrapped(SubAgentOutput("leaf", StateChange(AgentState.done()))),
        wrapped(SubAgentOutput("leaf", Exited(EndStatus.COMPLETED))),
        wrapped(SubAgentComplete("leaf", EndStatus.COMPLETED)),
        wrapped(StateChange(AgentState.done())),
        wrapped(Exited(EndStatus.COMPLETED)),
        SubAgentComplete("middle", EndStatus.COMPLETED),
        StateChange(AgentState.done()),
        Exited(EndStatus.COMPLETED),
    ]


async def test_every_change_of_state_is_told_and_only_changes_are(runtime):
    states = [
        AgentState.processing(),
        AgentState.executing_tool("Bash"),
        AgentState.executing_tool("Read"),
        AgentState.waiting_for_permission(),
        AgentState.waiting_for_subagent("s-1"),
    ]

    async def agent_fn(agent):
        for state in states:
            agent.set_state(state)
            agent.set_state(state)
            assert agent.state == state
        with pytest.raises(TurnError):
            agent.set_state(AgentState.done())

    handle = runtime.spawn(new(), agent_fn)
    assert handle.state == AgentState.idle()
    await handle.wait(check=True)
    changes = await read(handle.subscribe("all"), StateChange)
    assert [change.state for change in changes] == [*states, AgentState.done()]


async def test_an_agent_that_waits_for_input_is_idle(runtime):
    async def agent_fn(agent):
        agent.set_state(AgentState.processing())
        await agent.receive()

    handle = runtime.spawn(new(), agent_fn)
    await wait_all_tasks_blocked()
    assert handle.state.kind is StateKind.IDLE


async def test_a_chunk_that_can_t_be_written_is_refused_and_leaves_no_trace(runtime):
    async def agent_fn(agent):
        with pytest.raises(InvalidJSONError):
            await agent.send(ToolStart("t1", "Bash", {"x": object()}))

    handle = runtime.spawn(new(), agent_fn)
    await handle.wait(check=True)
    assert await read(handle.subscribe("all"), ToolStart) == []


async def test_chunks_of_an_agent_s_own_go_where_all_go_and_keep_what_they_said(runtime):
    async def worker(agent):
        steps = {"done": 1}
        await agent.send(Custom("plan.step", steps, "one step is done"))
        steps["done"] = 2  # what was sent is no longer the agent's
        for nonsense in (Custom("plan.step", {"x": object()}), Custom(5), Custom("x", [])):
            with pytest.raises(InvalidJSONError):
                agent.send_nowait(nonsense)

    async def boss(agent):
        await agent.spawn(new(session_id="below"), worker).wait(check=True)

    handle = runtime.spawn(new(), boss)
    await handle.wait(check=True)
    [chunk] = [
        each.chunk
        for each in await read(handle.subscribe("all"), SubAgentOutput)
        if isinstance(each.chunk, Custom)
    ]
    assert chunk == Custom("plan.step", {"done": 1}, "one step is done")
    assert serde.loads(serde.encode(chunk)) == {
        "type": "custom",
        "kind": "plan.step",
        "data": {"done": 1},
        "text": "one step is done",
    }


async def test_progress_of_a_call_is_told_and_without_a_call_there_is_none(runtime):
    async def agent_fn(agent):
        agent.context.progress("of no call")
        agent.context.with_tool_use_id("t1").progress("half")

    handle = runtime.spawn(new(), agent_fn)
    await handle.wait(check=True)
    assert await read(handle.subscribe("all"), ToolProgress) == [ToolProgress("t1", "half")]


async def test_usage_adds_up_in_the_report_the_turn_and_the_handle(runtime):
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.send(UsageReport(Usage(10, 1), Usage(), "m"))
                assert agent.usage.input_tokens

    handle = runtime.spawn(new(), agent_fn)
    assert (await handle.ask("a")).usage == Usage(10, 1)
    assert (await handle.ask("b")).usage == Usage(10, 1)
    assert await handle.usage() == Usage(20, 2)
    await handle.shutdown()
    reports = await read(handle.subscribe("all"), UsageReport)
    assert [report.total for report in reports] == [Usage(10, 1), Usage(20, 2)]


async def test_partial_text_is_what_a_late_reader_missed_of_the_reply(runtime):
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                for word in ("one", " two"):
                    await agent.send(TextDelta(word))
                await trio.sleep_forever()

    handle = runtime.spawn(new(), agent_fn)
    await handle.send_input("go")
    await wait_all_tasks_blocked()
    assert await handle.partial_text() == "one two"
    await handle.interrupt()
    assert await handle.partial_text() == ""


async def test_partial_text_ends_with_its_block(runtime):
    async def agent_fn(agent):
        await agent.send(TextDelta("one"))
        await agent.send(TextComplete("one"))
        await agent.receive()

    handle = runtime.spawn(new(), agent_fn)
    await wait_all_tasks_blocked()
    assert await handle.partial_text() == ""


@given(st.integers(1, 10), st.lists(st.text(max_size=15), max_size=20))
def test_partial_text_keeps_the_end_within_its_limit(limit, deltas):
    partial = PartialText(limit)
    for delta in deltas:
        partial.add(delta)
    assert str(partial) == "".join(deltas)[-limit:]


@given(
    st.integers(1, 6),
    st.integers(1, 700),
    st.lists(st.one_of(st.text(max_size=60), st.integers(0, 2)), max_size=60),
)
def test_a_ring_behaves_as_a_list_that_forgets_its_beginning(max_chunks, max_bytes, script):
    """Publish the texts; at each number, a reader of that number reads one chunk."""
    kinds = (TextDelta, ThinkingDelta, lambda text: ToolProgress("t", text))

    async def main():
        ring = OutputRing(max_chunks, max_bytes)
        model, cursors = [], [0, 0, 0]
        for step in script:
            if isinstance(step, str):
                chunk = kinds[len(step) % 3](step)
                ring.append(chunk)
                model.append(chunk)
            elif cursors[step] < len(model):
                assert await ring.wait_for(cursors[step])
                cursors[step] = max(cursors[step], ring.first)
                assert ring.chunks[cursors[step]] == model[cursors[step]]
                cursors[step] += 1
            assert (ring.next, ring.next - ring.first) == (len(model), len(ring))
            assert len(ring) <= max_chunks
            assert ring.first < ring.next or not model
        ring.close()
        assert [ring.chunks[n] for n in range(ring.first, ring.next)] == model[ring.first :]
        assert not await ring.wait_for(ring.next)

    trio.run(main)


async def test_a_stream_is_one_turn_of_the_input_that_was_meant(runtime):
    handle = runtime.spawn(new(), parrot)
    receipts = [await handle.send_input(text) for text in ("one", "two", "three")]
    second = [chunk async for chunk in handle.stream(receipts[1])]
    assert (words(second), second[0].input_id) == ("two", receipts[1].input_id)
    id_ = receipts[1].input_id
    assert second[-1] == Done(id_, TurnStatus.COMPLETED, inputs=(id_,))
    # A turn that has ended can still be read.
    assert words([chunk async for chunk in handle.stream(receipts[2])]) == "three"
    assert words([chunk async for chunk in handle.stream(receipts[0])]) == "one"


async def test_a_stream_without_a_receipt_is_the_turn_in_hand_else_the_next(runtime):
    gate = trio.Event()

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.send(TextDelta(message.text))
                await gate.wait()

    handle = runtime.spawn(new(), agent_fn)
    coming = handle.stream()
    await handle.send_input("one")
    await wait_all_tasks_blocked()
    in_hand = handle.stream()
    gate.set()
    await handle.ask("two")
    assert words([chunk async for chunk in coming]) == "one"
    assert words([chunk async for chunk in in_hand]) == "one"
    later = handle.stream()
    await handle.ask("three")
    assert words([chunk async for chunk in later]) == "three"
    with pytest.raises(StopAsyncIteration):
        await anext(later)


async def test_a_stream_of_a_turn_whose_beginning_is_gone_still_ends_with_it():
    gate = trio.Event()

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                for n in range(10):
                    await agent.send(TextDelta(str(n)))
                await gate.wait()

    async with small(ring_chunks=3) as runtime:
        handle = runtime.spawn(new(), agent_fn)
        receipt = await handle.send_input("go")
        await wait_all_tasks_blocked()
        streams = [handle.stream(), handle.stream(receipt)]
        gate.set()
        for stream in streams:
            chunks = [chunk async for chunk in stream]
            assert isinstance(chunks[0], Lagged)
            assert chunks[-1] == Done(receipt.input_id, inputs=(receipt.input_id,))


async def test_a_stream_ends_with_the_agent(runtime):
    handle = runtime.spawn(new(), parrot)
    stream = handle.stream()
    await handle.shutdown()
    assert [chunk async for chunk in stream] == [Exited(EndStatus.COMPLETED)]


async def test_a_stream_of_an_older_turn_can_be_read_while_another_is_in_hand(runtime):
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.send(TextDelta(message.text))
                if message.text == "hang":
                    await trio.sleep_forever()

    handle = runtime.spawn(new(), agent_fn)
    first = await handle.send_input("first")
    hang = await handle.send_input("hang")
    queued = await handle.send_input("queued")
    await wait_all_tasks_blocked()
    assert words([chunk async for chunk in handle.stream(first)]) == "first"
    stream = handle.stream(queued)
    await handle.interrupt()
    assert words([chunk async for chunk in stream]) == "queued"
    assert words([chunk async for chunk in handle.stream(hang)]) == "hang"


async def test_a_stream_of_a_turn_that_is_forgotten_or_never_was_ends_at_once():
    async def agent_fn(agent):
        await agent.receive()
        await parrot(agent)

    async with small(ring_chunks=4) as runtime:
        handle = runtime.spawn(new(), agent_fn)
        without_turn = await handle.send_input("ignored")
        forgotten = await handle.send_input("old")
        taken = handle.stream(forgotten)
        for text in ("newer", "newest"):
            await handle.ask(text)
        for receipt in (without_turn, forgotten):
            assert [chunk async for chunk in handle.stream(receipt)] == []
        await handle.shutdown()
        assert isinstance([chunk async for chunk in taken][-1], Exited)


async def test_a_stream_of_a_message_that_is_taken_and_in_no_turn_yet_waits_for_it(runtime):
    async def agent_fn(agent):
        message = await agent.receive()
        await trio.sleep(1)
        async with agent.turn(message):
            await agent.send(TextDelta("here"))

    handle = runtime.spawn(new(), agent_fn)
    receipt = await handle.send_input("go")
    await wait_all_tasks_blocked()
    assert words([chunk async for chunk in handle.stream(receipt)]) == "here"


async def test_what_is_no_receipt_is_refused_with_where_one_comes_from(runtime):
    async def idle(agent):
        await trio.sleep_forever()

    handle = runtime.spawn(new(), idle)
    with pytest.raises(TypeError, match=r"'hi' is not a receipt: write `receipt = await handle"):
        handle.stream("hi")
