"""The interrupt of one turn: who ordered it, how long it may take, and what came of it."""

from collections import deque
from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

import trio

from greenroom.runtime.outcome import MAX_NAMES, InterruptReport

InterruptMode: TypeAlias = Literal["now", "after_step"]
"""When an interrupt takes effect: at once, or at the next boundary between two steps."""

_MARGIN = 0.25  # seconds beyond the grace until an interrupt returns with the rest as abandoned


def check_order(mode: str, grace: float) -> None:
    """Refuse an interrupt that has no meaning.

    Raises:
        ValueError: the mode is unknown, or the grace negative or not a number.
    """
    if mode not in get_args(InterruptMode):
        raise ValueError(f"an interrupt takes effect 'now' or 'after_step', not {mode!r}")
    check_grace(grace)


def check_grace(seconds: float) -> None:
    """Refuse what is no length of time; infinity is one.

    Raises:
        ValueError: it is negative, or not a number.
    """
    if not seconds >= 0:  # so that NaN, which compares to nothing, is refused too
        raise ValueError(f"a grace is a number of seconds from 0, not {seconds!r}")


class Interruption:
    """What any number of interrupts of the same turn join in; the shortest grace wins."""

    def __init__(
        self,
        scope: trio.CancelScope,
        running: Callable[[], tuple[str, ...]],
        clip_cleanups: Callable[[float], None],
    ) -> None:
        """Made with its turn: its scope, what runs in it, and how to shorten its clean-ups."""
        self._scope = scope
        self._running = running
        self._clip_cleanups = clip_cleanups
        self._is_ordered = False
        self._grace = float("inf")
        self._body_is_over = False
        self._is_completed = False
        self._stopped: tuple[str, ...] = ()
        self._cleaned: deque[str] = deque(maxlen=MAX_NAMES)
        self._abandoned: deque[str] = deque(maxlen=MAX_NAMES)
        self._waiters: set[trio.CancelScope] = set()
        # Set when the interrupt takes effect, or can no longer: the turn is over.
        self._settled = trio.Event()
        self._over = trio.Event()
        # Until when those who wait do so, but for the margin.
        self._patience = float("inf")
        self.deadline = float("inf")
        """Until when clean-up of the turn may run; infinite while nothing is being stopped."""
        self.repaired: tuple[str, ...] = ()
        """The calls that were answered with "interrupted"."""

    @property
    def is_ordered(self) -> bool:
        """Whether the turn has been asked to end, or has ended."""
        return self._is_ordered or self._body_is_over

    @property
    def took_effect(self) -> bool:
        """Whether it has ended the turn, or its body."""
        return self._settled.is_set()

    # -- what others do to the turn -------------------------------------------------------------

    def order(self, mode: InterruptMode, grace: float) -> None:
        """Ask the turn to end; joins an earlier interrupt, of which the shorter grace wins."""
        self._grace = min(self._grace, grace)
        self._is_ordered = True
        if self._settled.is_set() or self._body_is_over:
            self._take_effect()
        elif mode == "now":
            self._stop()

    async def report(self) -> InterruptReport:
        """Wait for the end of the interrupted turn, at most its grace and a quarter of a second."""
        await self._settled.wait()
        with trio.CancelScope(deadline=self._patience + _MARGIN) as scope:
            self._waiters.add(scope)
            try:
                await self._over.wait()
            finally:
                self._waiters.discard(scope)
        alive = () if self._over.is_set() else self._running() or ("the turn",)
        return InterruptReport(
            stopped=self._stopped,
            cleaned=tuple(self._cleaned),
            abandoned=(*alive, *self._abandoned),
            repaired=self.repaired,
        )

    # -- what happens in the turn ---------------------------------------------------------------

    def at_boundary(self) -> None:
        """Two steps meet here: an interrupt that waited for this takes effect."""
        if self._is_ordered and not self._settled.is_set():
            self._stop()

    def body_is_over(self, *, is_completed: bool) -> None:
        """There is nothing left to cancel: an interrupt that comes now waits for the end alone.

        The subagents of a turn that completed go on; nobody shortens their clean-up.
        """
        self._body_is_over, self._is_completed = True, is_completed
        if self._is_ordered:
            self._take_effect()

    def note_cleaned(self, what: str) -> None:
        """A clean-up ran to its end."""
        if self._settled.is_set():
            self._cleaned.append(what)

    def note_abandoned(self, what: str) -> None:
        """Something could not be stopped."""
        if self._settled.is_set():
            self._abandoned.append(what)

    def finish(self) -> None:
        """The turn is over, and all of it is gone."""
        self._over.set()
        self._settled.set()

    def drop(self) -> None:
        """The message was answered without a turn: nothing was stopped."""
        self._stopped = ()
        self.finish()

    def _stop(self) -> None:
        self._stopped = self._running() or ("the turn",)
        self._scope.cancel()
        self._take_effect()

    def _take_effect(self) -> None:
        """From now on time counts: for those who wait, and for clean-up."""
        self._patience = min(self._patience, trio.current_time() + self._grace)
        for scope in self._waiters:
            scope.deadline = self._patience + _MARGIN
        if not self._is_completed:
            self.deadline = self._patience
            self._clip_cleanups(self.deadline)
        self._settled.set()
