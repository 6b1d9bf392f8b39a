"""A coroutine that runs in its caller's task keeps to itself what a task of its own would."""

from contextvars import ContextVar

import pytest
import trio
import trio.testing

from greenroom.tools.own_context import run_in_own_context

variable = ContextVar("variable", default="unset")


async def test_what_it_sets_is_not_seen_outside_and_what_is_set_outside_is_seen():
    seen = []

    async def work():
        seen.append(variable.get())
        variable.set("inner")
        await trio.lowlevel.checkpoint()
        seen.append(variable.get())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(note)

    async def note():
        seen.append(variable.get())

    token = variable.set("outer")
    await run_in_own_context(work())
    assert seen == ["outer", "inner", "inner"]
    assert variable.get() == "outer"
    variable.reset(token)  # which fails in any other context


async def test_what_it_raises_is_raised_and_a_cancel_reaches_it():
    async def fail():
        await trio.lowlevel.checkpoint()
        raise ValueError("mine")

    ended = []

    async def wait():
        try:
            await trio.sleep_forever()
        finally:
            ended.append(variable.get())

    with pytest.raises(ValueError, match="mine"):
        await run_in_own_context(fail())
    with trio.CancelScope() as scope:
        scope.cancel()
        await run_in_own_context(wait())
    assert scope.cancelled_caught
    assert ended == ["unset"]


async def test_a_thread_calls_back_in_its_own_context():
    async def work():
        variable.set("of the call")
        return await trio.to_thread.run_sync(in_thread)

    def in_thread():
        variable.set("of the thread")
        seen.append(trio.from_thread.run(read))
        seen.append(trio.from_thread.run_sync(variable.get))

    async def read():
        await trio.lowlevel.checkpoint()
        return variable.get()

    seen = []
    await run_in_own_context(work())
    assert seen == ["of the thread", "of the thread"]


async def test_a_nursery_that_it_leaves_open_is_an_error_as_in_a_task():
    async def careless():
        nursery = await trio.open_nursery().__aenter__()
        nursery.start_soon(trio.sleep_forever)

    async def run():
        await run_in_own_context(careless())

    with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="stack corrupted")):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)


async def test_it_is_seen_where_it_waits():
    async def outer():
        await run_in_own_context(inner())

    async def inner():
        await innermost()

    async def innermost():
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(outer)
        await trio.testing.wait_all_tasks_blocked()
        (task,) = nursery.child_tasks
        names = [frame.f_code.co_name for frame, _ in task.iter_await_frames()]
        assert names[:4] == ["outer", "run_in_own_context", "inner", "innermost"]
        nursery.cancel_scope.cancel()
