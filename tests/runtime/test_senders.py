"""Senders: who speaks, with which facts, and under which id."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.core import Message, SubAgentResult, TextBlock, TurnStart
from greenroom.core._internal import InvalidJSONError
from greenroom.runtime import AgentRuntime, RuntimeLimits
from greenroom.session import AgentSession, InMemoryStore


def new():
    return AgentSession.new("worker")


async def listener(agent, seen):
    async for message in agent.inputs():
        async with agent.turn(message, steer=True):
            seen.append(message)
            await agent.step()
            agent.session.add_message(Message.assistant("done"))


@pytest.fixture
def seen():
    return []


@pytest.fixture
async def handle(runtime, seen):
    return runtime.spawn(new(), listener, seen)


async def test_the_agent_the_history_and_the_readers_learn_who_speaks(handle, seen):
    facts = {"subtask": "tests", "deep": [1]}
    receipt = await handle.send_input("go", sender="plan", metadata=facts, id="task 7")
    assert receipt.input_id == "task 7"
    facts["deep"].append(2)  # what was sent is no longer the caller's
    await wait_all_tasks_blocked()
    await handle.ask([TextBlock("on")], sender="boss", metadata={"n": 1})
    await handle.ask("thanks")
    assert [(each.sender, each.metadata) for each in seen] == [
        ("plan", {"subtask": "tests", "deep": [1]}),
        ("boss", {"n": 1}),
        ("", {}),
    ]
    asked = [message for message in await handle.history() if message.role == "user"]
    assert [each.sender for each in asked] == ["plan", "boss", ""]
    assert asked[0].id == seen[0].id == "task 7"
    starts = [each async for each in handle.stream(receipt) if isinstance(each, TurnStart)]
    assert [(each.input_id, each.sender) for each in starts] == [("task 7", "plan")]


async def test_who_steers_a_turn_is_named_too(handle, seen):
    handle.send_input_nowait("go")
    handle.send_input_nowait("faster", sender="boss", id="m 2")
    await wait_all_tasks_blocked()
    history = await handle.history()
    assert [(each.text, each.sender) for each in history] == [
        ("go", ""),
        ("faster", "boss"),
        ("done", ""),
    ]
    assert history[1].id == "m 2"


async def test_what_comes_of_a_subagent_is_said_by_the_runtime(runtime, seen):
    async def boss(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                if isinstance(message, SubAgentResult):
                    seen.append(message)
                else:
                    agent.spawn(new(), listener, []).kill()

    handle = runtime.spawn(new(), boss)
    await handle.send_input("go", sender="plan")
    await wait_all_tasks_blocked()
    assert len(seen) == 1
    assert [message.sender for message in await handle.history()] == ["plan", "runtime"]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"sender": "a]"}, ValueError, "can't name a sender"),
        ({"sender": "x" * 65}, ValueError, "can't name a sender"),
        ({"sender": "summary"}, ValueError, "it marks what is quoted"),
        ({"sender": "memory"}, ValueError, "it marks what is quoted"),
        ({"metadata": {"x": object()}}, InvalidJSONError, "the input's metadata can't be stored"),
        ({"metadata": {1: 2}}, InvalidJSONError, "the input's metadata can't be stored"),
        ({"id": ""}, ValueError, "'' can't be the id of an input"),
        ({"id": "a\nb"}, ValueError, "can't be the id of an input"),
        ({"id": "x" * 129}, ValueError, "can't be the id of an input: use 1 to 128"),
    ],
)
async def test_what_can_not_be_is_refused_where_it_is_sent(handle, seen, options, error, words):
    with pytest.raises(error, match=words):
        await handle.send_input("go", **options)
    with pytest.raises(error, match=words):
        handle.send_input_nowait("go", **options)
    if "id" not in options:
        with pytest.raises(error, match=words):
            await handle.ask("go", **options)
    await wait_all_tasks_blocked()
    assert seen == []


async def test_of_two_that_send_the_same_id_at_once_one_is_refused(handle, seen):
    refused = []

    async def send():
        try:
            await handle.send_input("go", id="one")
        except ValueError as error:
            refused.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        nursery.start_soon(send)
    await wait_all_tasks_blocked()
    assert len(seen) == len(refused) == 1


async def test_an_id_names_one_input_wherever_that_is():
    gate, seen = trio.Event(), []

    async def slow(agent):
        await gate.wait()
        async for message in agent.inputs():
            async with agent.turn(message):
                seen.append(message.text)

    async with AgentRuntime(store=InMemoryStore(), limits=RuntimeLimits(mailbox=1)) as runtime:
        handle = runtime.spawn(new(), slow)

        def send_again(id_):
            with pytest.raises(
                ValueError, match=f"the input '{id_}' was sent to this agent before"
            ):
                handle.send_input_nowait("again", id=id_)

        async with trio.open_nursery() as nursery:
            await handle.send_input("waits to be taken", id="one")
            nursery.start_soon(lambda: handle.send_input("waits for room", id="two"))
            await wait_all_tasks_blocked()
            send_again("one")
            send_again("two")
            gate.set()
        await wait_all_tasks_blocked()
        send_again("one")
        send_again("two")
        with trio.move_on_after(0):
            await handle.send_input("given up before it was sent", id="three")
        await handle.send_input("sent after all", id="three")
        await wait_all_tasks_blocked()
        assert handle.send_input_nowait("handed over", id="four").status == "delivered"
        send_again("four")
        await wait_all_tasks_blocked()
    assert seen == ["waits to be taken", "waits for room", "sent after all", "handed over"]
