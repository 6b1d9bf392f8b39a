"""The watchdog: a thread that names the call which blocks the event loop.

Nothing can stop such a call, and while it runs nothing else does: no other agent, no interrupt, no
time-out. So it must at least be seen. An instrument of two hooks counts the passes of the loop and
marks when it waits; the thread looks now and then, by the monotonic clock, which only it may read,
and compares. It wakes the loop for nothing, so that a clock that jumps still jumps.

What it can't see: a call that ends before the threshold, and many short ones in one pass of the
loop. Time in which the whole process stood still (a stopped process, a machine asleep) does not
count. While a native call holds the interpreter's lock the thread can't run either: it reports
right after that call, which the process's own time distinguishes from a process that was stopped.
"""

import logging
import os
import sys
import threading
import time
import traceback
from functools import cache
from pathlib import Path
from types import FrameType

import trio

from greenroom.core._internal import notice, visible
from greenroom.runtime.tasks import owner_of

_FRAMES = 30  # of a stack, its innermost ones


@cache
def _not_theirs() -> tuple[str, ...]:
    """Return where code lies that is not the user's: the standard library, packages, this one."""
    import sysconfig  # loads a lot, for calls that hold up the loop

    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    installed = {sysconfig.get_path(kind) for kind in kinds}
    linked = map(os.path.realpath, installed)
    return (*installed, *linked, str(Path(__file__).parents[1]), "<frozen ")


class LoopView:
    """A look at the event loop of the thread that makes it; made inside of a task.

    The loop calls everything that can block it: the tasks, and what trio calls between them. Two
    looks at the same call within one pass of the loop are looks at one uninterrupted step.
    """

    def __init__(self, thread: int) -> None:
        """Find the loop of the calling thread: its frame is right below the current task's."""
        self._thread = thread
        self._root = trio.lowlevel.current_root_task()
        own = _frame_of(trio.lowlevel.current_task())
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame is not own:
            frame = frame.f_back
        self._loop = frame.f_back if frame is not None else None

    def stack(self) -> list[FrameType]:
        """Return what the loop has called, from there inwards; empty if it runs only itself."""
        found: list[FrameType] = []
        frame = sys._current_frames().get(self._thread)
        while frame is not None and frame is not self._loop:
            found.append(frame)
            frame = frame.f_back
        return found[::-1]

    def describe(self, stack: list[FrameType]) -> tuple[str, str, str]:
        """Say who is running, in which call of the user's code, and the whole stack."""
        who = self._who(stack[0])  # first: the loop may be about to go on
        where = next((frame for frame in reversed(stack) if _is_theirs(frame)), stack[-1])
        call = f"{where.f_code.co_qualname} ({where.f_code.co_filename}:{where.f_lineno})"
        lines = traceback.StackSummary.extract(
            ((frame, frame.f_lineno) for frame in stack), limit=-_FRAMES
        ).format()
        return who, visible(call), visible("".join(lines)).rstrip()

    def _who(self, outermost: FrameType) -> str:
        waiting = [self._root] if self._root is not None else []
        while waiting:
            task = waiting.pop()
            if _frame_of(task) is outermost:
                return _name(task)
            for nursery in tuple(task.child_nurseries):
                # None yet where trio is just making it.
                waiting += getattr(nursery, "child_tasks", ())
        return "no task"


def _frame_of(task: trio.lowlevel.Task) -> object:
    return getattr(task.coro, "cr_frame", None)


def _name(task: trio.lowlevel.Task) -> str:
    owner = owner_of(task)
    if owner is None:
        return visible(f"the task {task.name!r} of no agent")
    return visible(f"the agent {owner}, task {task.name!r}")


def _is_theirs(frame: FrameType) -> bool:
    return not frame.f_code.co_filename.startswith(_not_theirs())


_LOOKS = 4  # in the time of the threshold
_AT_WORK = 0.2  # of the time in which the thread could not run: less, and the process stood still
_LONGEST_PAUSE = 60.0  # seconds between two looks, however long the threshold
_JOIN = 1.0  # seconds that the loop waits at its end for a log handler in the thread's hands

logger = logging.getLogger("greenroom.watchdog")


