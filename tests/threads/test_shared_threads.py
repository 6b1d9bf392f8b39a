"""Work that shares threads: how much at once, in which order, and what ends it."""

import threading
from contextvars import ContextVar
from functools import partial

import pytest
import trio
import trio.testing

from greenroom.threads._internal import SharedThreads

LONG = 60.0  # seconds: a safety net


@pytest.fixture
def threads():
    return SharedThreads("tests", 2)


class Held:
    """Work that says when it has begun, and ends when it is let."""

    def __init__(self, result=None):
        self.result = result
        self.began = threading.Event()
        self.may_end = threading.Event()
        self.has_ended = threading.Event()

    def __call__(self):
        self.began.set()
        assert self.may_end.wait(LONG)
        self.has_ended.set()
        return self.result


async def run_into(threads, work, results):
    results.append(await threads.run(work))


async def begin(nursery, threads, works, results):
    """Run each in a task of its own, in this order, until all of them are in threads or wait."""
    for work in works:
        nursery.start_soon(run_into, threads, work, results)
        await trio.testing.wait_all_tasks_blocked()


async def test_results_and_errors_come_back(threads):
    name = ContextVar("name", default="")
    name.set("outside")
    assert await threads.run(name.get) == "outside"
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)
    with pytest.raises(SystemExit):
        await threads.run(partial(exit, 3))
    assert await threads.run(threading.get_ident) != threading.get_ident()


async def test_what_is_too_much_waits_in_order(threads):
    works, results = [Held(number) for number in range(5)], []
    async with trio.open_nursery() as nursery:
        await begin(nursery, threads, works, results)
        assert threads.figures() == (2, 3, 2)
        assert not any(work.began.is_set() for work in works[2:])
        for number, work in enumerate(works):
            assert await trio.to_thread.run_sync(work.began.wait, LONG)
            work.may_end.set()
            while number not in results:
                await trio.testing.wait_all_tasks_blocked()
                await trio.lowlevel.checkpoint()
    assert results == [0, 1, 2, 3, 4]
    assert threads.figures().waiting == 0


async def test_a_thread_goes_on_without_the_event_loop(threads):
    works = [Held(number) for number in range(4)]
    results = []
    async with trio.open_nursery() as nursery:
        await begin(nursery, threads, works, results)
        for work in works:
            work.may_end.set()
        assert all(work.has_ended.wait(LONG) for work in works)  # the loop is held up
        assert results == []
    assert sorted(results) == [0, 1, 2, 3]


async def test_what_waits_is_withdrawn_by_a_cancel(threads):
    works, late = [Held(), Held()], Held()
    async with trio.open_nursery() as nursery:
        await begin(nursery, threads, works, [])
        with trio.move_on_after(0) as scope:
            await threads.run(late)
        assert scope.cancelled_caught
        with trio.CancelScope() as scope:
            nursery.start_soon(wait_then_cancel, scope)
            await threads.run(late)
        assert scope.cancelled_caught
        assert threads.figures() == (2, 0, 2)
        for work in works:
            work.may_end.set()
    assert not late.began.is_set()


async def wait_then_cancel(scope):
    await trio.testing.wait_all_tasks_blocked()
    scope.cancel()


async def test_what_runs_comes_to_its_end_despite_a_cancel(threads):
    work, results = Held("kept"), []
    async with trio.open_nursery() as nursery:
        await begin(nursery, threads, [work], results)
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await trio.testing.wait_all_tasks_blocked()
            assert not work.has_ended.is_set()
            work.may_end.set()
    assert results == ["kept"]


async def test_without_a_thread_nothing_is_left_behind(threads, monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(trio.lowlevel, "start_thread_soon", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            await threads.run(lambda: None)
    assert threads.figures() == (0, 0, 2)
    assert await threads.run(lambda: "again") == "again"


def test_each_run_of_trio_has_its_own(threads):
    def run():
        assert trio.run(threads.run, lambda: 5) == 5

    others = [threading.Thread(target=run) for _ in range(3)]
    for each in others:
        each.start()
    run()
    for each in others:
        each.join(LONG)
    assert not any(each.is_alive() for each in others)
