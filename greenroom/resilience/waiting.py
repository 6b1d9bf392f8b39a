"""A queue of calls that wait for their turn, perhaps in several event loops.

trio's own primitives belong to one loop. Limits, gates and budgets are shared by whatever uses one
key, even by programs that call `run_sync` in several threads, so they wait here.
"""

import math
import threading
from bisect import insort
from collections.abc import Callable
from itertools import count

import trio

from greenroom.resilience.clock import loop_time

_tickets = count()


def take_ticket() -> int:
    """Return the next number; who has a lower one is before who has a higher one."""
    return next(_tickets)


class WaitQueue:
    """Calls that wait for their turn, in the order of their tickets; one more waits for nobody.

    The first in the queue is admitted by a function of the owner, which looks at the owner's state.
    `lock` guards that state and the queue: hold it for a moment, and never across an `await`.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._waiters: list[_Waiter] = []

    def __len__(self) -> int:
        return len(self._waiters)

    def count_before(self, ticket: int) -> int:
        """Return how many wait that come before this ticket."""
        with self.lock:
            return sum(waiter.ticket < ticket for waiter in self._waiters)

    @trio.lowlevel.enable_ki_protection  # a place in the queue must not be left behind
    async def wait(self, admit: Callable[[], float | None], ticket: int | None = None) -> None:
        """Wait in turn until `admit` admits the call.

        Args:
            admit: called with the lock held while the call is the first in the queue; it returns
                None once the call has begun, or the moment, on the shared clock, at which to ask
                again. An infinite one waits for `wake`. What it raises ends the wait.
            ticket: the place in the queue; by default behind all others.

        Raises:
            trio.Cancelled: the wait was cancelled, and `admit` has not admitted the call.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        waiter = _Waiter(take_ticket() if ticket is None else ticket)
        has_waited = False
        with self.lock:
            insort(self._waiters, waiter, key=lambda each: each.ticket)
        try:
            while (moment := self._ask(waiter, admit)) is not None:
                has_waited = True
                with trio.CancelScope(deadline=loop_time(moment)):
                    await waiter.woken.wait()
        finally:
            with self.lock:
                self._waiters.remove(waiter)
                self.wake()
        if not has_waited:
            await trio.lowlevel.cancel_shielded_checkpoint()

    def _ask(self, waiter: "_Waiter", admit: Callable[[], float | None]) -> float | None:
        with self.lock:
            waiter.woken = trio.Event()
            return admit() if self._waiters[0] is waiter else math.inf

    def wake(self) -> None:
        """Let the first in the queue ask again, since the owner's state has changed."""
        with self.lock:
            while self._waiters and not self._waiters[0].wake():
                del self._waiters[0]


class _Waiter:
    """A call that waits in its own event loop."""

    def __init__(self, ticket: int) -> None:
        self.ticket = ticket
        self.woken = trio.Event()
        self._loop = trio.lowlevel.current_trio_token()

    def wake(self) -> bool:
        """Wake it up, from any loop or thread; return whether its loop still runs."""
        try:
            if trio.lowlevel.current_trio_token() is self._loop:
                self.woken.set()
                return True
        except RuntimeError:
            pass  # called outside of any loop
        try:
            self._loop.run_sync_soon(self.woken.set)
        except trio.RunFinishedError:
            return False
        return True
