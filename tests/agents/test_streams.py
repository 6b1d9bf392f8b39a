"""Streams made of streams: filtered, mapped, merged; they read, start nothing and leave nothing."""

import pytest
import trio
from hypothesis import given, strategies as st
from trio.testing import wait_all_tasks_blocked

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    Done,
    InMemoryStore,
    Lagged,
    RuntimeLimits,
    TextComplete,
    TextDelta,
    ToolStart,
    TurnStart,
)
from greenroom.agents import mapped, merged, only, stream_events, texts, windowed
from greenroom.core import Custom
from greenroom.flow import pipeline
from greenroom.llm import ModelStreamError
from greenroom.resilience import Budget
from greenroom.testing import Scenario, ScriptedProvider, call, cancel_at_every_checkpoint
from tests.conftest import few

SECONDS = 60


class Items:
    """An iterator over these; then an error, or the end."""

    def __init__(self, *values, error=None):
        self.values, self.error = iter(values), error or StopAsyncIteration()

    def __aiter__(self):
        return self

    async def __anext__(self):
        await trio.lowlevel.checkpoint()
        for value in self.values:
            return value
        raise self.error


async def collect(stream):
    return [item async for item in stream]


async def test_only_gives_the_kinds_that_are_named():
    chunks = [TurnStart("1"), TextDelta("a"), TextComplete("a"), Done("1")]
    assert await collect(only(Items(*chunks), TextDelta, Done)) == [TextDelta("a"), Done("1")]
    assert await collect(only(Items(*chunks), ToolStart)) == []


async def test_texts_are_the_pieces_even_empty_ones():
    assert await collect(texts(Items(TextDelta("a"), Done("1"), TextDelta("")))) == ["a", ""]


@pytest.mark.parametrize(
    ("chunks", "pieces"),
    [
        ([TextComplete("ab")], ["ab"]),
        ([TextDelta("a"), TextDelta("b"), TextComplete("ab")], ["a", "b"]),
        ([TextDelta("a"), TextComplete("a"), TextComplete("b")], ["a", "b"]),
        ([TextDelta("a"), TextDelta("b"), TextComplete("a"), TextComplete("b")], ["a", "b"]),
        ([TextDelta("a"), TurnStart("1"), TextComplete("a")], ["a"]),
        ([TextDelta("a"), TextComplete("ab"), TextComplete("")], ["a"]),
    ],
)
async def test_a_text_that_came_in_no_pieces_is_one_piece(chunks, pieces):
    assert await collect(texts(Items(*chunks))) == pieces
    events = await collect(stream_events(Items(*chunks)))
    assert [event.data["text"] for event in events] == pieces


async def test_pieces_that_were_taken_back_do_not_count_for_the_next_text():
    again = Custom("reply.restarted", {}, "it starts over")
    items = Items(TextDelta("half"), again, TextDelta("a"), TextComplete("a"), TextComplete("b"))
    events = await collect(stream_events(items))
    assert [each.data["text"] for each in events if each.type == "token"] == ["half", "a", "b"]


async def test_the_text_of_a_team_is_its_answer():
    team = pipeline(Agent(ScriptedProvider("One.")), Agent(ScriptedProvider("Two.")))
    async with team.stream("Count.") as run:
        assert await collect(run.text()) == ["Two."]


async def test_texts_end_with_an_error_where_pieces_are_taken_back_and_only_there():
    again = Custom("reply.restarted", {}, "it starts over")
    taken = [TextDelta("a"), ToolStart("1", "t", {}), again, TextDelta("b"), Done("1")]
    assert await collect(texts(Items(*taken))) == ["a", "b"]
    pieces = texts(Items(TextDelta("half a"), again, TextDelta("whole")))
    assert await anext(pieces) == "half a"
    with pytest.raises(ModelStreamError, match="starts over"):
        await anext(pieces)


@pytest.mark.parametrize("kinds", [(), ("text_delta",), (TextDelta("a"),)])
def test_only_wants_classes(kinds):
    with pytest.raises(TypeError, match="ToolEnd"):
        only(Items(), *kinds)


async def test_mapped_leaves_out_what_is_none_alone():
    assert await collect(mapped(Items(0, 1, 2), lambda n: n if n != 1 else None)) == [0, 2]


@given(st.lists(st.integers()), st.integers(1, 5))
def test_a_window_has_the_last_items_and_none_waits_for_another(items, size):
    read = []

    def note():
        for item in items:
            read.append(item)
            yield item

    async def slide():
        windows = 0
        stream = Items()
        stream.values = note()
        async for window in windowed(stream, size):
            windows += 1
            assert (len(read), window) == (windows, tuple(read[-size:]))
        assert windows == len(items)

    trio.run(slide)


def test_a_window_has_room_for_an_item():
    with pytest.raises(ValueError, match="0 items"):
        windowed(Items(), 0)


async def test_what_was_read_by_one_is_not_read_by_the_next():
    stream = Items(TextDelta("a"), TextDelta("b"))
    assert await anext(texts(stream)) == "a"
    assert await collect(texts(stream)) == ["b"]
    with pytest.raises(StopAsyncIteration):
        await anext(texts(stream))


async def test_an_agent_runs_once_however_many_read_it():
    llm = ScriptedProvider("Hi")
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("ann"), Agent(llm))
        receipt = await handle.send_input("Hello")
        for _ in range(3):
            assert await collect(texts(handle.stream(receipt))) == ["Hi"]
        async with merged(handle.stream(receipt), handle.stream(receipt)) as chunks:
            assert await collect(texts(chunks)) == ["Hi", "Hi"]
    assert len(llm.requests) == 1


