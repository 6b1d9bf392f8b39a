"""One clock for all event loops of the process.

Each `trio.run` has a clock that begins at another number, so a time of one run means nothing in the
next. What outlives a loop, or is shared by several, keeps its times on this clock.
"""

import math
import threading
import time
from weakref import WeakKeyDictionary, ref

import trio

_lock = threading.Lock()
_ahead = 0.0  # seconds by which virtual clocks have run ahead of the machine's


def shared_time() -> float:
    """Return the time in seconds; it can be compared between event loops, and read outside of one.

    In a loop with a virtual clock, such as trio's `MockClock`, it passes as that clock does. The
    clock never goes back, so the next loop begins where a virtual one has ended.
    """
    try:
        clock = trio.lowlevel.current_clock()
    except RuntimeError:  # outside of a loop
        return time.perf_counter() + _ahead
    if type(clock).__name__ == "SystemClock":  # trio does not export it
        return time.perf_counter() + _ahead
    with _lock:
        virtual = _virtual_clocks.get(clock)
        if virtual is None:
            virtual = _virtual_clocks[clock] = _VirtualClock(clock)
    trio.lowlevel.add_instrument(virtual)  # once in each run
    return virtual.read()


def loop_time(moment: float) -> float:
    """Return a moment of this clock on the clock of the running loop, such as for a deadline.

    Outside of a loop it is returned as it is.
    """
    left = moment - shared_time()  # read first, so that no deadline comes too early
    try:
        return trio.current_time() + left
    except RuntimeError:
        return moment


class _VirtualClock(trio.abc.Instrument):
    """A virtual clock, which begins at 0, on the clock of the process."""

    def __init__(self, clock: trio.abc.Clock) -> None:
        self._clock = ref(clock)
        # Whole seconds, so that times of a virtual clock stay exact.
        self._begin = math.ceil(time.perf_counter() + _ahead)

    def read(self) -> float:
        """Return the time, up to which the others have to catch up."""
        global _ahead  # noqa: PLW0603
        clock = self._clock()
        moment = self._begin + (0.0 if clock is None else clock.current_time())
        with _lock:
            _ahead = max(_ahead, moment - time.perf_counter())
        return moment

    def after_run(self) -> None:
        """Count the time since it was last read."""
        self.read()


_virtual_clocks: WeakKeyDictionary[trio.abc.Clock, _VirtualClock] = WeakKeyDictionary()
