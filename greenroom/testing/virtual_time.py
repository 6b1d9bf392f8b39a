"""A clock for tests that jumps over all waiting, but not over the work of threads."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import trio
from trio.testing import MockClock, active_thread_count

from greenroom.threads._internal import count_working

T = TypeVar("T")

_PATIENCE = 10.0  # seconds of real time in which nothing but threads works


def run_in_virtual_time(
    function: Callable[[], Awaitable[T]],
    *,
    instruments: Sequence[trio.abc.Instrument] = (),
) -> T:
    """Run trio on a clock that jumps to the next deadline once every task waits.

    While a thread works, such as that of a plain function tool or of a store, the jump waits for
    it, up to ten seconds of real time: then the thread counts as hanging, and time-outs pass as
    usual.

    Args:
        function: what to run.
        instruments: further instruments of trio.

    Example:
        >>> import time
        >>> async def read() -> str:
        ...     with trio.fail_after(30):
        ...         await trio.to_thread.run_sync(time.sleep, 0.01)
        ...     return "in time"
        >>> run_in_virtual_time(read)
        'in time'
    """
    clock = MockClock(autojump_threshold=0)
    return trio.run(function, clock=clock, instruments=[_WaitForThreads(clock), *instruments])


class _WaitForThreads(trio.abc.Instrument):
    """Keeps a clock from jumping while threads work that may still end."""

    def __init__(self, clock: MockClock) -> None:
        self._clock = clock
        self._hanging = 0  # threads that were waited for in vain
        self._waits_since: float | None = None  # on the clock itself

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Look how many threads work now."""
        active = active_thread_count() + count_working()
        now = self._clock.current_time()
        if self._waits_since not in {None, now}:
            self._hanging = active  # it has jumped all the same
        self._hanging = min(self._hanging, active)
        waits = active > self._hanging
        if waits is not (self._waits_since is not None):
            self._clock.autojump_threshold = _PATIENCE if waits else 0
        self._waits_since = now if waits else None
