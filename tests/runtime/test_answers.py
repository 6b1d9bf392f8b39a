"""Inputs by their ids: what a session has taken, and what the turn that took one has answered."""

import pytest
import trio
from hypothesis import given, strategies as st
from trio.testing import wait_all_tasks_blocked

from greenroom.core import Done, Message, SelfWaitError, TurnError, TurnStatus
from greenroom.runtime import AgentNotRunningError, AgentRuntime
from greenroom.runtime.results import MOST_KEPT
from greenroom.session import AgentSession, InMemoryStore


async def echo(agent, *, steer=False):
    async for message in agent.inputs():
        async with agent.turn(message, steer=steer) as turn:
            await trio.sleep(1)
            await agent.step()
            agent.session.add_message(Message.assistant(f"you said {message.text}"))
            turn.set_result({"said": [message.text]})


def spawn(runtime, function=echo, **options):
    async def agent_fn(agent):
        await function(agent, **options)

    return runtime.spawn(AgentSession.new("echo"), agent_fn)


async def test_the_answer_to_a_receipt_is_there_before_and_after_the_end_of_its_turn(runtime):
    handle = spawn(runtime)
    receipts = [await handle.send_input(text) for text in "abc"]
    results = {}

    async def wait(receipt):
        results.setdefault(receipt.input_id, []).append(await handle.answer(receipt))

    async with trio.open_nursery() as nursery:
        for receipt in receipts * 2:
            nursery.start_soon(wait, receipt)
    await handle.shutdown()
    for receipt, text in zip(receipts, "abc", strict=True):
        again = await handle.answer(receipt.input_id)
        assert [each.text for each in results[receipt.input_id]] == [f"you said {text}"] * 2
        assert [*results[receipt.input_id], again] == [again] * 3


async def test_a_reader_of_an_answer_can_not_change_it_for_another_one(runtime):
    handle = spawn(runtime)
    receipt = await handle.send_input("a")
    with pytest.raises(TypeError, match="frozen"):
        (await handle.answer(receipt)).value["said"].clear()
    assert (await handle.answer(receipt)).value == {"said": ["a"]}


async def test_an_ask_takes_an_id_and_its_answer_stays(runtime):
    handle = spawn(runtime)
    result = await handle.ask("a", id="mine")
    assert await handle.answer("mine") == result
    with pytest.raises(ValueError, match="'mine' was sent"):
        await handle.ask("a", id="mine")


async def test_an_answer_and_an_ask_may_wait_for_the_same_input(runtime):
    handle = spawn(runtime)
    results = []

    async def ask():
        results.append(await handle.ask("a", id="mine"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await wait_all_tasks_blocked(0.1)
        results.append(await handle.answer("mine"))
    assert results[0] == results[1]


async def test_who_gives_up_waiting_changes_nothing(runtime):
    handle = spawn(runtime)
    receipt = await handle.send_input("a")
    with trio.move_on_after(0.5) as scope:
        await handle.answer(receipt)
    assert scope.cancelled_caught
    assert (await handle.answer(receipt)).status is TurnStatus.COMPLETED


async def test_done_names_all_inputs_that_its_turn_took(runtime):
    handle = spawn(runtime, steer=True)
    first = await handle.send_input("a")
    await wait_all_tasks_blocked(0.1)
    second = await handle.send_input("b")
    third = await handle.send_input("c")
    assert await handle.answer(third) == await handle.answer(second) == await handle.answer(first)
    await handle.shutdown()
    (done,) = [each async for each in handle.subscribe("all") if isinstance(each, Done)]
    assert done.inputs == (first.input_id, second.input_id, third.input_id)


async def test_the_newest_results_are_kept(runtime):
    async def quick(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                pass

    handle = spawn(runtime, quick)
    for number in range(MOST_KEPT + 1):
        await handle.ask("hi", id=f"n{number}")
    assert (await handle.answer("n1")).status is TurnStatus.COMPLETED
    with pytest.raises(TurnError, match="'n0'") as caught:
        await handle.answer("n0")
    assert str(MOST_KEPT) in caught.value.hint


async def test_an_input_without_a_turn_or_an_agent_has_no_answer(runtime):
    async def drop(agent):
        await anext(agent.inputs())
        await trio.sleep(1)
        await anext(agent.inputs())

    handle = spawn(runtime, drop)
    first, second = [await handle.send_input(text) for text in "ab"]
    with pytest.raises(TurnError, match="opened no turn"):
        await handle.answer(first)
    await handle.wait()
    with pytest.raises(AgentNotRunningError):
        await handle.answer(second)


async def test_a_withdrawn_input_was_interrupted(runtime):
    handle = spawn(runtime)
    await handle.send_input("a")
    receipt = await handle.send_input("b")
    assert await handle.withdraw_inputs(receipt.input_id)
    assert (await handle.answer(receipt)).status is TurnStatus.INTERRUPTED


async def test_an_agent_does_not_wait_for_its_own_answer(runtime):
    seen = []

    async def asks_itself(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                with pytest.raises(SelfWaitError):
                    await handle.answer(message.id)
                seen.append(message.id)

    handle = spawn(runtime, asks_itself)
    await handle.ask("a", id="mine")
    assert seen == ["mine"]


async def test_agents_do_not_wait_for_each_other_s_answers_in_a_circle(runtime):
    raised = []

    async def first(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await handles[1].ask("b")

    async def second(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                try:
                    await handles[0].answer("mine")
                except SelfWaitError as error:
                    raised.append(str(error))

    handles = [spawn(runtime, first), spawn(runtime, second)]
    await handles[0].ask("a", id="mine")
    assert len(raised) == 1
    assert "circle" in raised[0]


@given(st.lists(st.sampled_from(["input", "compact", "rewrite", "rewind", "reload"]), max_size=12))
def test_an_input_is_taken_once_whatever_becomes_of_its_message(steps):
    async def main():
        store, sent = InMemoryStore(), []
        session = AgentSession.new("echo", store=store)
        for number, step in enumerate(["input", *steps]):
            match step:
                case "input":
                    sent.append(f"i{number}")
                    session.add_message(Message.user("hi", id=sent[-1]))
                    session.add_message(Message.assistant("hello"))
                case "compact" if session.history:
                    await session.compact("before", keep=0)
                case "rewrite":
                    await session.rewrite(session.history[-1:])
                case "rewind":
                    await session.rewind(len(session.history) // 2)
                case _:
                    await session.save()
                    session = await AgentSession.load(session.session_id, store=store)
            assert all(map(session.has_input, sent))
            assert not session.has_input("i-other")
        async with AgentRuntime(store=store) as runtime:
            handle = runtime.spawn(session, echo)
            for each in sent:
                with pytest.raises(ValueError, match="was sent to this agent before"):
                    await handle.send_input("again", id=each)
            handle.kill()

    trio.run(main)
