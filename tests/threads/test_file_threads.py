"""Work in threads up to a limit: in which order it begins."""

import trio
import trio.testing

from greenroom.threads._internal import FileThreads


class Steps(trio.abc.Instrument):
    """Counts how often a task went on."""

    def __init__(self, task):
        self.count, self._task = 0, task

    def before_task_step(self, task):
        self.count += task is self._task


async def test_where_there_is_room_work_begins_in_the_pass_that_asks_for_it():
    """Trio shuffles the tasks of a pass: after another one, threads would begin in any order."""
    threads = FileThreads("tests", 2)
    steps = Steps(trio.lowlevel.current_task())
    trio.lowlevel.add_instrument(steps)
    assert await threads.run(lambda: "done") == "done"
    trio.lowlevel.remove_instrument(steps)
    assert steps.count == 1  # it only went on with the result


async def test_where_there_is_no_room_work_waits_its_turn():
    threads, begun = FileThreads("tests", 1), []

    async def work(number):
        await threads.run(lambda: begun.append(number))

    await threads.limiter.acquire()
    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(work, number)
            await trio.testing.wait_all_tasks_blocked()
        assert begun == []
        threads.limiter.release()
    assert begun == [0, 1, 2, 3, 4]
