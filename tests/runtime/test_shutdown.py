"""Shutdown, kill and clean-up: in bounded time, with what is left reported."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.core import TextDelta, TurnStatus
from greenroom.core._internal import EndStatus, StateKind
from greenroom.runtime import AgentNotRunningError, AgentRuntime
from greenroom.session import AgentSession, InMemoryStore


def new():
    return AgentSession.new("worker")


async def sleeper(agent):
    """Sleep as long as the input says, in a turn."""
    async for message in agent.inputs():
        async with agent.turn(message):
            await trio.sleep(float(message.text))
            await agent.send(TextDelta("woke up"))


async def busy(runtime, text):
    handle = runtime.spawn(new(), sleeper)
    await handle.send_input(text)
    await wait_all_tasks_blocked()
    return handle


async def test_a_turn_that_finishes_in_time_is_let_finish(runtime):
    handle = await busy(runtime, "3")
    before = trio.current_time()
    await handle.shutdown(grace=5)
    assert trio.current_time() == before + 3
    assert (await handle.wait()).status is EndStatus.COMPLETED
    assert handle.state.kind is StateKind.DONE


async def test_a_turn_that_does_not_is_cancelled_at_the_grace(runtime):
    handle = await busy(runtime, "100")
    before = trio.current_time()
    await handle.shutdown(grace=5)
    assert trio.current_time() == before + 5
    assert (await handle.wait()).status is EndStatus.CANCELLED


@pytest.mark.parametrize("grace", [0, 5])
async def test_an_idle_agent_ends_at_once_and_completes(runtime, grace):
    handle = runtime.spawn(new(), sleeper)
    await wait_all_tasks_blocked()
    before = trio.current_time()
    await handle.shutdown(grace)
    assert trio.current_time() == before
    assert (await handle.wait()).status is EndStatus.COMPLETED


async def test_an_agent_that_has_not_begun_can_be_shut_down(runtime):
    handle = runtime.spawn(new(), sleeper)
    await handle.shutdown(grace=0)
    assert (await handle.wait()).status in {EndStatus.CANCELLED, EndStatus.COMPLETED}


async def test_two_shutdowns_are_one_and_the_shorter_grace_wins(runtime):
    handle = await busy(runtime, "100")
    before = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(handle.shutdown, 50)
        nursery.start_soon(handle.shutdown, 2)
    assert trio.current_time() == before + 2


@pytest.mark.parametrize("of_all", [False, True])
async def test_cancelling_the_one_who_shuts_down_does_not_take_the_shutdown_back(runtime, of_all):
    handle = await busy(runtime, "100")
    before = trio.current_time()
    with trio.move_on_after(1) as scope:
        await (runtime.shutdown_all(grace=5) if of_all else handle.shutdown(grace=5))
    assert scope.cancelled_caught
    assert (await handle.wait()).status is EndStatus.CANCELLED
    assert trio.current_time() == before + 5


async def test_kill_gives_clean_up_no_time(runtime):
    cleaned = []

    async def careful(agent):
        try:
            await trio.sleep_forever()
        finally:
            with agent.cleanup(60):
                cleaned.append("begun")
                await trio.sleep(1)
                cleaned.append("ended")

    handle = runtime.spawn(new(), careful)
    await wait_all_tasks_blocked()
    before = trio.current_time()
    handle.kill()
    outcome = await handle.wait()
    assert (outcome.status, cleaned) == (EndStatus.KILLED, ["begun"])
    assert trio.current_time() == before


async def test_kill_cuts_a_clean_up_short_that_runs_already(runtime):
    async def careful(agent):
        with agent.cleanup(60):
            await trio.sleep_forever()

    handle = runtime.spawn(new(), careful)
    await wait_all_tasks_blocked()
    before = trio.current_time()
    handle.kill()
    await handle.wait()
    assert trio.current_time() == before


async def test_a_second_cancel_can_t_abort_a_clean_up_and_a_hang_can_t_hold_it_open(runtime):
    cleaned = []

    async def careful(agent):
        try:
            await trio.sleep_forever()
        finally:
            with agent.cleanup(3):
                await trio.sleep(2)
                cleaned.append("slow")
            with agent.cleanup(3) as scope:
                await trio.sleep_forever()
            cleaned.append(scope.cancelled_caught)

    async with trio.open_nursery() as nursery:
        handle = runtime.spawn(new(), careful)
        await wait_all_tasks_blocked()
        before = trio.current_time()
        nursery.start_soon(handle.shutdown, 0)
        await wait_all_tasks_blocked()
        nursery.start_soon(handle.shutdown, 0)
    assert cleaned == ["slow", True]
    assert trio.current_time() == before + 5


async def test_a_thousand_agents_stop_together(runtime):
    async def returns_late(agent):
        async for _ in agent.inputs():
            pass
        await trio.sleep(1)

    handles = [runtime.spawn(new(), returns_late) for _ in range(1000)]
    await wait_all_tasks_blocked()
    before = trio.current_time()
    await runtime.shutdown_all()
    assert trio.current_time() == before + 1
    assert runtime.list_active() == ()
    assert {(await handle.wait()).status for handle in handles} == {EndStatus.COMPLETED}


@pytest.mark.parametrize("passes", [3, 4, 5, 6, None])
async def test_idle_agents_that_do_not_end_are_cancelled_at_the_grace_whoever_waits(
    runtime, passes
):
    async def stays(agent):
        async for _ in agent.inputs():
            pass
        await trio.sleep_forever()

    async def wait(shut_down):
        if passes is None:
            await shut_down
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: shut_down)
            for _ in range(passes):
                await trio.lowlevel.cancel_shielded_checkpoint()
            nursery.cancel_scope.cancel()

    parents = []

    async def parent(agent):
        parents.append(agent.spawn(new(), stays))
        await stays(agent)

    handles = [runtime.spawn(new(), stays), runtime.spawn(new(), parent)]
    await wait_all_tasks_blocked()
    before = trio.current_time()
    await wait(runtime.shutdown_all(grace=2))
    for handle in (*handles, *parents):
        assert (await handle.wait()).status is EndStatus.CANCELLED
    assert trio.current_time() == before + 2


async def test_all_share_one_grace_and_the_runtime_stays_open():
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handles = [await busy(runtime, "100") for _ in range(3)]
        before = trio.current_time()
        await runtime.shutdown_all(grace=2)
        assert trio.current_time() == before + 2
        assert {(await handle.wait()).status for handle in handles} == {EndStatus.CANCELLED}
        again = runtime.spawn(new(), sleeper)
        assert (await again.ask("0")).status is TurnStatus.COMPLETED


async def test_an_agent_spawned_while_the_block_is_left_does_not_stay():
    spawned = []

    async def last_minute(agent, runtime):
        async for _ in agent.inputs():
            pass
        spawned.append(runtime.spawn(new(), sleeper))

    async with AgentRuntime(store=InMemoryStore()) as runtime:
        runtime.spawn(new(), last_minute, runtime)
        await wait_all_tasks_blocked()
    assert (await spawned[0].wait()).status is EndStatus.CANCELLED


async def test_what_is_said_of_an_agent_from_outside(runtime):
    handle = runtime.spawn(AgentSession.new("coder", session_id="s-1"), sleeper, name="Ada")
    assert (handle.session_id, handle.agent_type, handle.name) == ("s-1", "coder", "Ada")
    assert repr(handle) == "<AgentHandle s-1 'Ada' idle>"
    history = await handle.history()
    await handle.ask("0")
    assert history == ()
    assert len(await handle.history()) == 1
    metadata = await handle.metadata()
    metadata["mine"] = 1
    assert await handle.metadata() == {}
    statistics = await handle.statistics()
    assert (statistics.mailbox, statistics.turns, statistics.largest_lag) == (0, 1, 0)


async def test_none_of_many_agents_takes_input_of_one_that_has_ended_before(runtime):
    refused = []

    async def says_goodbye(agent):
        async for _ in agent.inputs():
            pass
        for each in handles:
            with pytest.raises(AgentNotRunningError):
                each.send_input_nowait("goodbye")
        refused.append(agent.session.session_id)

    handles = [runtime.spawn(new(), says_goodbye) for _ in range(200)]
    await wait_all_tasks_blocked()
    await runtime.shutdown_all()
    assert len(refused) == 200
