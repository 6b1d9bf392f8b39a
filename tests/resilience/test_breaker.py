"""`CircuitBreaker`: closed, open, half open."""

import gc
from weakref import ref

import pytest
import trio
import trio.testing

from greenroom.core import ConfigurationError
from greenroom.llm import ModelBadRequestError, ModelOverloadedError
from greenroom.resilience import Backoff, CircuitBreaker, CircuitOpenError, Retry
from greenroom.resilience._internal import CircuitState


async def fail(error=None):
    await trio.lowlevel.checkpoint()
    raise error or ModelOverloadedError("busy")


async def work(seconds=0.0):
    await trio.sleep(seconds)
    return "done"


async def open_it(breaker, failures=3):
    for _ in range(failures):
        with pytest.raises(ModelOverloadedError):
            await breaker.call(fail)


def a_breaker(**options):
    return CircuitBreaker("vendor", **{"failures": 3, "period": 60, "cooldown": 30} | options)


async def test_it_opens_after_so_many_failures_in_a_row_and_then_nothing_is_called(autojump_clock):
    breaker = a_breaker()
    await open_it(breaker, 2)
    assert breaker.state is CircuitState.CLOSED
    await open_it(breaker, 1)
    assert breaker.state is CircuitState.OPEN
    await trio.sleep(10)
    with pytest.raises(CircuitOpenError, match="vendor has failed 3 times") as caught:
        await breaker.call(work)
    assert (caught.value.target, caught.value.retry_after) == ("vendor", 20)
    statistics = breaker.statistics()
    assert (statistics.failed, statistics.refused, statistics.opened) == (3, 1, 1)
    assert (statistics.retry_after, statistics.failures) == (20, 3)


async def test_half_open_it_lets_one_probe_through_and_closes_when_that_succeeds(autojump_clock):
    breaker = a_breaker()
    await open_it(breaker)
    await trio.sleep(30)
    assert breaker.state is CircuitState.HALF_OPEN
    async with trio.open_nursery() as nursery:
        nursery.start_soon(breaker.call, work, 5)
        await trio.sleep(1)
        for _ in range(3):
            with pytest.raises(CircuitOpenError, match="when its probe has ended"):
                await breaker.call(work)
    assert breaker.state is CircuitState.CLOSED
    assert await breaker.call(work) == "done"
    assert breaker.statistics().failures == 0


async def test_a_probe_that_fails_opens_it_again_for_its_whole_time(autojump_clock):
    breaker = a_breaker()
    await open_it(breaker)
    await trio.sleep(30)
    with pytest.raises(ModelOverloadedError):
        await breaker.call(fail)
    assert breaker.state is CircuitState.OPEN
    assert breaker.statistics().retry_after == 30


async def test_a_probe_that_is_cancelled_leaves_its_place_to_the_next_call(autojump_clock):
    breaker = a_breaker()
    await open_it(breaker)
    await trio.sleep(30)
    with trio.move_on_after(1):
        await breaker.call(work, 10)
    assert breaker.state is CircuitState.HALF_OPEN
    await breaker.call(work)
    assert breaker.state is CircuitState.CLOSED


async def test_a_probe_that_never_ends_does_not_keep_it_half_open(autojump_clock):
    breaker = a_breaker()
    await open_it(breaker)
    await trio.sleep(30)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(breaker.call, work, 1000)
        await trio.sleep(30)
        await breaker.call(work)
        assert breaker.state is CircuitState.CLOSED
        nursery.cancel_scope.cancel()


async def test_probes_that_take_longer_than_the_cooldown_close_it_too(autojump_clock):
    breaker = a_breaker()
    await open_it(breaker)
    await trio.sleep(30)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(breaker.call, work, 40)
        await trio.sleep(31)
        nursery.start_soon(breaker.call, work, 40)
        await trio.sleep(10)  # the first has succeeded, and the second is still running
        assert breaker.state is CircuitState.CLOSED


async def test_a_slow_probe_of_an_earlier_opening_says_nothing_about_the_next(autojump_clock):
    breaker = a_breaker()
    await open_it(breaker)
    await trio.sleep(30)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(breaker.call, work, 40)
        await trio.sleep(31)
        with pytest.raises(ModelOverloadedError):
            await breaker.call(fail)
        await trio.sleep(10)
        assert breaker.state is CircuitState.OPEN


async def test_a_task_that_is_refused_is_not_kept(autojump_clock):
    breaker = a_breaker(failures=1)
    await open_it(breaker, 1)
    tasks = []

    async def try_it():
        tasks.append(ref(trio.lowlevel.current_task()))
        with pytest.raises(CircuitOpenError):
            await breaker.call(work)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(try_it)
    await trio.testing.wait_all_tasks_blocked()
    gc.collect()
    assert tasks[0]() is None


async def test_a_call_from_before_it_opened_does_not_close_it(autojump_clock):
    breaker = a_breaker()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(breaker.call, work, 5)
        await trio.sleep(1)
        await open_it(breaker)
        await trio.sleep(10)
    assert breaker.statistics().running == 0
    assert breaker.state is CircuitState.OPEN


async def test_a_success_between_failures_and_time_between_them_keep_it_closed(autojump_clock):
    breaker = a_breaker()
    for _ in range(3):
        await open_it(breaker, 2)
        await breaker.call(work)
    await open_it(breaker, 2)
    await trio.sleep(61)
    await open_it(breaker, 1)
    assert breaker.state is CircuitState.CLOSED


async def test_what_speaks_against_the_call_does_not_count_against_the_target(autojump_clock):
    breaker = a_breaker(failures=1)
    with pytest.raises(ModelBadRequestError):
        await breaker.call(fail, ModelBadRequestError("no such field"))
    assert breaker.state is CircuitState.CLOSED
    with pytest.raises(ZeroDivisionError):
        await breaker.call(fail, ZeroDivisionError())
    assert breaker.state is CircuitState.OPEN


async def test_a_breaker_inside_a_breaker_does_not_open_it(autojump_clock):
    inner, outer = a_breaker(failures=1), a_breaker(failures=1)
    await open_it(inner, 1)
    with pytest.raises(CircuitOpenError):
        await outer.call(inner.call, work)
    assert outer.state is CircuitState.CLOSED


async def test_it_is_a_block_too_and_blocks_of_one_task_may_nest(autojump_clock):
    breaker = a_breaker(failures=1)
    async with breaker, breaker:
        assert breaker.statistics().running == 2
    with pytest.raises(ModelOverloadedError):
        async with breaker:
            await fail()
    with pytest.raises(CircuitOpenError):
        async with breaker:
            pytest.fail("the block ran")
    assert breaker.statistics().running == 0


async def test_a_retry_waits_until_it_lets_a_call_through(autojump_clock):
    breaker, times = a_breaker(failures=1), []

    async def flaky():
        times.append(trio.current_time())
        if len(times) == 1:
            raise ModelOverloadedError("busy")
        return "done"

    retry = Retry(backoff=Backoff(first=1, jitter=0))
    assert await retry.call(breaker.call, flaky) == "done"
    # The first is refused after a second, and then comes when the circuit is half open.
    assert times == [0, 32]
    assert breaker.statistics().refused == 1


@pytest.mark.parametrize(
    "wrong", [{"failures": 0}, {"failures": True}, {"cooldown": -1}, {"period": float("inf")}]
)
def test_what_is_not_a_breaker_is_refused(wrong):
    with pytest.raises(ConfigurationError):
        CircuitBreaker("vendor", **wrong)
