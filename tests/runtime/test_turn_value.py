"""The value of a turn: what `turn.set_result` was told reaches programs if the turn completes."""

import pytest
import trio
from msgspec import UNSET
from trio.testing import wait_all_tasks_blocked

from greenroom.core import (
    Done,
    Message,
    SessionError,
    SubAgentOutput,
    SubAgentResult,
    TurnError,
    TurnStatus,
    UserInput,
)
from greenroom.core._internal import InvalidJSONError, serde
from greenroom.llm import ModelError
from greenroom.session import AgentSession


def new():
    return AgentSession.new("worker")


def setting(*values, then=None):
    """Make an agent that sets these values in each turn."""

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                for value in values:
                    turn.set_result(value)
                if then is not None:
                    await then(agent, turn)

    return agent_fn


async def ends_of(handle):
    await handle.shutdown()
    return [chunk async for chunk in handle.subscribe("all") if isinstance(chunk, Done)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((), UNSET),
        ((None,), None),
        ((False,), False),
        ((0,), 0),
        (({"a": [1, "b", None]},), {"a": [1, "b", None]}),
        ((1, {"last": True}), {"last": True}),
        (({"a": 1}, None), None),
    ],
)
async def test_it_reaches_all_who_hear_of_the_turn_and_survives_json(runtime, values, expected):
    seen = []

    async def parent(agent):
        async for message in agent.inputs():
            if isinstance(message, UserInput):
                await agent.spawn(new(), once).send_input(message.text)
            else:
                seen.append(message)

    async def once(agent):
        async with agent.turn(await agent.receive()) as turn:
            for value in values:
                turn.set_result(value)

    handle = runtime.spawn(new(), setting(*values))
    assert (await handle.ask("go")).value == expected
    (done,) = await ends_of(handle)
    assert done.value == expected
    await runtime.spawn(new(), parent).send_input("go")
    await wait_all_tasks_blocked()
    (result,) = seen
    assert result.value == expected
    for wire in (done, result):
        encoded = serde.encode(wire)
        assert (b'"value"' in encoded) is (expected is not UNSET)
        assert serde.decode(encoded, type(wire)) == wire


async def test_no_reader_can_change_what_another_one_reads(runtime):
    value = {"names": ["ann"]}

    async def change(agent, turn):
        value["names"].append("bob")

    handle = runtime.spawn(new(), setting(value, then=change))
    result = await handle.ask("go")
    with pytest.raises(TypeError, match="frozen"):
        result.value["names"].append("cid")
    (done,) = await ends_of(handle)
    assert done.value == {"names": ["ann"]}


async def sleep(agent, turn):
    await trio.sleep_forever()


async def fail(agent, turn):
    raise ModelError("down")


async def refuse_save(agent, turn):
    async def save(**options):
        del agent.session.journal.save
        raise SessionError("full")

    agent.session.journal.save = save


async def spend(agent, turn):
    with agent.budget(seconds=1):
        await trio.sleep(2)


@pytest.mark.parametrize("how", [sleep, fail, refuse_save, spend])
async def test_a_turn_that_does_not_complete_has_none(runtime, how):
    handle = runtime.spawn(new(), setting("too early", then=how))
    result = await handle.ask("go", timeout=5)
    assert result.status is not TurnStatus.COMPLETED
    assert result.value is UNSET
    (done,) = await ends_of(handle)
    assert done.value is UNSET


async def test_a_crash_leaves_a_parent_no_value_of_an_earlier_turn(runtime):
    seen = []

    async def child(agent):
        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                turn.set_result(message.text)
                if message.text == "crash":
                    raise ValueError("broken")

    async def parent(agent):
        handle = agent.spawn(new(), child)
        await handle.send_input("work")
        await handle.send_input("crash")
        seen.append(await agent.receive())

    await runtime.spawn(new(), parent).wait(check=True)
    assert (seen[0].status, seen[0].value) == ("crashed", UNSET)


async def test_it_is_set_while_the_turn_is_open_and_at_no_other_time(runtime):
    async def agent_fn(agent):
        turn = agent.turn(await agent.receive())
        with pytest.raises(TurnError, match="not open"):
            turn.set_result("too early")
        async with trio.open_nursery() as nursery:
            async with turn:
                save = agent.session.journal.save

                async def slow():
                    saving.set()
                    await trio.sleep(1)
                    await save()

                agent.session.journal.save = slow
                nursery.start_soon(set_while_saved, turn)
        with pytest.raises(TurnError, match="not open"):
            turn.set_result("too late")

    async def set_while_saved(turn):
        await saving.wait()
        with pytest.raises(TurnError, match="not open"):
            turn.set_result("while it is saved")

    saving = trio.Event()
    handle = runtime.spawn(new(), agent_fn)
    assert (await handle.ask("go")).value is UNSET
    await handle.wait(check=True)


@pytest.mark.parametrize("value", [(1,), {1: "a"}, float("nan"), object(), UNSET, b"x"])
async def test_what_is_no_json_is_refused_and_changes_nothing(runtime, value):
    async def refused(agent, turn):
        with pytest.raises(InvalidJSONError, match="result of a turn"):
            turn.set_result(value)

    assert (await runtime.spawn(new(), setting("kept", then=refused)).ask("go")).value == "kept"


async def test_a_new_value_is_news_to_a_parent_that_has_asked_and_the_same_is_not(runtime):
    """Two turns without a word: what tells their answers apart is the value."""
    seen = []

    async def child(agent, *values):
        message = await agent.receive()
        for value in values:
            async with agent.turn(message) as turn:
                turn.set_result(value)
            message = UserInput(())

    async def parent(agent):
        async with agent.turn(await agent.receive()):
            for values in ([1], [1, 1], [1, True], [1, None]):
                assert (await agent.spawn(new(), child, *values).ask("go")).value == 1
        async for message in agent.inputs():
            seen.append(message)  # noqa: PERF401

    await runtime.spawn(new(), parent).ask("go")
    await wait_all_tasks_blocked()
    assert [result.value for result in seen] == [True, None]
    assert [type(result.value) for result in seen] == [bool, type(None)]


async def test_it_comes_through_all_levels_of_a_tree(runtime):
    async def outer(agent):
        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                answer = await agent.spawn(new(), setting({"depth": 2}), report=False).ask("go")
                turn.set_result(answer.value)
                agent.session.add_message(Message.assistant("told"))

    handle = runtime.spawn(new(), outer)
    result = await handle.ask("go")
    assert (result.text, result.value) == ("told", {"depth": 2})
    await handle.shutdown()
    below = [c.chunk async for c in handle.subscribe("all") if isinstance(c, SubAgentOutput)]
    assert [chunk.value for chunk in below if isinstance(chunk, Done)] == [{"depth": 2}]


def test_a_result_for_a_conversation_says_the_text_alone():
    result = SubAgentResult("s-1", "worker", "completed", "found it", value={"secret": 1})
    assert "secret" not in result.content[0].text
