"""Budgets: nested, inherited, and read at each step."""

import pytest
import trio
from hypothesis import given, strategies as st
from trio.testing import MockClock

from greenroom.core import BudgetExceededError, TextDelta, TurnStatus, Usage, UsageReport
from greenroom.core._internal import StateKind
from greenroom.resilience import Budget
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore


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
            assert budget.remaining == {"model_calls": 3}
            while True:
                await agent.step()
                steps.append(budget.remaining["model_calls"])

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
            assert outer.remaining == {"model_calls": 3}
            await agent.step()

    handle = runtime.spawn(new(), turning(body))
    assert (await handle.ask("go")).status is TurnStatus.COMPLETED


async def test_tokens_count_as_they_are_reported(runtime):
    async def body(agent):
        with agent.budget(tokens=100) as budget:
            await agent.step()
            await agent.send(UsageReport(Usage(90, 20), Usage()))
            assert budget.remaining == {"tokens": 0}
            await agent.step()

    handle = runtime.spawn(new(), turning(body))
    assert "100 tokens" in (await handle.ask("go")).error


async def test_calls_that_run_beside_each_other_may_pass_a_limit_together_and_no_later_one(runtime):
    async def call_a_model(agent):
        await agent.step()
        await trio.sleep(1)
        await agent.send(UsageReport(Usage(90, 0)))

    async def body(agent):
        with agent.budget(tokens=100) as budget:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call_a_model, agent)
                nursery.start_soon(call_a_model, agent)
            assert budget.used["tokens"] == 180
            await agent.step()

    handle = runtime.spawn(new(), turning(body))
    assert (await handle.ask("go")).error == "the budget of worker is spent: 100 tokens"


async def test_a_block_is_opened_once(runtime):
    async def agent_fn(agent):
        block = agent.budget(model_calls=1)
        with block:
            pass
        with pytest.raises(RuntimeError), block:
            pass
        await agent.step()
        await agent.step()

    assert (await runtime.spawn(new(), agent_fn).wait(check=True)).status == "completed"


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
            assert budget.remaining == {"model_calls": 0}

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
            assert later.remaining == {"model_calls": 1}

    handle = runtime.spawn(new(), turning(body))
    assert (await handle.ask("go")).status is TurnStatus.COMPLETED
    assert sorted(ended) == ["late", "step"]


async def spend(agent, tokens=0, cost=None):
    await agent.step()
    await agent.send(UsageReport(Usage(tokens, 0, cost=cost)))


async def test_an_agent_s_budget_ends_the_turn_in_hand_and_every_later_one(runtime):
    steps = []

    async def body(agent):
        while True:
            await spend(agent, tokens=60)
            steps.append(agent.usage.total)

    budget = Budget(tokens=100)
    handle = runtime.spawn(new(), turning(body), budget=budget)
    for _ in range(3):
        result = await handle.ask("go")
        assert result.status is TurnStatus.FAILED
        assert result.error == "the budget of worker is spent: 100 tokens"
    assert steps == [60, 120]
    assert (budget.used["tokens"], budget.remaining) == (120, {"tokens": 0})


async def test_an_agent_s_time_is_over_in_a_turn_and_does_nothing_while_idle(runtime):
    async def body(agent):
        await trio.sleep(4)

    handle = runtime.spawn(new(), turning(body), budget=Budget(seconds=10))
    await trio.sleep(5)
    assert (await handle.ask("in time")).status is TurnStatus.COMPLETED
    result = await handle.ask("too long")
    assert (result.status, trio.current_time()) == (TurnStatus.FAILED, 10)
    assert result.error == "the budget of worker is spent: 10 seconds"
    await trio.sleep(100)
    assert handle.state.kind is StateKind.IDLE
    assert "10 seconds" in (await handle.ask("too late")).error
    assert trio.current_time() == 110


async def test_a_turn_that_runs_out_of_time_after_an_interrupt_was_interrupted(runtime):
    results = []

    async def body(agent):
        try:
            await trio.sleep_forever()
        finally:
            with agent.cleanup(20):
                await trio.sleep(8)

    async def ask(handle):
        results.append(await handle.ask("go"))

    handle = runtime.spawn(new(), turning(body), budget=Budget(seconds=5))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, handle)
        await trio.sleep(1)
        await handle.interrupt(grace=20)
    assert [each.status for each in results] == [TurnStatus.INTERRUPTED]