class Watchdog(trio.abc.Instrument):
    """Watches one event loop, for all runtimes that are open in it."""

    def __init__(self) -> None:
        """Made inside of the loop; `watch_loop` does so."""
        self.blocked = 0
        """How often the loop was blocked for longer than the threshold."""
        self.longest = 0.0
        """Seconds that the longest of these took."""
        self._thresholds: list[float] = []
        # What the loop leaves for the thread to see.
        self._passes = 0
        self._is_idle = False
        # Set by the thread while it reports a block: then it wants to know of its end at once.
        self._is_reporting = False
        self._wake = threading.Event()
        self._view = LoopView(threading.get_ident())
        self._is_stopping = False
        # A daemon: it must never keep a process alive that ends without leaving its runtimes.
        self._thread = threading.Thread(  # noqa: TID251 (the one thread that must not be trio's)
            target=self._run, name="greenroom watchdog", daemon=True
        )
        # What the thread saw last: when, in which pass, which call, and since when it runs.
        self._last_look = self._cpu = self._since = 0.0
        self._pass = -1
        self._call = 0

    def join(self, threshold: float) -> None:
        """Watch for another runtime; the lowest threshold of all holds."""
        self._thresholds.append(threshold)
        self._wake.set()  # it may be in a longer pause
        if len(self._thresholds) == 1:
            self._thread.start()
            trio.lowlevel.add_instrument(self)

    def leave(self, threshold: float) -> bool:
        """Watch for one runtime less, and end with the last one; return whether this was it."""
        self._thresholds.remove(threshold)
        if self._thresholds:
            return False
        trio.lowlevel.remove_instrument(self)
        self._is_stopping = True
        self._wake.set()
        self._thread.join(_JOIN)
        return True

    def before_io_wait(self, timeout: float) -> None:
        """The loop has nothing to run."""
        self._is_idle = True
        if self._is_reporting:
            self._wake.set()

    def after_io_wait(self, timeout: float) -> None:
        """Another pass begins."""
        self._passes += 1
        self._is_idle = False

    def _run(self) -> None:
        self._last_look, self._cpu = time.monotonic(), time.process_time()
        while not self._is_stopping:
            try:
                self._pause_and_look(min(self._thresholds, default=_LONGEST_PAUSE))
            except Exception:
                # Such as a log handler that raises: the next look may do better.
                logger.exception("the watchdog could not look")
        if self._is_reporting:
            self._report_end(time.monotonic())

    def _pause_and_look(self, threshold: float) -> None:
        pause = min(threshold / _LOOKS, _LONGEST_PAUSE)
        self._wake.wait(pause)
        self._wake.clear()
        now, cpu = time.monotonic(), time.process_time()
        late, worked = now - self._last_look - pause, cpu - self._cpu
        self._last_look, self._cpu = now, cpu
        stood_still = late > pause and worked < late * _AT_WORK
        if stood_still:
            self._since += late
        is_same = self._passes == self._pass and not self._is_idle
        if self._is_reporting and not is_same:
            self._report_end(now)
        if is_same or (late > threshold and not stood_still and not self._is_idle):
            self._look_closer(now, late if not stood_still else 0.0, threshold)
        else:
            self._call, self._since = 0, now
        self._pass = self._passes

    def _look_closer(self, now: float, late: float, threshold: float) -> None:
        """One pass takes long: find out whether that is one call."""
        stack = self._view.stack()
        call = id(stack[0]) if stack else 0
        if call != self._call or not call:
            if self._is_reporting:
                self._report_end(now)
            # Nothing else could run while this thread could not: what is late belongs to this call.
            self._call, self._since = call, now - max(late, 0.0)
        if call and not self._is_reporting and now - self._since >= threshold:
            self.blocked += 1
            self._is_reporting = True
            who, where, lines = self._view.describe(stack)
            seconds = now - self._since
            notice(
                logger,
                f"the event loop has been blocked for {seconds:.2f} s by {who}, in {where}\n"
                f"{lines}",
            )

    def _report_end(self, now: float) -> None:
        self._is_reporting = False
        seconds = now - self._since
        self.longest = max(self.longest, seconds)
        notice(logger, f"the event loop goes on; it was blocked for {seconds:.2f} s")


_watchdog_var: "trio.lowlevel.RunVar[Watchdog | None]" = trio.lowlevel.RunVar("watchdog", None)


def watch_loop(threshold: float) -> Watchdog:
    """Return the watchdog of this event loop, which now watches for another runtime."""
    watchdog = _watchdog_var.get()
    if watchdog is None:
        watchdog = Watchdog()
    watchdog.join(threshold)
    _watchdog_var.set(watchdog)
    return watchdog


def leave_watchdog(watchdog: Watchdog, threshold: float) -> None:
    """Let a runtime go; the watchdog ends with the last one."""
    if watchdog.leave(threshold):
        _watchdog_var.set(None)
