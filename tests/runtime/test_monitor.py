"""Monitors: one agent learns that another has ended, and neither ends with the other."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.core import (
    AgentExit,
    MailboxFullError,
    Message,
    SelfWaitError,
    SubAgentResult,
    TurnStatus,
)
from greenroom.core._internal import EndStatus
from greenroom.resilience import Backoff
from greenroom.runtime import AgentNotRunningError, AgentRuntime, RuntimeLimits
from greenroom.session import AgentSession, InMemoryStore


def new(agent_type="worker"):
    return AgentSession.new(agent_type)


async def fragile(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            if message.text == "crash":
                raise ValueError("broken")


class Watcher:
    """An agent that monitors the given handles, and keeps its inputs."""

    def __init__(self):
        self.monitors = []
        self.told = []

    async def agent(self, agent, handles):
        self.monitors = [agent.monitor(handle) for handle in handles]
        async for message in agent.inputs():
            self.told.append(message)
            async with agent.turn(message):
                if message.text == "crash":
                    raise ValueError("broken")


@pytest.fixture
def watcher():
    return Watcher()


@pytest.mark.parametrize(
    ("end", "status", "error"),
    [
        ("crash", EndStatus.CRASHED, "ValueError: broken"),
        ("shutdown", EndStatus.COMPLETED, ""),
        ("kill", EndStatus.KILLED, ""),
    ],
)
async def test_the_end_of_a_monitored_agent_comes_once_as_input(
    runtime, watcher, end, status, error
):
    handle = runtime.spawn(new(), fragile)
    watching = runtime.spawn(new("watcher"), watcher.agent, [handle])
    await wait_all_tasks_blocked()
    match end:
        case "crash":
            await handle.ask("crash")
        case "shutdown":
            await handle.shutdown()
        case "kill":
            handle.kill()
    await handle.wait()
    await wait_all_tasks_blocked()
    (told,) = watcher.told
    assert told == AgentExit(handle.session_id, "worker", status, error, told.id)
    reason = f": {error}" if error else ""
    text = f"[The agent worker ({handle.session_id}) has ended: {status}{reason}]"
    assert [message.text for message in await watching.history()] == [text]
    # No fate is shared.
    assert (await watching.ask("hello")).status is TurnStatus.COMPLETED


async def test_an_agent_that_ended_before_is_told_of_at_once(runtime, watcher):
    handle = runtime.spawn(new(), fragile)
    await handle.shutdown()
    runtime.spawn(new(), watcher.agent, [handle, handle])
    await wait_all_tasks_blocked()
    assert [told.session_id for told in watcher.told] == [handle.session_id] * 2


async def test_the_end_of_the_watcher_is_nothing_to_the_watched(runtime, watcher):
    handle = runtime.spawn(new(), fragile)
    watching = runtime.spawn(new(), watcher.agent, [handle])
    await wait_all_tasks_blocked()
    await watching.shutdown()
    assert (await handle.ask("hello")).status is TurnStatus.COMPLETED
    await handle.shutdown()
    assert (await watching.wait()).undelivered == ()


async def test_a_monitor_that_is_cancelled_tells_nothing(runtime, watcher):
    handles = [runtime.spawn(new(), fragile) for _ in range(2)]
    busy = trio.Event()

    async def busy_watcher(agent):
        early, late = (agent.monitor(handle) for handle in handles)
        early.cancel()
        await busy.wait()
        late.cancel()  # its word waits already, and is taken back
        late.cancel()
        await watcher.agent(agent, [])

    watching = runtime.spawn(new(), busy_watcher)
    for handle in handles:
        await handle.shutdown()
    assert (await watching.statistics()).mailbox == 1
    busy.set()
    await wait_all_tasks_blocked()
    assert watcher.told == []


async def test_word_that_is_taken_back_makes_room_for_who_waits():
    taken_back = trio.Event()

    async def busy(agent, handle):
        monitor = agent.monitor(handle)
        await taken_back.wait()
        monitor.cancel()
        await trio.sleep_forever()

    async with AgentRuntime(store=InMemoryStore(), limits=RuntimeLimits(mailbox=1)) as runtime:
        handle = runtime.spawn(new(), fragile)
        watching = runtime.spawn(new(), busy, handle)
        await wait_all_tasks_blocked()
        await handle.shutdown()
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watching.send_input, "hello")
                await wait_all_tasks_blocked()
                assert (await watching.statistics()).mailbox == 1
                taken_back.set()
        assert (await watching.statistics()).mailbox == 1
        watching.kill()


async def test_a_monitor_tells_of_the_last_life_alone(runtime, watcher):
    backoff = Backoff(first=1, factor=1, jitter=0)
    supervisor = runtime.supervisor(intensity=1, backoff=backoff)
    handle = supervisor.spawn(new(), fragile, restart="permanent")
    runtime.spawn(new(), watcher.agent, [handle])
    await handle.ask("crash")
    await trio.sleep(2)
    assert watcher.told == []
    await handle.ask("crash")
    await wait_all_tasks_blocked()
    assert [told.status for told in watcher.told] == [EndStatus.CRASHED]


async def test_monitors_end_with_the_life_that_made_them(runtime, watcher):
    handle = runtime.spawn(new(), fragile)
    supervisor = runtime.supervisor(backoff=Backoff(first=1, jitter=0))
    watching = supervisor.spawn(new(), watcher.agent, [handle], restart="permanent")
    await watching.ask("crash")
    first = watcher.monitors[0]
    await trio.sleep(2)
    assert watcher.monitors[0] is not first
    await handle.shutdown()
    await wait_all_tasks_blocked()
    assert [type(told) for told in watcher.told[1:]] == [AgentExit]


async def test_word_that_waits_when_its_watcher_crashes_is_for_the_next_life(runtime, watcher):
    handle = runtime.spawn(new(), fragile)
    lives = []

    async def careless(agent):
        lives.append(agent)
        if len(lives) == 1:
            agent.monitor(handle)
            await trio.sleep(1)
            raise ValueError("broken")
        await watcher.agent(agent, [])

    supervisor = runtime.supervisor(backoff=Backoff(first=1, jitter=0))
    supervisor.spawn(new(), careless, restart="permanent")
    await wait_all_tasks_blocked()
    await handle.shutdown()
    await trio.sleep(3)
    assert [type(told) for told in watcher.told] == [AgentExit]


async def test_word_always_finds_room_and_what_is_not_taken_is_undelivered():
    async def deaf(agent, handles):
        for handle in handles:
            agent.monitor(handle)
        await trio.sleep_forever()

    async with AgentRuntime(store=InMemoryStore(), limits=RuntimeLimits(mailbox=1)) as runtime:
        handles = [runtime.spawn(new(), fragile) for _ in range(3)]
        watching = runtime.spawn(new(), deaf, handles)
        await watching.send_input("full")
        for handle in handles:
            await handle.shutdown()
        await watching.shutdown(grace=0)
        kinds = [type(message).__name__ for message in (await watching.wait()).undelivered]
    assert kinds == ["UserInput"] + ["AgentExit"] * 3


async def test_monitors_are_bounded():
    async def curious(agent, handles):
        for handle in handles:
            agent.monitor(handle)
        with pytest.raises(MailboxFullError, match="2 agents"):
            agent.monitor(handles[0])
        await handles[0].shutdown()
        with pytest.raises(MailboxFullError):  # the news of the end waits
            agent.monitor(handles[1])
        await agent.receive()
        agent.monitor(handles[0]).cancel()

    async with AgentRuntime(store=InMemoryStore(), limits=RuntimeLimits(monitors=2)) as runtime:
        handles = [runtime.spawn(new(), fragile) for _ in range(2)]
        await runtime.spawn(new(), curious, handles).wait(check=True)


async def test_a_subagent_may_be_monitored_and_says_both(runtime):
    told = []

    async def quick(agent):
        agent.session.add_message(Message.assistant("done"))

    async def parent(agent):
        agent.monitor(agent.spawn(new(), quick))
        told.extend([await agent.receive(), await agent.receive()])

    await runtime.spawn(new(), parent).wait(check=True)
    assert {type(message) for message in told} == {SubAgentResult, AgentExit}


async def test_no_agent_monitors_itself_or_after_it_has_returned(runtime):
    kept = []

    async def agent_fn(agent):
        kept.append(agent)
        with pytest.raises(SelfWaitError):
            agent.monitor(runtime.get(agent.session.session_id))

    handle = runtime.spawn(new(), agent_fn)
    await handle.wait(check=True)
    with pytest.raises(AgentNotRunningError):
        kept[0].monitor(runtime.spawn(new(), fragile))
