"""Tools that a cancel breaks, each in one way, under the invariant that has to find it.

Each is a function that makes the tool anew, with the state that it keeps.
"""

import os
import socket
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import trio

from greenroom.core import AgentContext, ToolError
from greenroom.tools import tool

CARELESS = {}
"""The makers of the tools, and the names of the invariants that have to find them."""

LEFT = []
"""Calls that end the processes and threads a tool has left behind."""

JOBS = set()


def found_by(*invariants):
    """Register a maker under the invariants that have to find its tool."""

    def register(make):
        CARELESS[make.__name__] = (make, set(invariants))
        return make

    return register


@found_by("calls_end_as_before")
def a_lock_that_is_kept():
    lock = trio.Lock()

    @tool
    async def press() -> str:
        """Press."""
        await lock.acquire()
        await trio.sleep(1)
        lock.release()
        return "pressed"

    return press


@found_by("calls_end_as_before")
def a_lock_of_its_own_making_that_is_kept():
    free = trio.Event()
    free.set()

    @tool
    async def press() -> str:
        """Press."""
        nonlocal free
        await free.wait()
        free = trio.Event()
        await trio.sleep(1)
        free.set()
        return "pressed"

    return press


@found_by("no_call_is_stuck")
def a_lock_that_is_kept_where_nothing_times_out():
    free = trio.Event()
    free.set()

    @tool(timeout=float("inf"))
    async def press() -> str:
        """Press."""
        nonlocal free
        await free.wait()
        free = trio.Event()
        await trio.sleep(1)
        free.set()
        return "pressed"

    return press


@found_by("calls_take_no_longer")
def a_lease_that_is_kept_until_it_ends():
    lease = 0.0

    @tool
    async def press() -> str:
        """Press."""
        nonlocal lease
        await trio.sleep_until(lease)
        lease = trio.current_time() + 20
        await trio.sleep(1)
        lease = 0.0
        return "pressed"

    return press


@found_by("calls_end_as_before")
def a_semaphore_that_is_not_released():
    slots = trio.Semaphore(1)

    @tool
    async def press() -> str:
        """Press."""
        await slots.acquire()
        await trio.sleep(1)
        slots.release()
        return "pressed"

    return press


class Press:
    """A tool that is a method, with its state beside it."""

    def __init__(self):
        self.lock = threading.Lock()
        self.busy = False
        self.running = 0
        self.orders = {}
        self.connection = None
        self.press = tool(self.press)

    async def press(self, apples: int = 1) -> str:
        """Press."""
        raise NotImplementedError


@found_by("calls_end_as_before")
def a_lock_of_threads_that_is_kept():
    class Locked(Press):
        async def press(self) -> str:
            """Press."""
            if not self.lock.acquire(blocking=False):
                raise ToolError("busy")
            await trio.sleep(1)
            self.lock.release()
            return "pressed"

    return Locked().press


@found_by("calls_end_as_before")
def a_flag_that_stays_up():
    class Flagged(Press):
        async def press(self) -> str:
            """Press."""
            if self.busy:
                raise ToolError("busy")
            self.busy = True
            await trio.sleep(1)
            self.busy = False
            return "pressed"

    return Flagged().press


@found_by("calls_end_as_before")
def a_counter_that_is_not_counted_down():
    class Counted(Press):
        async def press(self) -> str:
            """Press."""
            if self.running == 1:
                raise ToolError("one at a time")
            self.running += 1
            await trio.sleep(1)
            self.running -= 1
            return "pressed"

    return Counted().press


@found_by("calls_end_as_before")
def an_entry_that_stays_in_a_registry():
    class Registered(Press):
        async def press(self, apples: int) -> str:
            """Press."""
            if apples in self.orders:
                return f"{apples} are being pressed"
            self.orders[apples] = "running"
            await trio.sleep(1)
            del self.orders[apples]
            return "pressed"

    return Registered().press


@found_by("runs_are_separate", "calls_end_as_before")
def an_entry_that_stays_in_a_registry_of_the_module():
    @tool
    async def press() -> str:
        """Press."""
        if JOBS:
            raise ToolError("busy")
        JOBS.add("pressing")
        await trio.sleep(1)
        JOBS.clear()
        return "pressed"

    LEFT.append(JOBS.clear)
    return press


@found_by("no_file_is_left")
def a_temporary_file_that_is_left():
    @tool
    async def press() -> str:
        """Press."""
        descriptor, path = tempfile.mkstemp()
        os.close(descriptor)
        await trio.sleep(1)
        os.remove(path)
        return "pressed"

    return press


@found_by("no_file_is_left")
def a_lock_file_that_is_left_until_the_next_call():
    @tool
    async def press(context: AgentContext) -> str:
        """Press."""
        path = context.workspace.root / "press.lock"
        path.write_text("busy")
        await trio.sleep(1)
        path.unlink()
        return "pressed"

    return press


