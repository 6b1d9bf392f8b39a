"""`RateLimit` and `ConcurrencyLimit`: fair, and never more than allowed."""

import signal

import pytest
import trio
from hypothesis import given, strategies as st
from trio.testing import MockClock

from greenroom.core import ConfigurationError
from greenroom.resilience import ConcurrencyLimit, RateLimit
from greenroom.resilience.waiting import WaitQueue

ARRIVALS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 12), st.booleans(), st.integers(0, 12)),
    min_size=1,
    max_size=25,
)
"""For each call: when it comes, estimated tokens, whether it gives up after 5 s, used tokens."""


def serve(limit, arrivals, settles):
    """Make the calls; return when each of those that began did so, in order of arrival."""
    began = {}

    async def call(number, after, tokens, impatient, used):
        await trio.sleep(after + number / 1000)  # no two come at the same time
        with trio.move_on_after(5 if impatient else float("inf")):
            reservation = await limit.acquire(tokens)
            began[number] = trio.current_time()
            if settles:
                reservation.settle(used)

    async def main():
        async with trio.open_nursery() as nursery:
            for number, arrival in enumerate(arrivals):
                nursery.start_soon(call, number, *arrival)
        assert limit.statistics().waiting == 0

    trio.run(main, clock=MockClock(autojump_threshold=0))
    order = sorted(began, key=lambda number: (arrivals[number][0], number))
    return [(number, began[number]) for number in order]


@given(ARRIVALS, st.integers(1, 4), st.integers(6, 20))
def test_in_no_stretch_of_time_there_is_more_than_allowed_and_who_came_first_is_first(
    arrivals, requests, tokens
):
    found = serve(RateLimit(requests=requests, tokens=tokens, period=10), arrivals, settles=False)
    times = [time for _, time in found]
    assert times == sorted(times)
    for start in times:
        within = [number for number, time in found if start <= time < start + 10 - 1e-6]
        assert len(within) <= requests
        assert sum(min(arrivals[number][1], tokens) for number in within) <= tokens
    patient = {number for number, (_, _, impatient, _) in enumerate(arrivals) if not impatient}
    assert patient <= {number for number, _ in found}


@given(ARRIVALS, st.integers(1, 4), st.integers(6, 20))
def test_settled_tokens_neither_let_anybody_overtake_nor_lose_anybody(arrivals, requests, tokens):
    limit = RateLimit(requests=requests, tokens=tokens, period=10)
    found = serve(limit, arrivals, settles=True)
    times = [time for _, time in found]
    assert times == sorted(times)
    assert len(found) == limit._admitted


async def test_what_was_not_used_lets_the_next_one_begin_earlier(autojump_clock):
    limit, began = RateLimit(tokens=100), []

    async def call():
        await limit.acquire(99)
        began.append(trio.current_time())

    first = await limit.acquire(100)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await trio.sleep(5)
        first.settle(0)
        first.settle(100)  # only once counts
        nursery.start_soon(call)
        await trio.sleep(1)
        assert (limit.statistics().waiting, limit.statistics().tokens) == (1, 100)
    assert began == [5.0, 65.0]


async def test_what_was_used_beyond_the_estimate_counts_from_when_it_was_used(autojump_clock):
    limit = RateLimit(tokens=100)
    reservation = await limit.acquire(10)
    await trio.sleep(50)
    reservation.settle(110)
    assert limit.statistics().tokens == 110
    await limit.acquire(100)
    assert trio.current_time() == 110


async def test_a_call_larger_than_the_limit_begins_when_nothing_else_counts(autojump_clock):
    limit = RateLimit(tokens=10)
    await limit.acquire(1)
    await limit.acquire(1000)
    assert trio.current_time() == 60


@pytest.mark.parametrize(("queued", "seconds"), [(0, 0), (2, 10), (3, 10), (4, 20), (8, 40)])
async def test_it_estimates_how_long_a_call_would_wait(queued, seconds, autojump_clock):
    limit = RateLimit(requests=2, period=10)
    async with trio.open_nursery() as nursery:
        for _ in range(queued):
            nursery.start_soon(limit.acquire)
        await trio.testing.wait_all_tasks_blocked()
        assert limit.wait_time() == seconds
        nursery.start_soon(limit.acquire)
    assert trio.current_time() == seconds


async def test_a_rate_limit_works_on_calls_and_blocks(autojump_clock):
    limit = RateLimit(requests=1, period=10)

    async def work(word):
        return word, trio.current_time()

    assert await limit.call(work, "a") == ("a", 0)
    assert await limit.call(work, "b") == ("b", 10)
    async with limit as reservation:
        reservation.settle(5)
    assert trio.current_time() == 20
    assert limit.statistics().admitted == 3
    assert repr(limit) == "RateLimit(requests=1, period=10)"


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9), st.booleans()), max_size=20),
    st.integers(1, 4),
)
def test_never_more_run_than_allowed_and_who_came_first_is_first(arrivals, most):
    limit, began, running = ConcurrencyLimit(most), [], 0

    async def call(number, after, takes, impatient):
        nonlocal running
        await trio.sleep(after + number / 1000)
        with trio.move_on_after(3 if impatient else float("inf")):
            async with limit:
                began.append((after, number))
                running += 1
                assert running <= most
                try:
                    await trio.sleep(takes)
                finally:
                    running -= 1

    async def main():
        async with trio.open_nursery() as nursery:
            for number, arrival in enumerate(arrivals):
                nursery.start_soon(call, number, *arrival)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert began == sorted(began)
    assert limit.statistics().running == limit.statistics().waiting == 0


async def test_a_concurrency_limit_works_on_calls_also_on_those_that_fail(autojump_clock):
    limit = ConcurrencyLimit(1)

    async def fail():
        raise KeyError

    for _ in range(3):
        with pytest.raises(KeyError):
            await limit.call(fail)
    assert limit.is_free


@pytest.mark.parametrize(
    "wrong",
    [{}, {"requests": 0}, {"tokens": 1.5}, {"requests": True}, {"requests": 1, "period": 0}],
)
def test_a_rate_limit_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ConfigurationError):
        RateLimit(**wrong)


@pytest.mark.parametrize("wrong", [0, 1.5, True, None])
def test_a_concurrency_limit_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ConfigurationError):
        ConcurrencyLimit(wrong)


def test_a_ctrl_c_behind_the_wait_for_a_place_leaves_it_free(monkeypatch):
    wait, limit = WaitQueue.wait, ConcurrencyLimit(1)

    async def interrupt(*arguments):
        await wait(*arguments)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(WaitQueue, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        trio.run(limit.call, trio.sleep_forever)
    assert limit.is_free
