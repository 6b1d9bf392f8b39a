"""Budgets: nested, inherited, and read at each step."""

import pytest
import trio

from greenroom.core import BudgetExceededError, TextDelta, TurnStatus, Usage, UsageReport
from greenroom.session import AgentSession


def new():
    return AgentSession.new("worker")


async def steps_without_end(agent):
    while True:
        await agent.step()


def turning(body):
    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await body(agent)

    return agent_fn


async def test_a_spent_budget_ends_its_turn_with_the_reason_and_the_next_one_works(runtime):
    steps = []

    async def body(agent):
        with agent.budget(model_calls=3) as budget:
            assert budget.left == {"model calls": 3}
            while True:
                await agent.step()
                steps.append(budget.left["model calls"])

    handle = runtime.spawn(new(), turning(body))
    for _ in range(2):
        result = await handle.ask("go")
        assert (result.status, "3 model calls" in result.error) == (TurnStatus.FAILED, True)
    assert steps == [2, 1, 0] * 2


async def test_the_tightest_of_nested_budgets_ends_first_and_only_its_own_block(runtime):
    async def body(agent):
        with agent.budget(model_calls=5) as outer:
            with pytest.raises(BudgetExceededError, match="2 model"), agent.budget(model_calls=2):
                await steps_without_end(agent)
            assert outer.left == {"model calls": 3}
            await agent.step()

    handle = runtime.spawn(new(), turning(body))
    assert (await handle.ask("go")).status is TurnStatus.COMPLETED


async def test_tokens_count_as_they_are_reported(runtime):
    async def body(agent):
        with agent.budget(tokens=100) as budget:
            await agent.step()
            await agent.send(UsageReport(Usage(90, 20), Usage()))
            assert budget.left == {"tokens": 0}
            await agent.step()

    handle = runtime.spawn(new(), turning(body))
    assert "100 tokens" in (await handle.ask("go")).error


async def test_a_deadline_cancels_the_block(runtime):
    async def body(agent):
        with agent.budget(seconds=5):
            await trio.sleep_forever()

    handle = runtime.spawn(new(), turning(body))
    before = trio.current_time()
    assert "5 seconds" in (await handle.ask("go")).error
    assert trio.current_time() == before + 5


async def test_a_block_that_ends_in_time_is_left_alone(runtime):
    async def body(agent):
        with agent.budget(seconds=5, model_calls=1, tokens=1):
            await agent.step()
        await agent.step()
        with pytest.raises(KeyError), agent.budget(seconds=5):
            raise KeyError

    handle = runtime.spawn(new(), turning(body))
    assert (await handle.ask("go")).status is TurnStatus.COMPLETED


async def test_a_subagent_is_under_the_budgets_it_was_spawned_in(runtime):
    async def child(agent):
        await agent.step()
        await agent.send(UsageReport(Usage(1, 1), Usage()))
        with pytest.raises(BudgetExceededError):
            await agent.step()
        await agent.send(TextDelta("ended"))

    async def body(agent):
        with agent.budget(model_calls=1) as budget:
            await agent.spawn(new(), child).wait(check=True)
            assert budget.left == {"model calls": 0}

    handle = runtime.spawn(new(), turning(body))
    assert (await handle.ask("go")).status is TurnStatus.COMPLETED


async def test_a_subagent_that_outlives_the_block_stays_under_its_budget_and_no_later_one(runtime):
    ended = []

    async def child(agent):
        await trio.sleep(10)
        await agent.step()
        ended.append("step")

    async def timed(agent):
        await trio.sleep(10)
        with pytest.raises(BudgetExceededError, match="5 seconds"):
            await agent.step()
        ended.append("late")

    async def body(agent):
        with agent.budget(model_calls=2):
            agent.spawn(new(), child)
        with agent.budget(seconds=5):
            agent.spawn(new(), timed)
        with agent.budget(model_calls=1) as later:
            await trio.sleep(11)
            assert later.left == {"model calls": 1}

    handle = runtime.spawn(new(), turning(body))
    assert (await handle.ask("go")).status is TurnStatus.COMPLETED
    assert sorted(ended) == ["late", "step"]
