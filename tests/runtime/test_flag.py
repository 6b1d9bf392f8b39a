"""A flag that tasks can wait for."""

import trio
from trio.testing import assert_checkpoints, wait_all_tasks_blocked

from greenroom.runtime.tasks import Flag


async def test_it_wakes_all_who_wait(nursery):
    flag, woken = Flag(), []

    async def wait(name):
        await flag.wait()
        woken.append(name)

    for name in ("first", "second"):
        nursery.start_soon(wait, name)
    await wait_all_tasks_blocked()
    assert not flag.is_set()
    flag.set()
    flag.set()
    await wait_all_tasks_blocked()
    assert flag.is_set()
    assert sorted(woken) == ["first", "second"]


async def test_who_comes_late_passes_a_checkpoint_only():
    flag = Flag()
    flag.set()
    with trio.fail_after(60), assert_checkpoints():
        await flag.wait()


async def test_a_cancel_ends_the_wait_and_not_that_of_others(nursery):
    flag, woken = Flag(), trio.Event()

    async def wait():
        await flag.wait()
        woken.set()

    nursery.start_soon(wait)
    with trio.CancelScope() as scope:
        scope.cancel()
        await flag.wait()
    flag.set()
    await woken.wait()
    assert scope.cancelled_caught
