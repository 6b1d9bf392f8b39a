"""What a person states as the result of a node that was cut off, and what a flow has answered."""

from typing import TypedDict

import pytest
import trio

from greenroom import Agent, Answer, InMemoryStore, RuleDecision
from greenroom.core import TurnStatus
from greenroom.flow import END, START, Workflow, parallel, pipeline
from greenroom.session import AgentSession
from greenroom.testing import ScriptedProvider


class State(TypedDict, total=False):
    goal: str
    count: int


class CutOff:
    """A workflow of one node that was cut off, and a node that needs what it gives."""

    def __init__(self, is_agent):
        self.is_agent = is_agent
        self.store = InMemoryStore()
        self.begun = trio.Event()
        self.asked = []
        self.used = []

    async def function(self, state: State) -> dict[str, object]:
        self.begun.set()
        await trio.sleep_forever()

    async def agent(self, agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await self.function({})

    async def use(self, state: State) -> None:
        self.used.append(state["count"])

    def flow(self):
        flow = Workflow(State, input="goal").node("b", self.use)
        options = {"input": "goal", "output": "count"} if self.is_agent else {}
        flow.node("a", self.agent if self.is_agent else self.function, **options)
        return flow.edge(START, "a").edge("a", "b").edge("b", END)

    async def cut_off(self):
        async with self.flow().stream("Go.", session="s", store=self.store):
            await self.begun.wait()

    async def go_on(self, *results):
        left = list(results)

        async def answer(request):
            self.asked.append(request.details)
            return Answer(RuleDecision.DENY, input={"result": left.pop(0)})

        return await self.flow().run(None, session="s", store=self.store, approve=answer)


@pytest.mark.parametrize(
    ("is_agent", "wrong", "right"),
    [(False, {"sum": 1}, {"count": 1}), (True, "one", 1), (True, None, 1)],
)
async def test_a_result_that_does_not_fit_is_asked_for_again(is_agent, wrong, right):
    node = CutOff(is_agent)
    await node.cut_off()
    result = await node.go_on(wrong, right)
    assert (result.status, node.used) == (TurnStatus.COMPLETED, [1])
    assert len(node.asked) == 2
    assert "does not fit: " in node.asked[1]


async def test_after_three_results_that_do_not_fit_it_waits_for_the_next_run():
    node = CutOff(is_agent=False)
    await node.cut_off()
    assert "no field 'sum'" in str((await node.go_on(*[{"sum": 1}] * 3)).error)
    assert (await node.go_on({"count": 1})).status is TurnStatus.COMPLETED


async def count(state: State) -> dict[str, object]:
    return {"count": 3}


def worker(name):
    return Agent(ScriptedProvider(*["done"] * 9), name=name)


COUNT = Workflow(State, input="goal", output="count").node("count", count)
COUNT = COUNT.edge(START, "count").edge("count", END)


@pytest.mark.parametrize(
    "inner",
    [COUNT, parallel(worker("a"), worker("b")), pipeline(worker("a"))],
    ids=["workflow", "parallel", "pipeline"],
)
async def test_a_flow_that_has_ended_gives_its_output_again(inner):
    store = InMemoryStore()
    output = (await inner.run("Go.", session="s", store=store)).output
    session = await AgentSession.load("s", store=store)
    assert inner.read_answer(session) == output
