"""`Retry`: how often, when, and when not."""

import itertools
import math
import random

import pytest
import trio
from trio.testing import MockClock

from greenroom.core import BudgetExceededError, ConfigurationError
from greenroom.llm import ModelBadRequestError, ModelOverloadedError, ModelRateLimitError
from greenroom.resilience import Backoff, CircuitOpenError, Retry
from greenroom.resilience._internal import UseMeter

EVEN = Backoff(first=1.0, max_delay=30.0, jitter=0)


class Flaky:
    """Fails with these errors one after the other, then returns."""

    def __init__(self, *errors):
        self.errors, self.times = list(errors), []

    async def __call__(self, *args):
        self.times.append(trio.current_time())
        await trio.lowlevel.checkpoint()
        if self.errors:
            raise self.errors.pop(0)
        return args


def overload_errors(count):
    return [ModelOverloadedError("busy") for _ in range(count)]


def rate_limit_error(seconds):
    return ModelRateLimitError("slow down", retry_after=seconds)


async def test_it_calls_until_it_works_after_delays_that_grow(autojump_clock):
    call = Flaky(*overload_errors(3))
    assert await Retry(backoff=EVEN).call(call, "a", "b") == ("a", "b")
    assert call.times == [0, 1, 3, 7]


async def test_the_last_error_is_raised_and_says_how_often_it_was_tried(autojump_clock):
    errors = overload_errors(5)
    call = Flaky(*errors)
    with pytest.raises(ModelOverloadedError) as caught:
        await Retry(attempts=3, backoff=EVEN).call(call)
    assert caught.value is errors[2]
    assert caught.value.hint == "try again later; 3 attempts failed"
    assert len(call.times) == 3


@pytest.mark.parametrize(
    "error", [ModelBadRequestError("no"), KeyError("a bug"), trio.TooSlowError()]
)
async def test_what_would_fail_again_is_not_retried_and_says_nothing_new(error, autojump_clock):
    call = Flaky(error)
    with pytest.raises(type(error)) as caught:
        await Retry().call(call)
    assert len(call.times) == 1
    assert not getattr(caught.value, "__notes__", None)


async def test_the_caller_may_say_what_is_retried(autojump_clock):
    call = Flaky(ConnectionError(), ConnectionError())
    retry = Retry(attempts=2, backoff=EVEN, retryable=lambda error: isinstance(error, OSError))
    with pytest.raises(ConnectionError) as caught:
        await retry.call(call)
    assert caught.value.__notes__ == ["2 attempts failed"]


async def test_a_group_is_retried_when_each_of_its_errors_is(autojump_clock):
    call = Flaky(ExceptionGroup("two", [*overload_errors(1), rate_limit_error(5.0)]))
    await Retry(backoff=EVEN).call(call)
    assert call.times == [0, 6]
    with pytest.raises(ExceptionGroup):
        await Retry().call(Flaky(ExceptionGroup("two", [*overload_errors(1), KeyError()])))


async def test_what_the_error_asks_to_wait_comes_before_the_delay(autojump_clock):
    call = Flaky(
        rate_limit_error(20.0), rate_limit_error(None), CircuitOpenError("open", retry_after=7.0)
    )
    await Retry(backoff=EVEN).call(call)
    assert call.times == [0, 21, 23, 34]


async def test_a_wait_longer_than_the_time_left_is_not_begun(autojump_clock):
    call = Flaky(rate_limit_error(61.0))
    with pytest.raises(ModelRateLimitError) as caught:
        await Retry(deadline=60).call(call)
    assert (
        caught.value.hint.partition("; ")[2]
        == "a wait of 61 s would pass the 60 s in which attempts may begin"
    )
    assert trio.current_time() == 0


async def test_a_long_wait_is_told_in_whole_seconds(autojump_clock):
    with pytest.raises(ModelRateLimitError, match="a wait of 86400 s would pass the 600 s"):
        await Retry().call(Flaky(rate_limit_error(86_400.0)))


