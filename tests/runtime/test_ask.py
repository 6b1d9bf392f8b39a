"""`ask`: the result of the turn that took this very input."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.core import Message, StopReason, TextDelta, TurnStatus
from greenroom.core._internal import EndStatus
from greenroom.llm import ModelError
from greenroom.runtime import AgentNotRunningError
from greenroom.session import AgentSession


def new():
    return AgentSession.new("worker")


async def echo(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            await trio.sleep(1)
            agent.session.add_message(
                Message(
                    "assistant",
                    Message.user(f"re {message.text}").content,
                    stop_reason=StopReason.END_TURN,
                )
            )


async def test_each_ask_gets_the_result_of_its_own_input(runtime):
    results = {}

    async def ask(text):
        results[text] = await handle.ask(text)

    handle = runtime.spawn(new(), echo)
    async with trio.open_nursery() as nursery:
        await handle.send_input("before")
        for text in ("a", "b", "c"):
            nursery.start_soon(ask, text)
    assert {text: result.text for text, result in results.items()} == {
        "a": "re a",
        "b": "re b",
        "c": "re c",
    }
    assert results["a"].stop_reason is StopReason.END_TURN


async def test_a_turn_without_a_reply_has_no_text(runtime):
    async def silent(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                pass

    handle = runtime.spawn(new(), silent)
    result = await handle.ask("a")
    assert (result.text, result.stop_reason, result.error) == ("", None, "")


async def test_cancelling_ask_does_not_cancel_the_turn(runtime):
    handle = runtime.spawn(new(), echo)
    with trio.move_on_after(0.5) as scope:
        await handle.ask("a")
    assert scope.cancelled_caught
    assert (await handle.ask("b")).status is TurnStatus.COMPLETED
    assert [message.text for message in await handle.history()] == ["a", "re a", "b", "re b"]


async def test_an_agent_that_ends_before_the_answer_raises_with_its_outcome(runtime):
    async def leaves(agent):
        await agent.receive()
        await trio.sleep(1)
        raise ValueError("gone")

    handle = runtime.spawn(new(), leaves)
    errors = []

    async def ask(text):
        with pytest.raises(AgentNotRunningError) as error:
            await handle.ask(text)
        errors.append(error.value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "a")
        nursery.start_soon(ask, "b")
    assert [error.outcome.status for error in errors] == [EndStatus.CRASHED] * 2
    assert [message.text for message in errors[0].outcome.undelivered] in (["a"], ["b"])


async def test_asking_an_agent_that_is_shutting_down_is_refused(runtime):
    handle = runtime.spawn(new(), echo)
    await handle.send_input("a")
    await wait_all_tasks_blocked()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(handle.shutdown)
        await wait_all_tasks_blocked()
        with pytest.raises(AgentNotRunningError):
            await handle.ask("b")


async def test_done_comes_after_the_save_and_after_the_state(runtime, store):
    handle = runtime.spawn(new(), echo)
    result = await handle.ask("a")
    assert result.status is TurnStatus.COMPLETED
    assert str(handle.state) == "idle"
    stored = await AgentSession.load(handle.session_id, store=store)
    assert [message.text for message in stored.history] == ["a", "re a"]


async def test_an_interrupted_turn_has_the_text_that_it_kept(runtime):
    async def partial(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await agent.send(TextDelta("half"))
                agent.session.add_message(Message.assistant("half"))
                await trio.sleep_forever()

    handle = runtime.spawn(new(), partial)
    async with trio.open_nursery() as nursery:

        async def ask():
            result = await handle.ask("a")
            assert (result.status, result.text) == (TurnStatus.INTERRUPTED, "half")

        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        await handle.interrupt()


@pytest.mark.parametrize(
    ("how", "status", "reason"),
    [
        ("fail", TurnStatus.FAILED, None),
        ("interrupt", TurnStatus.INTERRUPTED, StopReason.INTERRUPTED),
    ],
)
async def test_a_reply_that_broke_off_was_interrupted_only_where_somebody_did(
    runtime, how, status, reason
):
    async def breaks_off(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                half = Message.assistant("half").content
                agent.session.add_message(
                    Message("assistant", half, stop_reason=StopReason.INTERRUPTED)
                )
                if how == "fail":
                    raise ModelError("down")
                runtime.get(agent.session.session_id).interrupt_nowait()
                await trio.lowlevel.checkpoint()

    result = await runtime.spawn(new(), breaks_off).ask("a")
    assert (result.status, result.text, result.stop_reason) == (status, "half", reason)
