"""The scope of an agent, which is another one in each of its lives."""

import trio
from trio.testing import MockClock

from greenroom.runtime.tasks import Reach


async def test_a_cancel_ends_the_scope_that_it_is_in_and_each_one_after_it():
    reach = Reach()
    with trio.CancelScope() as first:
        reach.enter(first)
        reach.cancel()
        await trio.sleep_forever()
    with trio.CancelScope() as second:
        reach.enter(second)
        await trio.sleep_forever()
    assert first.cancelled_caught
    assert second.cancelled_caught
    assert reach.is_cancelled


async def test_a_cancel_before_it_runs_ends_it_at_its_first_checkpoint():
    reach = Reach()
    reach.cancel()
    with trio.CancelScope() as scope:
        reach.enter(scope)
        await trio.lowlevel.checkpoint_if_cancelled()
    assert scope.cancelled_caught


async def test_the_earliest_deadline_holds_in_each_scope(autojump_clock: MockClock):
    reach, begin = Reach(), trio.current_time()
    reach.end_by(begin + 5)
    with trio.CancelScope() as first:
        reach.enter(first)
        reach.end_by(begin + 2)
        reach.end_by(begin + 9)
        await trio.sleep(1)
    with trio.CancelScope() as second:
        reach.enter(second)
        await trio.sleep_forever()
    assert trio.current_time() == begin + 2
    assert second.cancelled_caught
    assert not reach.is_cancelled