async def test_a_wait_that_just_fits_is_cut_to_the_time_left_but_never_below_what_was_asked(
    autojump_clock,
):
    call = Flaky(rate_limit_error(59.5))
    await Retry(deadline=60, backoff=EVEN).call(call)
    assert call.times == [0, 60]


async def test_no_attempt_begins_after_its_time_and_none_is_cut_off(autojump_clock):
    times = []

    async def slow():
        times.append(trio.current_time())
        await trio.sleep(25)
        raise ModelOverloadedError("busy")

    with pytest.raises(
        ModelOverloadedError, match="3 attempts failed; a wait of 4 s would pass the 60 s"
    ):
        await Retry(attempts=100, deadline=60, backoff=EVEN).call(slow)
    assert times == [0, 26, 53]
    assert trio.current_time() == 78


async def test_no_wait_begins_that_a_deadline_would_cut_off(autojump_clock):
    call = Flaky(rate_limit_error(10.0))
    with (
        trio.fail_after(10),
        pytest.raises(ModelRateLimitError, match="would pass the deadline in 10 s"),
    ):
        await Retry().call(call)
    assert trio.current_time() == 0


async def test_a_cancel_ends_the_wait_at_once_and_is_never_retried(autojump_clock):
    call = Flaky(*overload_errors(3))
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Retry(backoff=EVEN).call, call)
            await trio.sleep(0.5)
            scope.cancel()
    assert (len(call.times), trio.current_time()) == (1, 0.5)
    with trio.CancelScope() as scope:
        scope.cancel()
        await Retry(backoff=EVEN).call(call)
    assert scope.cancelled_caught


async def test_after_a_cancel_the_error_does_not_take_its_place(autojump_clock):
    async def fail():
        scope.cancel()
        raise ModelOverloadedError("busy")

    with trio.CancelScope() as scope:
        await Retry(backoff=EVEN).call(fail)
    assert scope.cancelled_caught


def test_the_delays_are_spread_evenly_over_what_they_may_be():
    waits = {1: [], 2: [], 3: []}
    chance = random.Random(7)
    retry = Retry(backoff=Backoff(first=0.5, jitter=1.0, random=chance.random))

    async def main():
        for _ in range(400):
            call = Flaky(*overload_errors(3))
            await retry.call(call)
            for n, found in waits.items():
                found.append(call.times[n] - call.times[n - 1])

    trio.run(main, clock=MockClock(autojump_threshold=0))
    for n, found in waits.items():
        whole = 0.5 * 2 ** (n - 1)
        assert 0 <= min(found) < 0.05 * whole
        assert 0.95 * whole < max(found) <= whole
        # A uniform share has a mean of 1/2 and a deviation of 1/sqrt(12).
        assert abs(sum(found) / len(found) / whole - 0.5) < 4 / math.sqrt(12 * len(found))


async def test_by_default_it_holds_out_for_ten_minutes_with_waits_of_a_second_and_more(
    autojump_clock,
):
    call = Flaky(*overload_errors(1000))
    with pytest.raises(ModelOverloadedError, match="would pass the 600 s"):
        await Retry().call(call)
    waits = [after - before for before, after in itertools.pairwise(call.times)]
    assert 20 < len(waits) < 50
    assert 1 <= min(waits) <= max(waits) <= 30
    assert 570 < call.times[-1] <= 600


async def test_by_default_it_jitters_and_what_failed_together_comes_back_apart(
    autojump_clock,
):
    calls = [Flaky(rate_limit_error(5.0)) for _ in range(50)]
    async with trio.open_nursery() as nursery:
        for call in calls:
            nursery.start_soon(Retry().call, call)
    again = [call.times[1] for call in calls]
    assert len(set(again)) == 50
    assert 6 <= min(again) < max(again) <= 7


async def test_three_nested_retries_make_the_attempts_of_one(autojump_clock):
    retry = Retry(attempts=3, backoff=EVEN)
    call = Flaky(*overload_errors(100))
    with pytest.raises(
        ModelOverloadedError, match=r"^busy \(try again later; 3 attempts failed\)$"
    ):
        await retry.call(retry.call, retry.call, call)
    assert call.times == [0, 1, 3]


