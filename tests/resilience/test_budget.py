"""`Budget` alone: a counter with limits."""

from fractions import Fraction

import pytest
import trio
from hypothesis import given, strategies as st

from greenroom.core import BudgetExceededError, ConfigurationError, Usage
from greenroom.core._internal import Used
from greenroom.resilience import Budget, TokenBudget


def test_without_limits_nothing_is_ever_spent():
    budget = Budget()
    budget.count(model_calls=10**9, tokens=10**9)
    budget.check()
    assert (budget.remaining, budget.describe_spent()) == ({}, "")
    assert budget.used == {
        "tokens": 10**9,
        "input_tokens": 0,
        "output_tokens": 0,
        "cost": 0,
        "model_calls": 10**9,
        "tool_calls": 0,
    }


def test_it_goes_on_from_what_is_used_already_and_counts_that_once():
    used = Used(Usage(60, 10, 20, 10, cost=1.5), model_calls=3, tool_calls=4)
    budget = Budget(tokens=150, cost=2, model_calls=4, tool_calls=4, used=used)
    assert budget.remaining == {"tokens": 50, "cost": 0.5, "model_calls": 1, "tool_calls": 0}
    assert budget.describe_spent() == "4 tool calls"
    budget.count(tokens=50)
    assert budget.used == {
        "tokens": 150,
        "input_tokens": 90,
        "output_tokens": 10,
        "cost": 1.5,
        "model_calls": 3,
        "tool_calls": 4,
    }
    assert Budget(cost=1, used=Used(Usage(90, 10))).remaining == {"cost": 1}


def test_it_names_what_is_spent():
    budget = Budget(model_calls=5, tokens=10)
    budget.count(tokens=11)
    with pytest.raises(BudgetExceededError, match="10 tokens"):
        budget.check()
    assert budget.remaining == {"model_calls": 5, "tokens": 0}


@pytest.mark.parametrize(
    ("used", "spent"),
    [
        ({"input_tokens": 99_999, "output_tokens": 9_999, "tokens": 109_998}, ""),
        ({"input_tokens": 100_000, "tokens": 100_000}, "100000 input tokens"),
        ({"output_tokens": 10_000, "tokens": 10_000}, "10000 output tokens"),
        ({"tokens": 110_000}, "110000 tokens"),
    ],
)
def test_a_budget_of_tokens_limits_both_kinds_and_their_sum(used, spent):
    budget = TokenBudget.default()
    budget.count(**used)
    assert budget.describe_spent() == spent


def test_each_limit_of_a_budget_of_tokens_can_be_another():
    budget = TokenBudget(max_output_tokens=5, used=Used(Usage(10, 3)))
    assert (budget.max_input_tokens, budget.max_output_tokens) == (100_000, 5)
    assert budget.remaining == {"tokens": 109_987, "input_tokens": 99_990, "output_tokens": 2}
    assert TokenBudget.default().remaining == {
        "tokens": 110_000,
        "input_tokens": 100_000,
        "output_tokens": 10_000,
    }
    with pytest.raises(ConfigurationError, match="input tokens"):
        TokenBudget(max_input_tokens=-1)


def test_a_part_of_the_limits_can_be_asked_for():
    budget = Budget(model_calls=1, tool_calls=1, cost=0.5)
    budget.count(tool_calls=1)
    budget.check("model_calls", "cost")
    assert budget.describe_spent("cost", "tool_calls") == "1 tool call"
    budget.count(cost=0.75)
    assert budget.describe_spent() == "a cost of 0.5"


def test_what_was_not_used_can_be_given_back():
    budget = Budget(tool_calls=1)
    budget.count(tool_calls=1)
    budget.count(tool_calls=-1)
    budget.check()


@pytest.mark.parametrize(
    ("what", "limit"),
    [
        ("tokens", -1),
        ("tokens", 1.5),
        ("tokens", True),
        ("input_tokens", -1),
        ("output_tokens", 0.5),
        ("model_calls", "3"),
        ("tool_calls", float("inf")),
        ("cost", float("nan")),
        ("cost", -0.5),
        ("seconds", float("inf")),
        ("seconds", 10**400),
        ("seconds", Fraction(1, 2)),
        ("concurrency", 0),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(what, limit):
    with pytest.raises(ConfigurationError, match=what.replace("_", " ")):
        Budget(**{what: limit})


async def test_its_time_runs_from_the_start_on_and_is_started_once(autojump_clock):
    budget = Budget(seconds=5)
    await trio.sleep(100)
    budget.check()
    budget.start()
    await trio.sleep(4)
    budget.start()
    budget.check()
    await trio.sleep(1)
    with pytest.raises(BudgetExceededError, match="5 seconds"):
        budget.check()
    assert budget.deadline == budget.statistics().deadline == 105


async def test_its_slots_go_to_who_has_waited_longest(autojump_clock):
    budget, served = Budget(concurrency=2), []

    async def call(number):
        await trio.sleep(number / 100)  # they ask one after the other
        await budget.acquire()
        served.append(number)
        await trio.sleep(1)
        budget.release()

    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(call, number)
        await trio.sleep(0.5)
        assert (budget.statistics().running, budget.statistics().waiting) == (2, 4)
    assert served == list(range(6))
    assert (budget.statistics().running, budget.statistics().waiting) == (0, 0)


async def test_a_slot_taken_beyond_the_limit_is_paid_back_before_anybody_gets_one(autojump_clock):
    budget, order = Budget(concurrency=1), []

    async def take():
        await budget.acquire()
        order.append(trio.current_time())

    await budget.acquire()
    budget.acquire_nowait()
    assert budget.statistics().running == 2
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await trio.sleep(1)
        budget.release()
        await trio.sleep(1)
        assert order == []
        budget.release()
    assert len(order) == 1
    budget.release()
    assert budget.statistics().running == 0


async def test_without_a_limit_there_is_always_a_slot():
    budget = Budget()
    for _ in range(100):
        await budget.acquire()
    budget.release()
    assert budget.statistics().running == 0


def test_it_can_be_looked_at():
    budget = Budget(tokens=10, seconds=2)
    assert repr(budget) == "Budget(seconds=2, tokens=10)"
    statistics = budget.statistics()
    assert statistics.limits == {"tokens": 10, "seconds": 2}
    assert statistics.remaining == {"tokens": 10}
    with pytest.raises(AttributeError):
        statistics.running = 1


@given(st.integers(0, 20), st.lists(st.integers(0, 5), max_size=20))
def test_it_is_spent_exactly_when_the_sum_reaches_the_limit(limit, counts):
    budget = Budget(tokens=limit)
    for count in counts:
        budget.count(tokens=count)
    assert budget.remaining == {"tokens": max(limit - sum(counts), 0)}
    if sum(counts) >= limit:
        with pytest.raises(BudgetExceededError):
            budget.check()
    else:
        budget.check()