async def test_a_deadline_above_ends_the_turn_of_a_subagent_with_the_same_reason(runtime):
    results = []

    async def child(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await trio.sleep_forever()

    async def body(agent):
        handle = None
        with pytest.raises(BudgetExceededError), agent.budget(seconds=3):  # noqa: PT012
            handle = agent.spawn(new(), child, name="helper")
            await trio.sleep_forever()
        results.append(await handle.ask("go"))

    handle = runtime.spawn(new(), turning(body))
    assert (await handle.ask("go")).status is TurnStatus.COMPLETED
    assert [each.error for each in results] == ["the budget of worker is spent: 3 seconds"]
    assert trio.current_time() == 3


async def test_agents_that_are_given_one_budget_share_it(runtime):
    async def body(agent):
        await agent.step()

    purse = Budget(model_calls=3)
    handles = [runtime.spawn(new(), turning(body), budget=purse) for _ in range(2)]
    statuses = [(await handles[n % 2].ask("go")).status for n in range(5)]
    assert statuses == [TurnStatus.COMPLETED] * 3 + [TurnStatus.FAILED] * 2


async def test_a_subagent_with_its_parent_s_own_budget_is_counted_once(runtime):
    purse = Budget(model_calls=9)

    async def child(agent):
        await agent.step()

    async def body(agent):
        await agent.spawn(new(), child, budget=purse).wait(check=True)

    await runtime.spawn(new(), turning(body), budget=purse).ask("go")
    assert purse.used["model_calls"] == 1


async def test_a_budget_spent_below_ends_the_child_s_turn_and_then_the_parent_s(runtime):
    results = []

    async def child_body(agent):
        while True:
            await spend(agent, tokens=30)

    async def body(agent):
        helper = agent.spawn(new(), turning(child_body), name="helper", budget=Budget(tokens=1000))
        results.append(await helper.ask("work"))
        await agent.step()

    handle = runtime.spawn(new(), turning(body), name="root", budget=Budget(tokens=100))
    result = await handle.ask("go")
    assert results[0].error == result.error == "the budget of root is spent: 100 tokens"


async def test_a_subagent_s_own_budget_ends_its_turn_alone(runtime):
    results = []

    async def child_body(agent):
        while True:
            await spend(agent, tokens=30)

    async def body(agent):
        helper = agent.spawn(new(), turning(child_body), name="helper", budget=Budget(tokens=50))
        results.append(await helper.ask("work"))
        await agent.step()

    handle = runtime.spawn(new(), turning(body), name="root", budget=Budget(tokens=100))
    assert (await handle.ask("go")).status is TurnStatus.COMPLETED
    assert results[0].error == "the budget of root/helper is spent: 50 tokens"


async def test_a_detached_subagent_is_under_no_budget_of_who_spawned_it(runtime):
    free = []

    async def child(agent):
        await agent.step()
        free.append(agent.lineage)

    async def body(agent):
        with agent.budget(model_calls=0):
            agent.spawn(new(), child, detached=True)
        await trio.sleep(1)

    assert (await runtime.spawn(new(), turning(body)).ask("go")).status is TurnStatus.COMPLETED
    assert free == [("worker",)]


async def test_the_usage_of_a_tree_is_that_of_all_agents_in_it(runtime):
    async def child(agent):
        await spend(agent, 10, cost=0.5)
        if len(agent.lineage) < 3:
            await agent.spawn(new(), child).wait(check=True)

    async def body(agent):
        await spend(agent, 1, cost=0.25)
        await agent.spawn(new(), child).wait(check=True)

    handle = runtime.spawn(new(), turning(body))
    result = await handle.ask("go")
    assert await handle.usage() == result.usage == Usage(1, 0, cost=0.25)
    assert await handle.tree_usage() == Usage(21, 0, cost=1.25)


async def test_a_cost_that_can_t_be_counted_is_refused_and_not_taken_for_nothing(runtime):
    async def body(agent):
        await spend(agent, tokens=5)

    budget = Budget(cost=1)
    handle = runtime.spawn(new(), turning(body), budget=budget)
    assert "has no price" in (await handle.ask("go")).error
    assert budget.used["tokens"] == 5  # what is known of it counts


async def test_a_budget_of_cost_is_spent_by_what_is_reported(runtime):
    async def body(agent):
        while True:
            await spend(agent, cost=0.5)

    handle = runtime.spawn(new(), turning(body), budget=Budget(cost=1.25))
    assert (await handle.ask("go")).error == "the budget of worker is spent: a cost of 1.25"
    assert (await handle.usage()).cost == 1.5


trees = st.recursive(
    st.fixed_dictionaries({"spends": st.lists(st.integers(0, 40), max_size=4)}),
    lambda below: st.fixed_dictionaries(
        {
            "spends": st.lists(st.integers(0, 40), max_size=4),
            "tokens": st.none() | st.integers(0, 120),
            "calls": st.none() | st.integers(0, 6),
            "children": st.lists(below, max_size=3),
        }
    ),
    max_leaves=8,
)


@given(trees)
def test_a_scope_uses_the_sum_of_what_is_below_it_and_nothing_begins_once_it_is_spent(tree):
    trio.run(_spend_tree, tree, clock=MockClock(autojump_threshold=0))


def _budget(tree):
    return Budget(tokens=tree.get("tokens"), model_calls=tree.get("calls"))


async def _spend_tree(tree):
    sums = {}  # for each budget, what was spent below it

    async def node(agent, tree, scopes):
        for budget in scopes:
            sums.setdefault(budget, [0, 0])
        async with trio.open_nursery() as nursery:
            for child in tree.get("children", ()):
                own = _budget(child)
                handle = agent.spawn(new(), node, child, [*scopes, own], budget=own)
                nursery.start_soon(handle.wait)
            for tokens in tree["spends"]:
                was_spent = any(each.describe_spent() for each in scopes)
                try:
                    await agent.step()
                except BudgetExceededError:
                    assert any(each.describe_spent() for each in scopes)
                    continue
                assert not was_spent
                for each in scopes:
                    sums[each][0] += tokens
                    sums[each][1] += 1
                await agent.send(UsageReport(Usage(tokens, 0)))

    async with AgentRuntime(store=InMemoryStore()) as runtime:
        own = _budget(tree)
        await runtime.spawn(new(), node, tree, [own], budget=own).wait(check=True)
    for budget, (tokens, calls) in sums.items():
        assert (budget.used["tokens"], budget.used["model_calls"]) == (tokens, calls)
        assert all(left >= 0 for left in budget.remaining.values())
