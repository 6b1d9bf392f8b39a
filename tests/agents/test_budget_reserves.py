"""Calls that run at once reserve what they may use, so that not all of them overshoot a budget."""

from contextlib import asynccontextmanager

import pytest
import trio

from greenroom import Agent, AgentRuntime, Custom, Guard
from greenroom.agents import only, stream_reply
from greenroom.core import BudgetExceededError, Message, ModelRequest, Price, TurnStatus, Usage
from greenroom.llm import EstimatedCounter, ModelSettings
from greenroom.resilience import Budget
from greenroom.session import AgentSession, InMemoryStore
from greenroom.testing import Reply, ScriptedProvider

REPLY = 100


class Slow(ScriptedProvider):
    """A model that takes a second for each reply of a hundred tokens."""

    def __init__(self, *, price=None):
        super().__init__(price=price)
        self.running = self.most = self.begun = 0

    @asynccontextmanager
    async def stream(self, request):
        self.begun += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await trio.sleep(1)
            sent = EstimatedCounter().count(request)
            usage = Usage(sent, REPLY - sent)
            llm = ScriptedProvider(Reply("hello", usage=usage), price=self.price)
            async with llm.stream(request) as stream:
                yield stream
        finally:
            self.running -= 1


async def run_all(llm, budget, count):
    results = []

    async def run():
        results.append(await Agent(llm).run("go", budget=budget))

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(run)
    return results


@pytest.mark.parametrize(
    "limits",
    [
        {"tokens": 1000},
        {"output_tokens": 900},
        {"input_tokens": 90},
        {"cost": 0.001},
        {"tokens": 1000, "cost": 0.002},
    ],
)
async def test_twenty_runs_at_once_spend_a_budget_and_at_most_one_reply(limits, autojump_clock):
    llm, budget = Slow(price=Price(1, 1)), Budget(**limits)
    results = await run_all(llm, budget, 20)
    used = budget.used
    assert any(used[what] >= limit for what, limit in limits.items())
    assert all(used[what] <= limit + used[what] / llm.begun for what, limit in limits.items())
    ended = [type(result.error) for result in results]
    assert ended.count(type(None)) == llm.begun == used["tokens"] // REPLY == used["model_calls"]
    assert ended.count(BudgetExceededError) == 20 - llm.begun


async def test_calls_run_side_by_side_as_far_as_the_budget_has_room_for_all(autojump_clock):
    llm, budget = Slow(), Budget(tokens=30_000)
    results = await run_all(llm, budget, 20)
    assert [result.error for result in results] == [None] * 20
    assert llm.most == 30_000 // (4096 + 13)  # as much as is reserved before a reply is known
    assert trio.current_time() == 20 // llm.most + 1


async def test_a_limit_of_replies_is_what_they_reserve(autojump_clock):
    llm, budget = Slow(), Budget(output_tokens=1000)
    async with AgentRuntime(store=InMemoryStore()) as runtime, trio.open_nursery() as nursery:

        async def agent_fn(agent):
            async for message in agent.inputs():
                async with agent.turn(message):
                    await stream_reply(agent, llm, settings=ModelSettings(max_tokens=200))

        for _ in range(5):
            handle = runtime.spawn(AgentSession.new("a"), agent_fn, budget=budget)
            nursery.start_soon(handle.ask, "go")
    assert llm.most == 5


async def test_an_interrupt_while_a_call_waits_for_room_leaves_nothing_reserved(autojump_clock):
    llm, budget = Slow(), Budget(tokens=1000)

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await stream_reply(agent, llm)

    async with AgentRuntime(store=InMemoryStore()) as runtime:
        first, second = (
            runtime.spawn(AgentSession.new("a"), agent_fn, budget=budget) for _ in range(2)
        )
        await first.send_input("go")
        await trio.sleep(0.1)
        async with second.subscribe() as chunks:
            await second.send_input("go")
            told = await anext(only(chunks, Custom))
        assert (told.kind, told.text) == (
            "model.wait",
            "scripted:script waits for room in the budget",
        )
        await trio.sleep(0.4)
        assert llm.begun == 1
        for handle in (first, second):
            await handle.interrupt()
        assert trio.current_time() == 0.5
        assert (await second.ask("go")).status is TurnStatus.COMPLETED
        assert (await first.ask("go")).status is TurnStatus.COMPLETED
    assert trio.current_time() == 2.5


async def test_a_guard_that_asks_a_model_or_an_agent_does_not_wait_for_its_own_reserve(
    autojump_clock,
):
    budget = Budget(tokens=1000)
    async with AgentRuntime(store=InMemoryStore()) as runtime:

        async def judge(agent):
            async for message in agent.inputs():
                async with agent.turn(message):
                    await stream_reply(agent, Slow())

        other = runtime.spawn(AgentSession.new("judge"), judge, budget=budget)

        async def check(context, text):
            await Agent(Slow()).run("is it right?")
            await other.ask("is it right?")

        agent = Agent(Slow(), guards=[Guard(check, on="text")])
        with trio.fail_after(100):
            result = await agent.run("go", runtime=runtime, budget=budget)
    assert result.error is None
    assert budget.used["tokens"] == 3 * REPLY


async def test_a_block_of_ones_own_reserves_what_it_counts(autojump_clock):
    budget, began = Budget(tokens=1000), []

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                request = ModelRequest(messages=[Message.user("hi")], max_tokens=100)
                llm = ScriptedProvider("hi")
                async with agent.model_call(llm, request, lambda _: 400) as call:
                    began.append(trio.current_time())
                    await trio.sleep(1)
                    call.reply = await llm.generate(request)

    async with AgentRuntime(store=InMemoryStore()) as runtime, trio.open_nursery() as nursery:
        for _ in range(4):
            handle = runtime.spawn(AgentSession.new("a"), agent_fn, budget=budget)
            nursery.start_soon(handle.ask, "go")
    assert began == [0, 0, 1, 1]
