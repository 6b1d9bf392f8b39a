"""What tokens cost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom.core import ConfigurationError, Price, Usage

tokens = st.none() | st.integers(0, 10**9)
usages = st.builds(Usage, tokens, tokens, tokens, tokens)


def test_each_kind_of_token_has_its_price():
    price = Price(input=1, output=2, cache_read=4, cache_write=8)
    million = 1_000_000
    assert price.cost(Usage(million, million, million, million)) == 15
    assert price.cost(Usage()) == 0


def test_cached_tokens_cost_as_much_as_others_where_nothing_else_is_said():
    assert Price(3, 15).cost(Usage(None, None, 1_000_000, 1_000_000)) == 6


def test_a_price_of_nothing_is_free():
    assert Price(0, 0).is_free
    assert not Price(0, 0, cache_write=1).is_free


@given(usages, usages)
def test_the_cost_of_a_sum_is_the_sum_of_the_costs(one, two):
    price = Price(3, 15, 0.3, 3.75)
    together = price.charged(one) + price.charged(two)
    assert together.cost == pytest.approx(price.cost(one + two))


def test_a_usage_without_a_price_has_no_cost():
    assert (Usage(1, 1) + Usage(2, 2)).cost is None
    assert (Usage(1, 1) + Price(0, 0).charged(Usage(1, 1))).cost == 0


@pytest.mark.parametrize("price", [-1, float("inf"), float("nan")])
def test_what_is_no_price_is_refused(price):
    with pytest.raises(ConfigurationError, match="no price"):
        Price(1, price)
