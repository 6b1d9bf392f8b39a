"""`Budget` alone: a counter with limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.core import BudgetExceededError
from greenroom.resilience import Budget


def test_without_limits_nothing_is_ever_spent():
    budget = Budget()
    budget.count(model_calls=10**9, tokens=10**9)
    budget.check()
    assert budget.left == {}


def test_it_names_what_is_spent():
    budget = Budget(model_calls=5, tokens=10)
    budget.count(tokens=11)
    with pytest.raises(BudgetExceededError, match="10 tokens"):
        budget.check()
    assert budget.left == {"model calls": 5, "tokens": 0}


@given(st.integers(0, 20), st.lists(st.integers(0, 5), max_size=20))
def test_it_is_spent_exactly_when_the_sum_reaches_the_limit(limit, counts):
    budget = Budget(tokens=limit)
    for count in counts:
        budget.count(tokens=count)
    assert budget.left == {"tokens": max(limit - sum(counts), 0)}
    if sum(counts) >= limit:
        with pytest.raises(BudgetExceededError):
            budget.check()
    else:
        budget.check()
