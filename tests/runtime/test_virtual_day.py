"""A day of waiting on a clock that jumps: back-off, budgets, prompts, clean-up and restarts."""

from collections import Counter

import trio

from greenroom.core import Message, TurnStatus
from greenroom.llm import ModelOverloadedError
from greenroom.resilience import Backoff
from greenroom.runtime import AgentRuntime, RuntimeLimits
from greenroom.session import AgentSession, InMemoryStore

HOUR = 3600.0
LIMITS = RuntimeLimits(permission_timeout=600.0)


async def retrying(agent):
    backoff = Backoff(first=60.0, max_delay=600.0, jitter=0.0)
    async for message in agent.inputs():
        async with agent.turn(message):
            for attempt in (1, 2, 3):
                try:
                    raise ModelOverloadedError("busy")
                except ModelOverloadedError:
                    await trio.sleep(backoff.delay(attempt))
            agent.session.add_message(Message.assistant("at last"))


async def spending(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            with agent.budget(seconds=900.0):
                await trio.sleep_forever()


async def asking(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            answer = await agent.request_permission("Bash", "run ls")
            agent.session.add_message(Message.assistant(answer.by))


async def cleaning(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            try:
                await trio.sleep_forever()
            finally:
                with agent.cleanup(60.0):
                    await trio.sleep(30.0)


async def crashing(agent, lives):
    lives.append(trio.current_time())
    await trio.sleep(HOUR - 1.0)
    raise ValueError("again")


async def hourly(handle, seen):
    for hour in range(24):
        await trio.sleep_until(hour * HOUR)
        begin = trio.current_time()
        result = await handle.ask("again")
        seen[result.status, result.text, trio.current_time() - begin] += 1


async def interrupted_hourly(handle, seen):
    for hour in range(24):
        await trio.sleep_until(hour * HOUR)
        await handle.send_input("again")
        await trio.sleep(1800.0)
        report = await handle.interrupt(grace=45.0)
        seen[report.cleaned, trio.current_time() % HOUR] += 1


async def test_a_day_brings_what_it_should_at_the_second():
    lives, seen = [], {name: Counter() for name in ("retry", "spend", "ask", "clean")}
    async with AgentRuntime(InMemoryStore(), LIMITS) as runtime:
        supervisor = runtime.supervisor(backoff=Backoff(first=1.0, jitter=0.0))
        supervisor.spawn(AgentSession.new("crashing"), crashing, lives, restart="transient")
        async with trio.open_nursery() as nursery:
            for name, agent_fn in (("retry", retrying), ("spend", spending), ("ask", asking)):
                handle = runtime.spawn(AgentSession.new(name), agent_fn)
                nursery.start_soon(hourly, handle, seen[name])
            handle = runtime.spawn(AgentSession.new("clean"), cleaning)
            nursery.start_soon(interrupted_hourly, handle, seen["clean"])
        await supervisor.shutdown(grace=0)
    assert seen == {
        "retry": {(TurnStatus.COMPLETED, "at last", 60.0 + 120.0 + 240.0): 24},
        "spend": {(TurnStatus.FAILED, "", 900.0): 24},
        "ask": {(TurnStatus.COMPLETED, "time-out", 600.0): 24},
        "clean": {(("the turn",), 1830.0): 24},
    }
    assert lives == [hour * HOUR for hour in range(24)]
