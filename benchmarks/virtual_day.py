"""One virtual day of waiting, in almost no real time.

Agents that retry with back-off, that spend a budget of seconds at every turn, whose prompts nobody
answers, that are interrupted while they clean up, and that crash and are started again by a
supervisor, live through a day on trio's autojump clock. It may take 20 times as long as an empty
`trio.run` of the same number of task steps. Exits with 1 where it takes longer, or where an hour
did not bring what it should.

python benchmarks/virtual_day.py
"""

import statistics
import sys
import time
from collections import Counter

import trio
from trio.testing import MockClock

from greenroom import (
    AgentHandle,
    AgentInternals,
    AgentRuntime,
    AgentSession,
    InMemoryStore,
    Message,
    RuntimeLimits,
)
from greenroom.core import TurnStatus
from greenroom.llm import ModelOverloadedError
from greenroom.resilience import Backoff

DAY = 24 * 3600.0
MINUTE = 60.0
ROUNDS = 5
MAX_RATIO = 20.0


class Day:
    """A day, and how often each thing has happened in it."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()

    # -- the agents -------------------------------------------------------------------------------

    async def retrying(self, agent: AgentInternals) -> None:
        """Call a model that is overloaded three times of four, and wait longer each time."""
        backoff = Backoff(first=1.0, max_delay=30.0)
        async for message in agent.inputs():
            async with agent.turn(message):
                for attempt in range(1, 5):
                    try:
                        await self.call_model(attempt)
                    except ModelOverloadedError:
                        await trio.sleep(backoff.delay(attempt))
                        self.count["retries"] += 1
                agent.session.add_message(Message.assistant("at last"))

    async def call_model(self, attempt: int) -> None:
        await trio.sleep(0.5)
        if attempt < 4:
            raise ModelOverloadedError("busy")

    async def spending(self, agent: AgentInternals) -> None:
        """Take longer than a turn may."""
        async for message in agent.inputs():
            async with agent.turn(message):
                with agent.budget(seconds=20.0):
                    await trio.sleep(MINUTE)

    async def asking(self, agent: AgentInternals) -> None:
        """Ask for a permission that nobody gives."""
        async for message in agent.inputs():
            async with agent.turn(message):
                answer = await agent.request_permission("Bash", "run ls")
                self.count[f"denied by {answer.by}"] += 1

    async def cleaning(self, agent: AgentInternals) -> None:
        """Work until interrupted, then clean up."""
        async for message in agent.inputs():
            async with agent.turn(message):
                try:
                    await trio.sleep_forever()
                finally:
                    with agent.cleanup(2.0):
                        await trio.sleep(1.0)
                        self.count["cleaned"] += 1

    async def crashing(self, agent: AgentInternals) -> None:
        """Live a minute."""
        self.count["lives"] += 1
        await trio.sleep(MINUTE)
        raise ValueError("again")

    # -- the people -------------------------------------------------------------------------------

    async def ask(self, handle: AgentHandle, expected: TurnStatus) -> None:
        """Ask something every minute."""
        while trio.current_time() < DAY:
            result = await handle.ask("again")
            self.count[f"{handle.agent_type} {result.status}"] += result.status is expected
            await trio.sleep(MINUTE)

    async def interrupt(self, handle: AgentHandle) -> None:
        """Begin something every minute, and interrupt it."""
        while trio.current_time() < DAY:
            await handle.send_input("again")
            await trio.sleep(MINUTE)
            report = await handle.interrupt()
            self.count["interrupts"] += report.cleaned == ("the turn",)

    async def run(self) -> None:
        limits = RuntimeLimits(permission_timeout=30.0)
        async with AgentRuntime(store=InMemoryStore(), limits=limits) as runtime:
            supervisor = runtime.supervisor(intensity=10, period=60.0)
            supervisor.spawn(AgentSession.new("crashing"), self.crashing, restart="transient")
            people = [
                (self.ask, self.retrying, TurnStatus.COMPLETED),
                (self.ask, self.spending, TurnStatus.FAILED),
                (self.ask, self.asking, TurnStatus.COMPLETED),
            ]
            async with trio.open_nursery() as nursery:
                for person, agent_fn, expected in people:
                    session = AgentSession.new(agent_fn.__name__)
                    nursery.start_soon(person, runtime.spawn(session, agent_fn), expected)
                handle = runtime.spawn(AgentSession.new("cleaning"), self.cleaning)
                nursery.start_soon(self.interrupt, handle)
            await supervisor.shutdown(grace=0)

    def check(self) -> None:
        """Everything has happened about as often as minutes allow."""
        for what, least in {
            "retries": 3000,
            "retrying completed": 1000,
            "spending failed": 1000,
            "denied by time-out": 900,
            "interrupts": 1400,
            "cleaned": 1400,
            "lives": 1400,
        }.items():
            if self.count[what] < least:
                sys.exit(f"{what}: {self.count[what]}, and it should be at least {least}")


class Steps(trio.abc.Instrument):
    """Count task steps."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, _task: trio.lowlevel.Task) -> None:
        self.count += 1


async def empty(steps: int) -> None:
    for _ in range(steps):
        await trio.lowlevel.checkpoint()


def live() -> float:
    """Live through a day; return the seconds it took."""
    day = Day()
    begin = time.perf_counter()
    trio.run(day.run, clock=MockClock(autojump_threshold=0))
    took = time.perf_counter() - begin
    day.check()
    return took


def count_steps() -> int:
    steps = Steps()
    trio.run(Day().run, clock=MockClock(autojump_threshold=0), instruments=[steps])
    return steps.count


def run_empty(steps: int) -> float:
    begin = time.perf_counter()
    trio.run(empty, steps)
    return time.perf_counter() - begin


def main() -> None:
    steps = count_steps()
    pairs = [(live(), run_empty(steps)) for _ in range(ROUNDS)]
    day = statistics.median(ours for ours, _ in pairs)
    ratio = statistics.median(ours / floor for ours, floor in pairs)
    print(f"a day of {steps} task steps in {day:.2f} s: {1e6 * day / steps:.1f} µs each")
    print(f"{ratio:.2f} × an empty trio.run of as many  (bound {MAX_RATIO})")
    if ratio > MAX_RATIO:
        sys.exit("a bound is broken")


if __name__ == "__main__":
    main()