@given(st.lists(st.lists(st.integers(), max_size=8), max_size=5))
def test_merged_keeps_every_item_and_the_order_within_each_stream(streams):
    async def main():
        named = [[(index, value) for value in each] for index, each in enumerate(streams)]
        async with merged(*(Items(*each) for each in named)) as both:
            found = await collect(both)
        for index, each in enumerate(named):
            assert [item for item in found if item[0] == index] == each
        assert len(found) == sum(map(len, named))

    trio.run(main)


async def test_merged_gives_what_comes_first(autojump_clock):
    async def slowly(name, seconds):
        for number in range(3):
            await trio.sleep(seconds)
            yield f"{name}{number}"

    async with merged(slowly("a", 2), slowly("b", 3.5)) as both:
        assert await collect(both) == ["a0", "b0", "a1", "a2", "b1", "b2"]


async def test_merged_fetches_at_most_one_item_of_each_ahead():
    fetched = []

    class Endless:
        def __init__(self, name):
            self.name = name

        def __aiter__(self):
            return self

        async def __anext__(self):
            await trio.lowlevel.checkpoint()
            fetched.append(self.name)
            return self.name

    async with merged(Endless("a"), Endless("b")) as both:
        await wait_all_tasks_blocked()
        assert sorted(fetched) == ["a", "b"]
        await anext(both)
        await wait_all_tasks_blocked()
        assert len(fetched) == 3


async def test_leaving_the_block_stops_reading_and_leaves_no_task():
    async def silent():
        await trio.sleep_forever()
        yield None

    before = trio.lowlevel.current_statistics().tasks_living
    with trio.fail_after(SECONDS):
        async with merged(silent(), Items(1)) as both:
            assert await anext(both) == 1
    assert trio.lowlevel.current_statistics().tasks_living == before
    with pytest.raises(trio.ClosedResourceError):
        await anext(both)


@pytest.mark.parametrize("others", [0, 1])
async def test_an_error_of_a_stream_comes_out_as_it_is_and_is_never_taken_for_an_end(others):
    for _ in range(20):  # the order in which tasks run is random
        problem = KeyError("broken")
        with pytest.raises(KeyError) as caught:  # noqa: PT012 (where it comes out is what is tested)
            async with merged(Items(1, error=problem), *(Items(2) for _ in range(others))) as both:
                await collect(both)
                pytest.fail("the block goes on")
        assert caught.value is problem


async def test_an_error_of_the_block_comes_out_as_it_is():
    problem = ValueError("a bug")
    with pytest.raises(ValueError, match="a bug") as caught:
        async with merged(Items(1)):
            raise problem
    assert caught.value is problem
    group = ExceptionGroup("two", [KeyError("a"), ValueError("b")])
    with pytest.raises(ExceptionGroup, match="two") as caught:
        async with merged(Items(1)):
            raise group
    assert caught.value.exceptions == group.exceptions


async def test_a_cancel_goes_through_it(autojump_clock):
    with trio.move_on_after(1) as scope:
        async with merged(Items(1), Items(2)) as both:
            await collect(both)
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_a_slow_reader_of_merged_subscriptions_is_told_what_it_missed():
    long = "a " * 400
    limits = RuntimeLimits(ring_chunks=8)
    async with AgentRuntime(store=InMemoryStore(), limits=limits) as runtime:
        handles = [
            runtime.spawn(AgentSession.new("ann"), Agent(ScriptedProvider(long))) for _ in range(2)
        ]
        async with handles[0].subscribe() as a, handles[1].subscribe() as b, merged(a, b) as chunks:
            for handle in handles:  # the agents do not wait for the reader
                assert (await handle.ask("go")).text == long
            await wait_all_tasks_blocked()
            found = []
            async for chunk in chunks:
                found.append(chunk)
                if sum(isinstance(each, Done) for each in found) == 2:
                    break
    assert sum(isinstance(chunk, Lagged) for chunk in found) >= 2


def answer(request):
    """One call for whatever is said, then an end."""
    return "done" if request.messages[-1].tool_results else call("gather")


def test_wherever_a_cancel_strikes_nothing_of_a_merge_is_left():
    async def gather() -> str:
        """Ask both."""
        one, two = (Agent(ScriptedProvider(name), name=name) for name in "ab")
        async with one.stream("go") as a, two.stream("go") as b, merged(a, b) as chunks:
            return " ".join(sorted(await collect(texts(chunks))))

    def scenario():
        return Scenario(Agent(ScriptedProvider(*[answer] * 50), tools=[gather]), inputs="go")

    report = cancel_at_every_checkpoint(scenario, at_most=few(24))
    assert sum(report.cancels.values()) > few(12)


async def test_a_tool_may_merge_what_agents_say_under_a_budget_of_one_call_at_a_time():
    def look() -> str:
        """Look."""
        return "seen"

    workers = [Agent(ScriptedProvider(call("look"), name), tools=[look]) for name in "ab"]

    async def gather() -> str:
        """Ask both."""
        async with (
            workers[0].stream("go") as one,
            workers[1].stream("go") as two,
            merged(one, two) as chunks,
        ):
            return " ".join(sorted(await collect(texts(chunks))))

    agent = Agent(ScriptedProvider(call("gather"), "done"), tools=[gather])
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        budget = Budget(concurrency=1)
        handle = runtime.spawn(AgentSession.new("root"), agent, budget=budget)
        with trio.fail_after(SECONDS):
            assert (await handle.ask("go")).text == "done"
        assert (await handle.history())[2].tool_results[0].text == "a b"
