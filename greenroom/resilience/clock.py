"""One clock for all event loops of the process.

Each `trio.run` has a clock that begins at another number, so a time of one run means nothing in the
next. What outlives a loop, or is shared by several, keeps its times on this clock.
"""

import math
import threading
import time

import trio

_offset: trio.lowlevel.RunVar[float] = trio.lowlevel.RunVar("greenroom_clock_offset")
_lock = threading.Lock()
_ahead = 0.0  # seconds by which virtual clocks have run ahead of the machine's


def now() -> float:
    """Return the time in seconds; it can be compared between event loops, and read outside of one.

    In a loop with a virtual clock, such as trio's `MockClock`, it passes as that clock does. The
    clock never goes back, so the next loop begins where a virtual one has ended.
    """
    global _ahead  # noqa: PLW0603
    if not _is_virtual():
        return time.perf_counter() + _ahead
    moment = trio.current_time() + _offset_of_loop()
    with _lock:
        _ahead = max(_ahead, moment - time.perf_counter())
    return moment


def loop_time(moment: float) -> float:
    """Return a moment of this clock on the clock of the running loop, such as for a deadline.

    Outside of a loop it is returned as it is.
    """
    left = moment - now()  # read first, so that no deadline comes too early
    try:
        return trio.current_time() + left
    except RuntimeError:
        return moment


def _is_virtual() -> bool:
    """Whether the caller is in a loop whose clock is not the machine's."""
    try:
        clock = trio.lowlevel.current_clock()
    except RuntimeError:  # outside of a loop
        return False
    return type(clock).__name__ != "SystemClock"  # trio does not export its class


def _offset_of_loop() -> float:
    try:
        return _offset.get()
    except LookupError:
        # Whole seconds, so that times of a virtual clock stay exact.
        offset = math.ceil(time.perf_counter() + _ahead) - trio.current_time()
        _offset.set(offset)
        return offset
