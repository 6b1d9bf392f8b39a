"""`Agent.stream`: what a reader sees, and that nothing goes on once its block is left."""

import pytest
import trio

from greenroom import (
    Agent,
    AgentRuntime,
    Done,
    InMemoryStore,
    TextDelta,
    ToolEnd,
    ToolStart,
    TurnStart,
)
from greenroom.core import TurnError
from greenroom.testing import Reply, ScriptedProvider, call

SECONDS = 60


def look() -> str:
    """Look."""
    return "rain"


def agent(*script, **options):
    return Agent(ScriptedProvider(*script), tools=[look], **options)


async def test_it_gives_the_chunks_of_the_turn():
    async with agent(call("look"), "It rains.").stream("Look!") as run:
        chunks = [chunk async for chunk in run]
        result = run.result
    assert isinstance(chunks[0], TurnStart)
    assert isinstance(chunks[-1], Done)
    assert chunks[-1].value == result.output == "It rains."
    assert any(isinstance(chunk, ToolEnd) for chunk in chunks)
    assert run.result == result


async def test_its_text_is_that_of_all_replies():
    script = [*Reply("Wait. ").message("", "").content, call("look")], "It rains."
    async with agent(*script).stream("Look!") as run:
        assert "".join([piece async for piece in run.text()]) == "Wait. It rains."


async def test_there_is_no_result_while_it_goes_on():
    async with agent("Hi").stream("Hi") as run:
        with pytest.raises(TurnError, match="has not ended"):
            _ = run.result


@pytest.mark.parametrize("how", ["break", "raise", "cancel", "at once"])
@pytest.mark.parametrize("is_own", [True, False])
async def test_leaving_early_leaves_nothing_running(how, is_own):
    ended = trio.Event()

    async def wait_forever() -> str:
        """Wait."""
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    model = ScriptedProvider(call("wait_forever"))
    bot = Agent(model, tools=[wait_forever])
    with trio.fail_after(SECONDS):
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            with trio.CancelScope() as scope:
                try:
                    async with bot.stream("Go", runtime=None if is_own else runtime) as run:
                        while how != "at once":
                            if isinstance(await anext(run), ToolStart):
                                break
                        if how == "raise":
                            raise ZeroDivisionError
                        if how == "cancel":
                            scope.cancel()
                            await trio.lowlevel.checkpoint()
                except ZeroDivisionError:
                    assert how == "raise"
            assert not runtime.list_active()
            assert run.result.status == "interrupted"
            calls = [m.tool_uses for m in run.result.messages]
            answers = [m.tool_results for m in run.result.messages]
            assert sum(map(len, calls)) == sum(map(len, answers))
            assert ended.is_set() is bool(sum(map(len, calls)))


async def test_a_turn_that_is_left_is_given_no_time_to_go_on(autojump_clock):
    ran = []

    async def send() -> str:
        """Send something off, in a while."""
        await trio.sleep(1)
        ran.append("sent")
        return "sent"

    async with Agent(ScriptedProvider(call("send")), tools=[send]).stream("Go") as run:
        while not isinstance(await anext(run), ToolStart):
            pass
    assert not ran


async def test_a_reader_that_is_slow_gets_a_whole_result():
    text = "x" * 50_000
    script = [call("look") for _ in range(5)], text  # five times the same, but in one reply
    async with agent(*script).stream("Look!") as run:
        async with run.handle.subscribe() as chunks:
            async for chunk in chunks:
                if isinstance(chunk, Done):
                    break
        pieces = [chunk.text async for chunk in run if isinstance(chunk, TextDelta)]
    assert run.result.output == text
    assert run.result.steps == 2
    assert pieces


async def test_a_reader_in_another_task_does_not_stand_in_the_way_of_the_result():
    began = trio.Event()

    async def read(run):
        async for _ in run:
            began.set()

    with trio.fail_after(SECONDS):
        async with trio.open_nursery() as nursery:
            async with agent(Reply("It", hangs=True)).stream("Go") as run:
                nursery.start_soon(read, run)
                await began.wait()
    assert run.result.status == "interrupted"
