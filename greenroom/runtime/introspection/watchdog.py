"""The watchdog: a thread that names the call which blocks the event loop.

Nothing can stop such a call, and while it runs nothing else does: no other agent, no interrupt, no
time-out. So it must at least be seen. An instrument of two hooks counts the passes of the loop and
marks when it waits; the thread looks now and then, by the monotonic clock, which only it may read,
and compares. It wakes the loop for nothing, so that a clock that jumps still jumps.

What it can't see: a call that ends before the threshold, and many short ones in one pass of the
loop. Time in which the whole process stood still (a stopped process, a machine asleep) does not
count. While a native call holds the interpreter's lock the thread stands still as well: it reports
right after that call, which the process's own time tells apart from a process that was stopped.
"""

import logging
import threading
import time

import trio

from greenroom.core import notice
from greenroom.runtime.introspection.loop_sample import LoopView

_LOOKS = 4  # in the time of the threshold
_AT_WORK = 0.2  # of the time in which the thread could not run: less, and the process stood still
_LONGEST_PAUSE = 60.0  # seconds between two looks, however long the threshold
_JOIN = 1.0  # seconds that the loop waits at its end for a log handler in the thread's hands

logger = logging.getLogger("greenroom.watchdog")


class _Pulse(trio.abc.Instrument):
    """What the loop leaves for the thread to see: two cheap hooks for each of its passes."""

    def __init__(self) -> None:
        self.passes = 0
        self.waits = False
        # Set by the thread while it reports a block: then it wants to know of its end at once.
        self.blocked = False
        self.woken = threading.Event()

    def before_io_wait(self, timeout: float) -> None:
        self.waits = True
        if self.blocked:
            self.woken.set()

    def after_io_wait(self, timeout: float) -> None:
        self.passes += 1
        self.waits = False


class Watchdog:
    """Watches one event loop, for all runtimes that are open in it."""

    def __init__(self) -> None:
        """Made inside of the loop; `watch_loop` does so."""
        self.blocked = 0
        """How often the loop was blocked for longer than the threshold."""
        self.longest = 0.0
        """Seconds that the longest of these took."""
        self._thresholds: list[float] = []
        self._pulse = _Pulse()
        self._view = LoopView(threading.get_ident())
        self._stopping = False
        # A daemon: it must never keep a process alive that ends without leaving its runtimes.
        self._thread = threading.Thread(  # noqa: TID251 (the one thread that must not be trio's)
            target=self._run, name="greenroom watchdog", daemon=True
        )
        # What the thread saw last: when, in which pass, which call, and since when it runs.
        self._looked = self._cpu = self._since = 0.0
        self._pass = -1
        self._call = 0

    def join(self, threshold: float) -> None:
        """Watch for one runtime more; the lowest threshold of all holds."""
        self._thresholds.append(threshold)
        self._pulse.woken.set()  # it may be in a longer pause
        if len(self._thresholds) == 1:
            self._thread.start()
            trio.lowlevel.add_instrument(self._pulse)

    def leave(self, threshold: float) -> bool:
        """Watch for one runtime less, and end with the last one; return whether it was."""
        self._thresholds.remove(threshold)
        if self._thresholds:
            return False
        trio.lowlevel.remove_instrument(self._pulse)
        self._stopping = True
        self._pulse.woken.set()
        self._thread.join(_JOIN)
        return True

    # -- in the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        self._looked, self._cpu = time.monotonic(), time.process_time()
        while not self._stopping:
            try:
                self._pause_and_look(min(self._thresholds, default=_LONGEST_PAUSE))
            except Exception:
                # Such as a log handler that raises: the next look may do better.
                logger.exception("the watchdog could not look")
        if self._pulse.blocked:
            self._report_end(time.monotonic())

    def _pause_and_look(self, threshold: float) -> None:
        pulse = self._pulse
        pause = min(threshold / _LOOKS, _LONGEST_PAUSE)
        pulse.woken.wait(pause)
        pulse.woken.clear()
        now, cpu = time.monotonic(), time.process_time()
        late, worked = now - self._looked - pause, cpu - self._cpu
        self._looked, self._cpu = now, cpu
        stood_still = late > pause and worked < late * _AT_WORK
        if stood_still:
            self._since += late
        is_same = pulse.passes == self._pass and not pulse.waits
        if pulse.blocked and not is_same:
            self._report_end(now)
        if is_same or (late > threshold and not stood_still and not pulse.waits):
            self._look_closer(now, late if not stood_still else 0.0, threshold)
        else:
            self._call, self._since = 0, now
        self._pass = pulse.passes

    def _look_closer(self, now: float, late: float, threshold: float) -> None:
        """One pass takes long: find out whether that is one call."""
        stack = self._view.stack()
        call = id(stack[0]) if stack else 0
        if call != self._call or not call:
            if self._pulse.blocked:
                self._report_end(now)
            # Nothing else could run while this thread could not: what is late belongs to this call.
            self._call, self._since = call, now - max(late, 0.0)
        if call and not self._pulse.blocked and now - self._since >= threshold:
            self.blocked += 1
            self._pulse.blocked = True
            who, where, lines = self._view.describe(stack)
            seconds = now - self._since
            notice(
                logger,
                f"the event loop has been blocked for {seconds:.2f} s by {who}, in {where}\n{lines}",
            )

    def _report_end(self, now: float) -> None:
        self._pulse.blocked = False
        seconds = now - self._since
        self.longest = max(self.longest, seconds)
        notice(logger, f"the event loop goes on; it was blocked for {seconds:.2f} s")


_of_loop: "trio.lowlevel.RunVar[Watchdog | None]" = trio.lowlevel.RunVar("watchdog", None)


def watch_loop(threshold: float) -> Watchdog:
    """Return the watchdog of this event loop, which now watches for one runtime more."""
    watchdog = _of_loop.get()
    if watchdog is None:
        watchdog = Watchdog()
    watchdog.join(threshold)
    _of_loop.set(watchdog)
    return watchdog


def leave_watchdog(watchdog: Watchdog, threshold: float) -> None:
    """Let a runtime go; the watchdog ends with the last one."""
    if watchdog.leave(threshold):
        _of_loop.set(None)
