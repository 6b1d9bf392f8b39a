"""Teams, plans and workflows in each other, cut off at any moment, with a truthful person.

A snapshot is what a kill would leave: the stored sessions, and the effects so far. From each the
work goes on with `run(None, session=id)`, reaches its goal, and has each effect once.
"""

import random
from collections import Counter
from typing import TypedDict

import pytest
import trio

from greenroom import Agent, Answer, RuleDecision
from greenroom.core import TurnStatus
from greenroom.flow import (
    END,
    START,
    Plan,
    Subtask,
    Workflow,
    committee,
    loop,
    orchestrator,
    parallel,
    pipeline,
)
from greenroom.testing import ScriptedProvider, call
from tests.flow.test_workflow_kills import SeenStore


class State(TypedDict, total=False):
    text: str


class Work:
    """A random composition whose leaves have an effect each, and a person who sees them."""

    def __init__(self, seed, store, effects=(), at=lambda: None, depth=3):
        self.chance = random.Random(seed)
        self.store = store
        self.effects = list(effects)
        self.at = at
        self.names = (f"e{number}" for number in range(100))
        self.expected = set()
        self.asked = []
        self.team = self.build(depth)
        while isinstance(self.team, Agent):
            self.team = self.build(depth)

    def build(self, depth):
        kinds = [self.agent]
        if depth:
            kinds += [self.pipe, self.side, self.rounds, self.jury, self.crew, self.graph]
        return self.chance.choice(kinds[bool(depth == 3) :])(depth - 1)

    def some(self, depth):
        return [self.build(depth) for _ in range(self.chance.randint(1, 2))]

    async def act(self, effect):
        self.at()
        self.effects.append(effect)
        self.at()
        await trio.lowlevel.checkpoint()
        return f"{effect} is done"

    def agent(self, depth):
        name = next(self.names)
        self.expected.add(name)

        async def act(effect: str) -> str:
            """Have an effect."""
            return await self.act(effect)

        def model(request):
            results = [each for message in request.messages for each in message.tool_results]
            done = [each.text for each in results if not each.is_error]
            return "yes" if done else call("act", effect=name)

        return Agent(ScriptedProvider(*[model] * 99), name=name, tools=[act])

    def pipe(self, depth):
        return pipeline(*self.some(depth), name=next(self.names))

    def side(self, depth):
        return parallel(*self.some(depth), name=next(self.names))

    def rounds(self, depth):
        return loop(self.build(depth), lambda output: True, name=next(self.names))

    def jury(self, depth):
        def decide(answers):
            return None

        agents = [self.agent(depth) for _ in range(2)]
        return committee(*agents, tie=decide, name=next(self.names))

    def crew(self, depth):
        agents = self.some(depth)
        ids = [f"s{number}" for number in range(len(agents))]
        plan = Plan(
            "",
            [
                Subtask(id_, f"Do {id_}", capability=each.name)
                for id_, each in zip(ids, agents, strict=False)
            ],
        )
        llm = ScriptedProvider(*["All is done."] * 99)
        return orchestrator(llm, *agents, planner=plan, name=next(self.names))

    def graph(self, depth):
        effect = next(self.names)
        self.expected.add(effect)

        async def first(state: State) -> None:
            await self.act(effect)

        flow = Workflow(State, input="text", output="text", name=next(self.names))
        flow.node(effect, first).edge(START, effect)
        for member in self.some(depth):
            name = next(self.names)
            flow.node(name, member, input="text", output="")
            flow.edge(effect, name).edge(name, END)
        return flow

    async def answer(self, request):
        """Say of each call or function in doubt whether it has run."""
        self.asked.append(request.action)
        assert request.may_have_run, request
        effect = request.input.get("effect") or request.input["node"]
        if effect not in self.effects:
            return True
        return Answer(RuleDecision.DENY, input={"result": None if "node" in request.input else "x"})

    async def run(self, given):
        result = await self.team.run(given, session="work", store=self.store, approve=self.answer)
        assert result.status is TurnStatus.COMPLETED, result.error
        assert Counter(self.effects) == dict.fromkeys(self.expected, 1)


@pytest.mark.parametrize("seed", range(12))
async def test_every_effect_happens_once_wherever_it_is_cut_off(seed):
    store, left = SeenStore(), []

    def keep(*_):
        left.append((store.copy(), tuple(work.effects)))

    work = Work(seed, store, at=keep)
    store.seen = keep
    await work.run("Go.")
    assert work.asked == []
    for sessions, effects in left[:-1:7]:
        again = Work(seed, SeenStore(sessions), effects)
        is_stored = await again.store.exists("work")
        await again.run(None if is_stored else "Go.")
