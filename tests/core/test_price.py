"""What tokens cost."""

from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

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
    together = price.charge(one) + price.charge(two)
    assert together.cost == pytest.approx(price.cost(one + two))


def test_a_usage_without_a_price_has_no_cost():
    assert (Usage(1, 1) + Usage(2, 2)).cost is None
    assert (Usage(1, 1) + Price(0, 0).charge(Usage(1, 1))).cost == 0


@pytest.mark.parametrize("price", [-1, float("inf"), float("nan"), Decimal(1), "1"])
def test_what_is_no_price_is_refused(price):
    with pytest.raises(ConfigurationError, match=r"not a price.*an int or a float"):
        Price(1, price)


def test_what_a_cache_saved_is_what_it_would_cost_without_one():
    price = Price(input=3, output=15, cache_read=0.3, cache_write=3.75)
    million = 1_000_000
    assert price.charge(Usage(million, million, million, 0)).saved == pytest.approx(2.7)
    assert price.charge(Usage(0, 0, 0, million)).saved == pytest.approx(-0.75)
    assert price.charge(Usage(million, million)).saved is None
    assert Price(3, 15).charge(Usage(1, 1, million)).saved == 0


@pytest.mark.parametrize(
    ("usage", "share", "note"),
    [
        (Usage(), None, ""),
        (Usage(5000, 10), None, ""),  # nothing is reported of a cache
        (Usage(100, 10, 0, 0), 0, ""),  # too little to be cached
        (Usage(5000, 10, 0, 0), 0, "cache miss"),
        (Usage(10, 10, 0, 5000), 0, "cache miss"),
        (Usage(5, 10, 995, 0), 0.995, "cache 99 %"),
        (Usage(0, 10, 7, None), 1, "cache 100 %"),
    ],
)
def test_a_miss_is_something_else_than_no_report(usage, share, note):
    assert (usage.cache_share, usage.cache_note) == (share, note)
    assert usage.is_cache_miss is (note == "cache miss")