@found_by("files_are_whole")
def a_file_that_is_half_written():
    @tool
    async def press(context: AgentContext) -> str:
        """Press."""
        path = context.workspace.root / "juice.json"
        path.write_text("[")
        await trio.sleep(1)
        path.write_text("[1]")
        return "pressed"

    return press


@found_by("files_are_whole")
def a_file_that_is_removed_before_it_is_written():
    @tool
    async def press(context: AgentContext) -> str:
        """Press."""
        path = context.workspace.root / "apples.txt"
        text = path.read_text()
        path.unlink()
        await trio.sleep(1)
        path.write_text(text)
        return "pressed"

    return press


@found_by("no_process_is_left")
def a_process_that_is_left():
    @tool
    async def press() -> str:
        """Press."""
        process = subprocess.Popen(["sleep", "60"])  # noqa: ASYNC220 (what it does wrong)
        LEFT.append(lambda: (process.kill(), process.wait()))
        await trio.sleep(1)
        process.kill()
        process.wait()
        return "pressed"

    return press


@found_by("no_thread_is_left")
def a_thread_that_is_left():
    @tool
    async def press() -> str:
        """Press."""
        done = threading.Event()
        thread = threading.Thread(target=done.wait)
        thread.start()
        LEFT.append(lambda: (done.set(), thread.join()))
        await trio.sleep(1)
        done.set()
        thread.join()
        return "pressed"

    return press


@found_by("nothing_is_alive")
def a_task_that_is_left_in_a_nursery_of_others():
    @tool
    async def press() -> str:
        """Press."""
        ended = trio.Event()
        trio.lowlevel.spawn_system_task(ended.wait)
        await trio.sleep(1)
        ended.set()
        await trio.sleep(1)
        return "pressed"

    return press


@found_by("no_descriptor_is_left")
def a_connection_that_stays_open():
    class Connected(Press):
        async def press(self) -> str:
            """Press."""
            self.connection = socket.socketpair()
            LEFT.extend(each.close for each in self.connection)
            await trio.sleep(1)
            for each in self.connection:
                each.close()
            return "pressed"

    return Connected().press


@found_by("nothing_is_left_to_the_collector")
def a_connection_that_nobody_closes():
    @tool
    async def press() -> str:
        """Press."""
        ours, theirs = socket.socketpair()
        await trio.sleep(1)
        ours.close()
        theirs.close()
        return "pressed"

    return press


@found_by("nothing_is_left_to_the_collector")
def an_async_generator_that_holds_a_scope():
    async def juice():
        with trio.fail_after(20):
            yield 1
            await trio.sleep(1)
            yield 2

    @tool
    async def press() -> str:
        """Press."""
        async for _ in juice():
            await trio.sleep(1)
        return "pressed"

    return press


@found_by("a_call_is_whole_or_interrupted")
def a_cancel_that_is_swallowed():
    @tool
    async def press() -> str:
        """Press."""
        with suppress(BaseException):
            await trio.sleep(1)
        return "pressed"

    return press


@found_by("a_call_is_whole_or_interrupted")
def a_cancel_that_becomes_an_error():
    @tool
    async def press() -> str:
        """Press."""
        try:
            await trio.sleep(1)
        except trio.Cancelled:
            raise ToolError("stopped") from None
        return "pressed"

    return press


@found_by("an_interrupt_leaves_nothing")
def a_shield_without_a_deadline():
    @tool
    async def press() -> str:
        """Press."""
        with trio.CancelScope(shield=True):
            await trio.sleep(10)
        return "pressed"

    return press


@found_by("no_call_is_stuck")
def a_shield_around_what_never_comes():
    @tool
    async def press() -> str:
        """Press."""
        try:
            await trio.sleep(1)
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                await trio.sleep_forever()
            raise
        return "pressed"

    return press


@found_by("no_call_is_stuck")
def a_lock_that_is_kept_and_a_shield_around_it():
    free = trio.Event()
    free.set()

    @tool(timeout=float("inf"))
    async def press() -> str:
        """Press."""
        nonlocal free
        with trio.CancelScope(shield=not free.is_set()):
            await free.wait()
        free = trio.Event()
        await trio.sleep(1)
        free.set()
        return "pressed"

    return press


@found_by("settings_are_restored")
def a_variable_of_the_environment_that_stays_set():
    @tool
    async def press() -> str:
        """Press."""
        os.environ["PRESSURE"] = "high"
        await trio.sleep(1)
        del os.environ["PRESSURE"]
        return "pressed"

    return press


@found_by("settings_are_restored")
def a_working_directory_that_stays_another():
    @tool
    async def press(context: AgentContext) -> str:
        """Press."""
        before = Path.cwd()
        os.chdir(context.workspace.root)
        await trio.sleep(1)
        os.chdir(before)
        return "pressed"

    return press
