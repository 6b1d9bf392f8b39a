"""How many restarts fit into a window that slides."""

import pytest
from hypothesis import given, strategies as st

from greenroom.core import ConfigurationError
from greenroom.runtime.restarts import RestartWindow


@given(
    st.integers(0, 4),
    st.floats(0.5, 10),
    st.lists(st.tuples(st.floats(0, 5), st.sampled_from("abc")), max_size=40),
)
def test_no_window_ever_holds_more_than_the_intensity(intensity, period, crashes):
    window, now, admitted = RestartWindow(intensity, period), 0.0, []
    for pause, child in crashes:
        now += pause
        inside = [each for moment, each in admitted if now - moment <= period]
        count = window.add(child, now)
        assert (count is None) == (len(inside) >= intensity)
        if count is not None:
            admitted.append((now, child))
            assert count == [*inside, child].count(child)
        assert window.count(now) <= intensity


def test_a_restart_exactly_a_period_ago_still_counts():
    window = RestartWindow(1, 5.0)
    assert window.add("a", now=10.0) == 1
    assert window.add("a", now=15.0) is None
    assert window.add("a", now=15.1) == 1


def test_it_can_be_forgotten():
    window = RestartWindow(1, 5.0)
    window.add("a", now=0.0)
    window.clear()
    assert window.count(0.0) == 0
    assert window.add("a", now=0.0) == 1


@pytest.mark.parametrize(
    "wrong", [(-1, 5.0), (float("nan"), 5.0), (3, 0.0), (3, -1.0), (3, float("nan"))]
)
def test_what_is_no_window_is_refused(wrong):
    with pytest.raises(ConfigurationError):
        RestartWindow(*wrong)


def test_a_restart_exactly_a_period_ago_counts_whatever_floats_make_of_it():
    window = RestartWindow(intensity=1, period=5.0)
    assert window.add("a", now=0.619684095503932) == 1
    assert window.add("a", now=5.619684095503932) is None
