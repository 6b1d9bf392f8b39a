"""What was said: the chunks at the begin of a turn tell the input, and how long it waited."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.agents import Agent, Guard, Reject
from greenroom.core import Custom, TurnStart
from greenroom.core._internal import serde
from greenroom.session import AgentSession
from greenroom.testing import ScriptedProvider


def new():
    return AgentSession.new("worker")


async def slow(agent):
    """Take five seconds for each input, in steps of one second that others may join."""
    async for message in agent.inputs():
        async with agent.turn(message, steer=message.text == "steer me"):
            for _ in range(5):
                await agent.step()
                await trio.sleep(1)


async def starts_of(handle):
    await handle.shutdown()
    chunks = [chunk async for chunk in handle.subscribe("all")]
    return [(each.text, each.waited) for each in chunks if isinstance(each, TurnStart)], chunks


async def test_a_turn_tells_its_input_and_how_long_it_waited(runtime):
    handle = runtime.spawn(new(), slow)
    for text in ("one", "two", "three"):
        await handle.send_input(text)
        await trio.sleep(1)
    await trio.sleep(20)
    starts, _ = await starts_of(handle)
    assert starts == [("one", 0.0), ("two", 4.0), ("three", 8.0)]


async def test_a_long_input_is_cut(runtime):
    handle = runtime.spawn(new(), slow)
    await handle.ask("x" * 20_000)
    ((text, _),), _ = await starts_of(handle)
    assert len(text) == 10_000
    assert "10," not in text
    assert "characters left out" in text


async def test_input_that_joins_a_turn_is_told_with_its_wait(runtime):
    handle = runtime.spawn(new(), slow)
    await handle.send_input("steer me")
    await trio.sleep(1.25)
    await handle.send_input("and this", sender="boss", id="i-2")
    await trio.sleep(10)
    starts, chunks = await starts_of(handle)
    assert starts == [("steer me", 0.0)]
    (joined,) = (each for each in chunks if isinstance(each, Custom))
    assert joined.kind == "input.joined"
    assert joined.data == {"input_id": "i-2", "sender": "boss", "text": "and this", "waited": 0.75}


@pytest.mark.parametrize("said", ["a secret", "fine"])
async def test_what_the_guards_have_yet_to_pass_is_not_told(runtime, said):
    guard = Guard(lambda context, text: Reject("no") if "secret" in text else None, on="input")
    handle = runtime.spawn(new(), Agent(ScriptedProvider("done"), guards=[guard]))
    await handle.ask(said)
    starts, chunks = await starts_of(handle)
    assert starts == [("", 0.0)]
    assert b"secret" not in b"".join(map(serde.encode, chunks))


async def test_an_input_that_a_crash_put_back_waits_again(runtime):
    lives = []

    async def worker(agent):
        lives.append(1)
        async for message in agent.inputs():
            if len(lives) == 1:
                raise RuntimeError("before its turn")
            async with agent.turn(message):
                pass

    supervisor = runtime.supervisor()
    handle = supervisor.spawn(new(), worker, restart="transient")
    await wait_all_tasks_blocked()
    await handle.ask("once")
    starts, _ = await starts_of(handle)
    assert [text for text, _ in starts] == ["once"]
    assert starts[0][1] > 0


async def test_no_times_are_kept_of_what_was_taken(runtime):
    handle = runtime.spawn(new(), slow)
    for _ in range(5):
        handle.send_input_nowait("x")
    await trio.sleep(100)
    assert handle._actor.mailbox._came == {}
    assert serde.decode(serde.encode(TurnStart("1")), TurnStart).waited == 0
