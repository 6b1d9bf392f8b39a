"""Delays that grow up to a limit, each shortened by chance."""

import math
import random

import pytest
from hypothesis import given, strategies as st

from greenroom.core import ConfigurationError
from greenroom.resilience import Backoff

shares = st.floats(0, 1)


def test_without_jitter_each_delay_is_longer_by_the_factor_up_to_the_limit():
    backoff = Backoff(first=0.5, factor=3.0, max_delay=10.0, jitter=0)
    assert [backoff.delay(n) for n in range(1, 6)] == [0.5, 1.5, 4.5, 10.0, 10.0]


def test_by_default_it_doubles_from_a_tenth_of_a_second_to_half_a_minute():
    backoff = Backoff(random=lambda: 0.0)
    assert [backoff.delay(n) for n in (1, 2, 3, 20)] == [0.1, 0.2, 0.4, 30.0]


@given(st.floats(0, 10), st.floats(1, 10), st.floats(10, 1e6), shares, st.integers(1, 10_000))
def test_a_delay_lies_between_what_chance_may_take_and_the_limit(first, factor, limit, jitter, n):
    whole = Backoff(first=first, factor=factor, max_delay=limit, jitter=0).delay(n)
    delay = Backoff(first=first, factor=factor, max_delay=limit, jitter=jitter).delay(n)
    assert 0 <= whole * (1 - jitter) <= delay <= whole <= limit


@pytest.mark.parametrize(("drawn", "delay"), [(0.0, 8.0), (0.5, 6.0), (0.999, 4.004)])
def test_chance_takes_its_share_of_the_delay(drawn, delay):
    backoff = Backoff(first=8.0, jitter=0.5, random=lambda: drawn)
    assert backoff.delay(1) == pytest.approx(delay)


def test_what_failed_together_does_not_come_back_together():
    backoff = Backoff(random=random.Random(1).random)
    assert len({backoff.delay(1) for _ in range(100)}) == 100


def test_delays_beyond_all_numbers_are_the_limit_and_nothing_stays_nothing():
    assert Backoff(factor=1e300, max_delay=7.0, jitter=0).delay(1000) == 7.0
    assert Backoff(first=0, factor=1e300, jitter=0).delay(1000) == 0.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"first": -1},
        {"first": 5, "max_delay": 4},
        {"max_delay": math.inf},
        {"first": math.nan},
        {"factor": 0.5},
        {"factor": math.inf},
        {"factor": math.nan},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"jitter": math.nan},
    ],
)
def test_what_is_no_back_off_is_refused(wrong):
    with pytest.raises(ConfigurationError):
        Backoff(**wrong)


def test_tries_are_counted_from_one():
    with pytest.raises(ValueError, match="from 1"):
        Backoff().delay(0)
