"""Members wait for room in order of arrival, and all get it."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom import AgentRuntime, AgentSession, InMemoryStore, RuntimeLimits
from greenroom.flow import parallel
from greenroom.flow._internal import ask_member, start_member


def counting_member(alive, most):
    async def member(internals):
        async for message in internals.inputs():
            async with internals.turn(message) as turn:
                alive.append(1)
                most.append(len(alive))
                await trio.sleep(1)
                alive.pop()
                turn.set_result(1)

    return member


def limited_runtime(subagents):
    return AgentRuntime(InMemoryStore(), limits=RuntimeLimits(subagents=subagents))


async def test_a_team_of_a_hundred_works_within_the_limit(autojump_clock):
    alive, most, start = [], [], trio.current_time()
    team = parallel(*[counting_member(alive, most)] * 100, join=len)
    async with limited_runtime(64) as runtime:
        result = await runtime.spawn(AgentSession.new("team"), team).ask("Go.")
    assert (result.value, max(most)) == (100, 64)
    assert trio.current_time() - start == 2


async def within(subagents, function):
    """Run a function of an agent's internals in a turn."""

    async def agent(internals):
        async for message in internals.inputs():
            async with internals.turn(message):
                await function(internals)

    async with limited_runtime(subagents) as runtime:
        return await runtime.spawn(AgentSession.new("team"), agent).ask("Go.")


async def test_all_that_one_agent_starts_shares_its_room(autojump_clock):
    alive, most = [], []

    async def function(agent):
        async with trio.open_nursery() as nursery:
            for number in range(12):
                member, name = counting_member(alive, most), f"m{number}"
                nursery.start_soon(lambda: ask_member(agent, member, "x", name=name))  # noqa: B023

    result = await within(3, function)
    assert (result.status, max(most), len(most)) == ("completed", 3, 12)


async def test_who_waits_longest_is_next(autojump_clock):
    begun = []

    async def function(agent):
        async def one(number):
            async with start_member(agent, counting_member([], []), name=f"m{number}") as handle:
                begun.append(number)
                await handle.ask("x")

        async with trio.open_nursery() as nursery:
            for number in range(6):
                nursery.start_soon(one, number)
                await wait_all_tasks_blocked()

    await within(1, function)
    assert begun == [*range(6)]


async def test_a_place_is_not_lost_when_its_waiter_is_cancelled(autojump_clock):
    async def function(agent):
        async def one(scope=None):
            with scope or trio.CancelScope():
                await ask_member(agent, counting_member([], []), "x", name="m")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            await wait_all_tasks_blocked()
            scopes = [trio.CancelScope() for _ in range(5)]
            for scope in scopes:
                nursery.start_soon(one, scope)
            nursery.start_soon(one)
            await trio.sleep(0.5)
            for scope in scopes:
                scope.cancel()

    with trio.fail_after(10):
        assert (await within(1, function)).status == "completed"


async def test_room_that_others_have_taken_is_not_waited_for():
    async def function(agent):
        agent.spawn(AgentSession.new("other"), forever, report=False)
        await ask_member(agent, counting_member([], []), "x", name="m")

    async def forever(internals):
        await trio.sleep_forever()

    with trio.fail_after(60):
        result = await within(1, function)
    assert result.status == "failed"
    assert "has 1 subagents already" in result.error


async def test_a_member_is_gone_however_its_block_is_left(autojump_clock):
    handles = []

    async def started(agent):
        async with start_member(agent, counting_member([], []), name="m") as handle:
            handles.append(handle)
            handle.send_input_nowait("x")
            raise KeyError

    async def function(agent):
        with pytest.raises(KeyError):
            await started(agent)
        assert handles[0].state.is_final
        with trio.move_on_after(0.5):
            await ask_member(agent, counting_member([], []), "x", name="m")
        assert agent.subagent_room == 1

    assert (await within(1, function)).status == "completed"


async def test_nobody_overtakes_who_was_woken(autojump_clock):
    begun = []

    async def function(agent):
        async def work(number, times):
            for _ in range(times):
                async with start_member(agent, counting_member([], []), name="m"):
                    begun.append(number)
                    await trio.sleep(1)

        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(work, number, 3 if number == 0 else 1)
                await wait_all_tasks_blocked()

    await within(1, function)
    assert begun == [0, 1, 2, 0, 0]


async def test_all_room_is_used_once_other_subagents_have_ended(autojump_clock):
    alive, most = [], []

    async def other(internals):
        await trio.sleep(0.5)

    async def function(agent):
        for _ in range(3):
            agent.spawn(AgentSession.new("other"), other, report=False)
        async with trio.open_nursery() as nursery:
            for _ in range(9):
                nursery.start_soon(
                    lambda: ask_member(agent, counting_member(alive, most), "x", name="m")
                )

    begun = trio.current_time()
    await within(4, function)
    assert (max(most), trio.current_time() - begun) == (4, 3)
