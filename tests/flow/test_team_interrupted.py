"""A team of twenty agents in nested patterns, interrupted at any moment."""

import operator
import random
from typing import Annotated, TypedDict

import pytest
import trio
import trio.testing

from greenroom import Agent, AgentRuntime, AgentSession, InMemoryStore
from greenroom.core import TurnStatus
from greenroom.flow import (
    END,
    START,
    Plan,
    Subtask,
    Workflow,
    committee,
    handoff_team,
    loop,
    orchestrator,
    parallel,
    pipeline,
)
from greenroom.testing import ScriptedProvider, call
from tests.conftest import take_sample


class State(TypedDict, total=False):
    text: str
    items: list[str]
    found: Annotated[list[str], operator.add]


class Crowd:
    """Twenty agents as one; knows which of them run."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.running = 0
        self.seen = set()
        self.team = self.build()

    def member(self, name, *, hands_off=False, **options):
        """An agent that works for a while in a tool, and answers."""

        async def work() -> str:
            """Work."""
            self.running += 1
            self.seen.add(name)
            try:
                await trio.sleep(self.chance.choice([0, 0.3, 1]))
            finally:
                self.running -= 1
            return "done"

        def model(request):
            if not request.messages[-1].tool_results:
                return call("work")
            return call(f"transfer_to_{options['handoffs'][0].name}") if hands_off else "yes"

        return Agent(
            ScriptedProvider(*[model] * 500),
            tools=[work],
            name=name,
            description="Works.",
            **options,
        )

    def build(self):
        names = iter(f"m{number}" for number in range(20))

        def some(count):
            return [self.member(next(names)) for _ in range(count)]

        second = self.member(next(names))
        first = self.member(next(names), handoffs=[second], hands_off=True)
        desk = handoff_team(first, second, name="desk", description="Helps.")
        jury = committee(*some(3))
        again = loop(*some(1), until=lambda said: True, max_rounds=2)
        side = parallel(pipeline(*some(2), name="pipe"), jury, name="side")
        crew = orchestrator(
            ScriptedProvider(*["all"] * 100),
            *[self.member(next(names), capabilities=[what]) for what in ("code", "law")] + [desk],
            planner=Plan(
                "",
                [
                    Subtask("a", "A", capability="code"),
                    Subtask("b", "B", capability="law"),
                    Subtask("c", "C", capability="desk"),
                ],
            ),
            name="crew",
        )
        work = Workflow(State, input="text", output="found")

        async def split(state: State) -> dict[str, object]:
            return {"items": ["1", "2", "3", "4"]}

        work.node("split", split, repeatable=True)
        for name, agent in (("side", side), ("again", again), ("crew", crew)):
            work.node(name, agent, input="text", output="text" if name == "again" else "")
        work.node("each", *some(1), output="found").each("each", over="items", concurrency=3)
        work.edge(START, "split").edge("split", "each").edge("each", END)
        for name in ("side", "again", "crew"):
            work.edge(START, name).edge(name, END)
        return pipeline(*some(4), work, parallel(*some(5), name="five"), name="all")


@pytest.mark.parametrize("seed", take_sample(range(5), 5))
async def test_nothing_is_left_running_and_the_next_input_works(autojump_clock, seed):
    crowd, store = Crowd(seed), InMemoryStore()
    chance, cut_off = random.Random(seed), 0
    async with AgentRuntime(store) as runtime:
        handle = runtime.spawn(AgentSession.new("all"), crowd.team, unattended="deny")
        for _ in range(6):
            handle.send_input_nowait("Go.")
            await trio.sleep(chance.uniform(0, 5))
            cut_off += crowd.running > 0
            await handle.interrupt()
            await trio.testing.wait_all_tasks_blocked()
            assert crowd.running == 0
            assert store.statistics().locked <= 1  # its own session alone
        result = await handle.ask("Go.")
        assert result.status is TurnStatus.COMPLETED, result.error
        assert crowd.running == 0
        assert (
            len(crowd.seen) == 19
        )  # all but the one to whom the desk hands over, who only answers
        await handle.shutdown()
    assert store.statistics().locked == 0
