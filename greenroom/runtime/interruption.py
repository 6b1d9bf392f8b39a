"""The interrupt of a turn: who ordered it, how long it may take, what came of it, and the clean-up after it."""

from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import trio

from greenroom.runtime.outcome import MAX_NAMES, InterruptReport

if TYPE_CHECKING:
    from greenroom.runtime.actor import Actor
    from greenroom.runtime.turn import Turn


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


# -- clean-up that a cancel can't abort and that can't hang: shielded scopes with a deadline ---------

enclosing: ContextVar["CleanupScope | None"] = ContextVar("greenroom_cleanup", default=None)
"""The clean-up in which the code runs, or None outside of any."""


class CleanupScope:
    """The scope behind `cleanup(grace)`; what else must end earlier shortens it, nothing lengthens it.

    That is the grace of an interrupt, a kill, and the clean-up in which it stands: its shield would
    keep that one's deadline out.
    """

    def __init__(self, cleanups: "Cleanups", grace: float, tool_use_id: str = "") -> None:
        """Made by `agent.cleanup`, and for a call by `context.cleanup`."""
        check_grace(grace)
        self._cleanups = cleanups
        self._grace = grace
        self._what = cleanups.label(tool_use_id)
        self._outer: CleanupScope | None = None
        self._scope = trio.CancelScope(shield=True)

    def clip(self, deadline: float) -> None:
        """End at `deadline` at the latest."""
        self._scope.deadline = min(self._scope.deadline, deadline)

    @property
    def _latest(self) -> float:
        """Until when it may run, where it is open."""
        return self._scope.deadline if self in self._cleanups.open else float("inf")

    def __enter__(self) -> trio.CancelScope:
        self._outer = enclosing.get()
        self._scope.deadline = min(
            trio.current_time() + self._grace,
            self._cleanups.deadline,
            float("inf") if self._outer is None else self._outer._latest,
        )
        entered = self._scope.__enter__()
        self._cleanups.open.add(self)
        enclosing.set(self)
        return entered

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        enclosing.set(self._outer)
        self._cleanups.open.discard(self)
        absorbed = bool(self._scope.__exit__(kind, error, trace))
        if error is None:
            self._cleanups.note_cleaned(self._what)
        return absorbed


class Cleanups:
    """The clean-ups that run in one agent, and until when they may."""

    def __init__(self, actor: "Actor") -> None:
        """Start with none."""
        self._actor = actor
        self.open: set[CleanupScope] = set()
        self.abandoned: deque[str] = deque(maxlen=MAX_NAMES)
        """What could not be stopped, here and in the subagents."""

    @property
    def deadline(self) -> float:
        """Until when clean-up may run here: nobody who waits for it may be kept longer."""
        turn = self._actor.turns.in_flight
        return min(self._agent_deadline, turn.interruption.deadline if turn else float("inf"))

    @property
    def _agent_deadline(self) -> float:
        """Until when the whole agent must have ended, since it was killed or its turn stopped."""
        actor = self._actor
        if actor.killed:
            return float("-inf")
        if actor.parent is None:
            return float("inf")
        turn = actor.spawn_turn
        own = turn.interruption.deadline if turn else float("inf")
        return min(own, actor.parent.cleanups._agent_deadline)

    def clip(self, deadline: float, of_turn: "Turn | None" = None) -> None:
        """Shorten the clean-ups that run here, and in the subagents (of this turn, where given)."""
        for scope in self.open:
            scope.clip(deadline)
        for child in self._actor.children.alive(of_turn):
            child.cleanups.clip(deadline)

    def label(self, tool_use_id: str) -> str:
        """Name the call on whose behalf something is cleaned up; empty where it is for none."""
        return self._actor.output.tool_label(tool_use_id)

    def note_cleaned(self, what: str) -> None:
        """A clean-up ran to its end: tell the turns that an interrupt is ending."""
        for turn, words in self._turns(what):
            turn.interruption.note_cleaned(words)

    def abandon(self, what: str) -> None:
        """Something of this agent, and so of those above it, could not be stopped."""
        for actor in (self._actor, *self._actor.ancestors()):
            actor.cleanups.abandoned.append(what)
        for turn, words in self._turns(what):
            turn.interruption.note_abandoned(words)

    def _turns(self, what: str) -> Iterator[tuple["Turn", str]]:
        """Give each turn that this is part of, here and above, and how to name it there."""
        actor = self._actor
        if actor.turns.current is not None:
            yield actor.turns.current, what or "the turn"
        while actor.parent is not None:
            what = f"{what} of {actor.label}" if what else actor.label
            turn = actor.parent.turns.current
            # A subagent that another turn left behind is no part of the one in hand.
            if turn is not None and turn is actor.spawn_turn:
                yield turn, what
            actor = actor.parent
