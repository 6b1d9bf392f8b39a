"""The clock of the kit jumps over waiting, and waits for threads that work."""

import threading
from functools import partial

import pytest
import trio

from greenroom import Agent, FileStore, tool
from greenroom.testing import ScriptedProvider, call, run_agent, run_in_virtual_time

WORK = 2_000_000  # additions: some hundredths of a second, in which the loop has nothing to do


async def measure(work):
    before = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep, 7200)
        await work()
        nursery.cancel_scope.cancel()
    return trio.current_time() - before


def test_an_hour_passes_in_no_time():
    assert run_in_virtual_time(lambda: measure(partial(trio.sleep, 3600))) == pytest.approx(3600)


@pytest.mark.parametrize("count", [1, 5])
def test_no_time_passes_while_threads_work(count):
    async def work():
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(trio.to_thread.run_sync, sum, range(WORK))

    assert run_in_virtual_time(lambda: measure(work)) == 0


def test_it_jumps_again_once_a_thread_has_ended():
    async def work():
        await trio.to_thread.run_sync(sum, range(WORK))
        await trio.sleep(10)

    assert run_in_virtual_time(lambda: measure(work)) == pytest.approx(10)


def test_a_thread_that_hangs_is_waited_for_once(monkeypatch):
    monkeypatch.setattr("greenroom.testing.virtual_time._PATIENCE", 0.01)
    release = threading.Event()

    async def work():
        with trio.move_on_after(20) as scope:
            await trio.to_thread.run_sync(release.wait, 60, abandon_on_cancel=True)
        assert scope.cancelled_caught
        monkeypatch.setattr("greenroom.testing.virtual_time._PATIENCE", 60)
        await trio.sleep(5)
        release.set()

    assert run_in_virtual_time(lambda: measure(work)) == pytest.approx(25)


@tool(timeout=30)
def add(number: int) -> int:
    """Add up."""
    return sum(range(number))


def test_a_plain_tool_has_the_time_that_it_takes(tmp_path):
    model = ScriptedProvider(call("add", number=WORK), "done")
    run = run_agent(Agent(model, tools=[add]), inputs="go", store=FileStore(tmp_path))
    assert run.history[2].tool_results[0].text == str(sum(range(WORK)))
