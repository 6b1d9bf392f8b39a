"""Steering: input that arrives during a turn joins it at the next step."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.core import (
    Done,
    Message,
    TextDelta,
    ToolResultBlock,
    ToolUseBlock,
    TurnStart,
    TurnStatus,
)
from greenroom.llm import ModelError
from greenroom.session import AgentSession


def new():
    return AgentSession.new("worker")


def steerable(body):
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message, steer=True):
                await body(agent)

    return agent_fn


async def steps(agent):
    """Take two steps of one second each, and answer with what is in the history."""
    for _ in range(2):
        await agent.step()
        await agent.send(TextDelta("step"))
        await trio.sleep(1)
    texts = [message.text for message in agent.session.history if message.role == "user"]
    agent.session.add_message(Message.assistant(" ".join(texts)))


async def started(runtime, agent_fn):
    handle = runtime.spawn(new(), agent_fn)
    receipt = await handle.send_input("first")
    await wait_all_tasks_blocked()
    return handle, receipt


async def test_input_during_the_turn_joins_at_the_next_step(runtime):
    handle, first = await started(runtime, steerable(steps))
    receipt = await handle.send_input("second")
    assert (first.status, receipt.status) == ("queued", "steered")
    assert [message.text for message in await handle.history()] == ["first"]
    await trio.sleep(1)
    await wait_all_tasks_blocked()
    assert [message.text for message in await handle.history()] == ["first", "second"]


async def test_ask_gets_the_result_of_the_turn_that_it_joined(runtime):
    handle, _ = await started(runtime, steerable(steps))
    result = await handle.ask("second")
    assert (result.status, result.text) == (TurnStatus.COMPLETED, "first second")
    assert (await handle.statistics()).turns == 1


async def test_input_after_the_last_step_gets_a_turn_of_its_own(runtime):
    handle, _ = await started(runtime, steerable(steps))
    await trio.sleep(1.5)
    receipt = await handle.send_input("late")
    assert receipt.status == "steered"
    result = [chunk async for chunk in handle.stream(receipt)]
    # First the rest of the open turn, then its own.
    assert [c.input_id for c in result if isinstance(c, Done)][-1] == receipt.input_id
    assert (await handle.statistics()).turns == 2
    history = [message.text for message in await handle.history()]
    assert history == ["first", "first", "late", "first late"]


async def test_a_stream_of_steered_input_is_the_turn_that_it_joined(runtime):
    handle, first = await started(runtime, steerable(steps))
    receipt = handle.send_input_nowait("second")
    chunks = [chunk async for chunk in handle.stream(receipt)]
    assert (chunks[0], chunks[-1].input_id) == (
        TurnStart(first.input_id, text="first"),
        first.input_id,
    )
    # Also when it is read after its end.
    assert [chunk async for chunk in handle.stream(receipt)] == chunks


@pytest.mark.parametrize("how", ["interrupt", "fail"])
async def test_a_turn_that_ends_otherwise_leaves_the_input_to_the_next(runtime, how):
    async def body(agent):
        await agent.step()
        if agent.session.history[-1].text == "first":
            await trio.sleep(1)
            if how == "fail":
                raise ModelError("down")
            await trio.sleep_forever()

    handle, _ = await started(runtime, steerable(body))
    receipts = [await handle.send_input(text) for text in ("second", "third")]
    await trio.sleep(1)
    await handle.interrupt()
    await wait_all_tasks_blocked()
    assert [receipt.status for receipt in receipts] == ["steered"] * 2
    assert [message.text for message in await handle.history()] == ["first", "second", "third"]
    chunks = handle.subscribe("all")
    await handle.shutdown()
    starts = [chunk.input_id async for chunk in chunks if isinstance(chunk, TurnStart)]
    # The third joined the second's turn at its first step.
    assert starts[1:] == [receipts[0].input_id]


async def test_input_is_not_put_between_a_call_and_its_result(runtime):
    async def body(agent):
        agent.session.add_message(Message.assistant([ToolUseBlock("t1", "Read")]))
        await trio.sleep(1)
        await agent.step()
        agent.session.add_message(Message.user([ToolResultBlock("t1")]))
        await agent.step()

    handle, _ = await started(runtime, steerable(body))
    assert (await handle.ask("second")).status is TurnStatus.COMPLETED
    kinds = [(message.role, bool(message.tool_results)) for message in await handle.history()]
    assert kinds == [("user", False), ("assistant", False), ("user", True), ("user", False)]


async def test_once_an_interrupt_is_ordered_input_waits_for_the_next_turn(runtime):
    handle, _ = await started(runtime, steerable(steps))
    handle.interrupt_nowait("after_step")
    assert (await handle.send_input("second")).status == "queued"
    await trio.sleep(1)
    await wait_all_tasks_blocked()
    assert (await handle.statistics()).turns == 2


async def test_at_a_shutdown_what_has_not_joined_is_reported(runtime):
    handle, _ = await started(runtime, steerable(steps))
    await handle.send_input("second")
    await handle.shutdown()
    outcome = await handle.wait()
    assert [message.text for message in outcome.undelivered] == ["second"]


async def test_a_turn_is_not_steered_unless_it_says_so(runtime):
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await steps(agent)

    handle, _ = await started(runtime, agent_fn)
    assert (await handle.send_input("second")).status == "queued"


def plain(body):
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await body(agent)

    return agent_fn


async def test_one_queued_input_joins_the_turn_and_the_others_keep_their_places(runtime):
    handle, _ = await started(runtime, plain(steps))
    before, chosen = await handle.send_input("before"), await handle.send_input("chosen")
    assert await handle.steer_input(chosen.input_id)
    assert (await handle.answer(chosen)).text == "first chosen"
    assert (await handle.answer(before)).text == "first chosen before"
    assert (await handle.statistics()).turns == 2


async def test_an_input_that_was_to_join_and_found_no_step_gets_a_turn_of_its_own(runtime):
    handle, _ = await started(runtime, plain(steps))
    await trio.sleep(1.5)
    late = await handle.send_input("late")
    assert await handle.steer_input(late.input_id)
    assert (await handle.answer(late)).text == "first late"
    assert (await handle.statistics()).turns == 2


async def test_nothing_joins_that_does_not_wait_or_where_no_turn_is_open(runtime):
    handle, first = await started(runtime, plain(steps))
    assert not await handle.steer_input(first.input_id)
    assert not await handle.steer_input("unknown")
    second = await handle.send_input("second")
    await handle.withdraw_inputs(second.input_id)
    assert not await handle.steer_input(second.input_id)
    await handle.answer(first)
    assert not await handle.steer_input(first.input_id)