async def test_an_error_is_passed_on_even_if_only_the_inner_one_would_retry_it(autojump_clock):
    inner, outer = Retry(attempts=3), Retry(attempts=3, retryable=lambda _: False)
    call = Flaky(*overload_errors(100))
    with pytest.raises(ModelOverloadedError):
        await outer.call(inner.call, call)
    assert len(call.times) == 1


async def test_tasks_that_an_attempt_waits_for_are_part_of_it(autojump_clock):
    call = Flaky(*overload_errors(100))

    async def spread():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Retry(attempts=5, backoff=EVEN).call, call)

    with pytest.RaisesGroup(ModelOverloadedError):
        await Retry(attempts=2, backoff=EVEN).call(spread)
    assert len(call.times) == 2


async def test_tasks_that_outlive_an_attempt_retry_for_themselves(autojump_clock):
    during, after, release = Flaky(*overload_errors(2)), Flaky(*overload_errors(2)), trio.Event()
    retry = Retry(attempts=3, backoff=EVEN)

    async def later():
        await release.wait()
        await retry.call(after)

    async def spawn():
        nursery.start_soon(retry.call, during)
        nursery.start_soon(later)
        await trio.sleep(10)

    async with trio.open_nursery() as nursery:
        await retry.call(spawn)
        release.set()
    assert during.times == [0, 1, 3]
    assert after.times == [10, 11, 13]


async def test_a_thread_of_an_attempt_that_calls_back_is_part_of_it():
    call = Flaky(*overload_errors(100))
    quick = Retry(attempts=2, backoff=Backoff(first=0))

    def work():
        trio.from_thread.run(quick.call, call)

    with pytest.raises(ModelOverloadedError):
        await quick.call(trio.to_thread.run_sync, work)
    assert len(call.times) == 2


async def test_calls_one_after_the_other_have_their_attempts_each(autojump_clock):
    retry = Retry(attempts=2, backoff=EVEN)
    for _ in range(3):
        call = Flaky(*overload_errors(1))
        await retry.call(call)
        assert len(call.times) == 2


class Meter:
    """Refuses what a test says, and notes what it is asked."""

    def __init__(self, attempts=math.inf, seconds=math.inf):
        self.attempts, self.seconds, self.begun = attempts, seconds, 0

    def check_wait(self, seconds):
        if seconds > self.seconds:
            raise BudgetExceededError("time")

    def check_attempt(self):
        if self.begun >= self.attempts:
            raise BudgetExceededError("attempts")

    def begin_attempt(self):
        self.check_attempt()
        self.begun += 1


async def test_what_limits_the_work_is_asked_before_each_wait(autojump_clock):
    meter, errors = Meter(attempts=2), overload_errors(10)
    call = Flaky(*errors)
    with UseMeter(meter), pytest.raises(BudgetExceededError, match="attempts") as caught:
        await Retry(attempts=10, backoff=EVEN).call(call)
    assert caught.value.__cause__ is errors[2]
    assert (call.times, trio.current_time(), meter.begun) == ([0, 1, 3], 3, 2)
    with UseMeter(Meter(seconds=5)), pytest.raises(BudgetExceededError, match="time"):
        await Retry(backoff=EVEN).call(Flaky(rate_limit_error(9.0)))
    assert trio.current_time() == 3


async def test_what_others_have_spent_during_the_wait_counts(autojump_clock):
    meter, error = Meter(), ModelOverloadedError("busy")

    async def spend():
        await trio.sleep(0.5)
        meter.attempts = 0

    async with trio.open_nursery() as nursery:
        nursery.start_soon(spend)
        with UseMeter(meter), pytest.raises(BudgetExceededError) as caught:
            await Retry(backoff=EVEN).call(Flaky(error))
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"attempts": 1.5},
        {"attempts": True},
        {"deadline": -1},
        {"deadline": math.nan},
    ],
)
def test_what_is_not_a_retry_is_refused(wrong):
    with pytest.raises(ConfigurationError):
        Retry(**wrong)
