"""How a turn is interrupted: the orders, their grace, the report, and clean-up.

Theory of operation
===================

All interrupts of one turn join in one `Interruption`. It knows the turn's cancel scope and two
callables, and passes through these states, each at most once:

    open ──order──▶ ordered ──a boundary, or mode "now"──▶ taking effect ──▶ over
      └───────────── the body ends on its own ────────────────▲

*Ordered* is an "after_step" that waits for the boundary between two steps. *Taking effect* cancels
the scope and starts the clock: the shortest grace of all orders becomes the deadline of every
clean-up in the turn and in the subagents that it spawned. If the body had already completed,
nothing is cut short, and the interrupt only waits for the end of the turn. The turn sets *over*
after its last step.

When `report` returns within its time, all of this is finished: the body and every task below it,
the subagents of the turn (unless it had completed), the pairing of open calls, the save, the state
idle, and `Done`. A quarter of a second after the grace it returns in any case, and `abandoned`
names the rest. A cancel of the task that waits for the report changes nothing: the turn still ends.

Clean-up runs in a `CleanupScope`. Its shield keeps out the cancel that caused it, and its deadline
keeps it from hanging. The deadline only moves nearer: by the grace of an interrupt, by a kill (at
once), by the clean-up around it (whose deadline the shield would keep out), and by those of the
agents above.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import Literal, Protocol, TypeAlias, get_args

import trio

from greenroom.runtime.output_ring import Output
from greenroom.runtime.results import MAX_NAMES, InterruptReport
from greenroom.runtime.tasks import Flag

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


def check_grace(seconds: float, what: str = "grace") -> None:
    """Refuse a number that is not a length of time; infinity is one.

    Raises:
        ValueError: it is negative, or not a number.
    """
    # NaN compares to nothing, and is refused too
    if not isinstance(seconds, int | float) or not seconds >= 0:
        raise ValueError(f"a {what} is a number of seconds from 0, not {seconds!r}")


Names: TypeAlias = deque[str]
"""The last names of something, at most `MAX_NAMES`."""


def note(names: Names | None, name: str) -> Names:
    """Add a name to those that are there, if any."""
    names = deque(maxlen=MAX_NAMES) if names is None else names
    names.append(name)
    return names


def _clip_nothing(_deadline: float) -> None:
    pass


class Interruption:
    """All interrupts of one turn, joined; the shortest grace wins."""

    def __init__(
        self,
        scope: trio.CancelScope,
        list_running: Callable[[], tuple[str, ...]],
        clip_cleanups: Callable[[float], None],
    ) -> None:
        """Made with its turn: its scope, what runs in it, and how to shorten its clean-ups."""
        self.scope = scope
        """The scope of the turn."""
        self._list_running = list_running
        self._clip_cleanups = clip_cleanups
        self._is_ordered = False
        self._grace = float("inf")
        self._body_has_ended = False
        self._is_completed = False
        self._stopped: tuple[str, ...] = ()
        self._cleaned: Names | None = None  # as few turns are interrupted
        self._abandoned: Names | None = None
        self._waiters: dict[trio.CancelScope, None] = {}
        # Set when the interrupt takes effect, or can no longer: the turn is over.
        self._took_effect = Flag()
        self._over = Flag()
        # Until when those who wait do so, without the margin.
        self._patience = float("inf")
        self.deadline = float("inf")
        """Until when clean-up of the turn may run; infinite while nothing is being stopped."""
        self.repaired: tuple[str, ...] = ()
        """The calls that were answered with "interrupted"."""

    @property
    def is_ordered(self) -> bool:
        """Whether the turn has been asked to end, or has ended."""
        return self._is_ordered or self._body_has_ended

    @property
    def took_effect(self) -> bool:
        """Whether it has ended the turn, or its body."""
        return self._took_effect.is_set()

    def order(self, mode: InterruptMode, grace: float) -> None:
        """Ask the turn to end; joins an earlier interrupt, of which the shorter grace wins."""
        self._grace = min(self._grace, grace)
        self._is_ordered = True
        if self._took_effect.is_set() or self._body_has_ended:
            self._take_effect()
        elif mode == "now":
            self._stop()

    async def report(self) -> InterruptReport:
        """Wait for the end of the interrupted turn, at most its grace and a quarter of a second."""
        await self._took_effect.wait()
        with trio.CancelScope(deadline=self._patience + _MARGIN) as scope:
            self._waiters[scope] = None
            try:
                await self._over.wait()
            finally:
                del self._waiters[scope]
        alive = () if self._over.is_set() else self._list_running() or ("the turn",)
        return InterruptReport(
            stopped=self._stopped,
            cleaned=tuple(self._cleaned or ()),
            abandoned=(*alive, *(self._abandoned or ())),
            repaired=self.repaired,
        )

    def reach_boundary(self) -> None:
        """Let an interrupt that waited for the boundary between two steps take effect."""
        if self._is_ordered and not self._took_effect.is_set():
            self._stop()

    def end_body(self, *, is_completed: bool) -> None:
        """Note that there is nothing left to cancel: a later interrupt only waits for the end.

        The subagents of a turn that completed go on, with all the time for their clean-up.
        """
        self._body_has_ended, self._is_completed = True, is_completed
        if self._is_ordered:
            self._take_effect()

    def add_cleaned(self, what: str) -> None:
        """Note a clean-up that ran to its end."""
        if self._took_effect.is_set():
            self._cleaned = note(self._cleaned, what)

    def add_abandoned(self, what: str) -> None:
        """Note something that could not be stopped."""
        if self._took_effect.is_set():
            self._abandoned = note(self._abandoned, what)

    def finish(self) -> None:
        """Note that the turn is over, and all of it gone."""
        self._over.set()
        self._took_effect.set()

    def close(self) -> None:
        """Finish for good: the turn was left, so nothing runs in it that could be named or clipped.

        Without what it knows of its turn, both are freed at once, not by the garbage collector.
        """
        self.finish()
        self._list_running, self._clip_cleanups = tuple, _clip_nothing

    def drop(self) -> None:
        """Finish without a turn: the message was answered in another way, and nothing stopped."""
        self._stopped = ()
        self.finish()

    def hand_on(self) -> None:
        """Keep nobody waiting: another task may have the message, and may never open its turn.

        If it does, that turn ends at once.
        """
        if self._is_ordered:
            self.reach_boundary()
            self.drop()

    def _stop(self) -> None:
        self._stopped = self._list_running() or ("the turn",)
        self.scope.cancel()
        self._take_effect()

    def _take_effect(self) -> None:
        """Start the clock, for those who wait and for clean-up."""
        self._patience = min(self._patience, trio.current_time() + self._grace)
        for scope in self._waiters:
            scope.deadline = self._patience + _MARGIN
        if not self._is_completed:
            self.deadline = self._patience
            self._clip_cleanups(self.deadline)
        self._took_effect.set()


current_cleanup: ContextVar["CleanupScope | None"] = ContextVar("greenroom_cleanup", default=None)
"""The clean-up in which the code runs, or None outside of any."""


class CleanupScope:
    """The scope behind `cleanup(grace)`; its deadline only moves nearer."""

    def __init__(self, cleanups: "Cleanups", grace: float, tool_use_id: str = "") -> None:
        """Made by `agent.cleanup`, and for a call by `context.cleanup`."""
        check_grace(grace)
        self._cleanups = cleanups
        self._grace = grace
        self._what = cleanups.call_label(tool_use_id)
        self._tool_use_id = tool_use_id
        self._outer: CleanupScope | None = None
        self._scope = trio.CancelScope(shield=True)
        self._clipped_at = float("inf")  # the end that a kill or an interrupt has set

    def clip(self, deadline: float) -> None:
        """End at `deadline` at the latest."""
        self._clipped_at = min(self._clipped_at, deadline)
        self._scope.deadline = min(self._scope.deadline, deadline)

    @property
    def _latest(self) -> float:
        """Until when it may run, if it is open."""
        return self._scope.deadline if self in self._cleanups.open else float("inf")

    def __enter__(self) -> trio.CancelScope:
        self._outer = current_cleanup.get()
        self._clipped_at = self._cleanups.deadline
        self._scope.deadline = min(
            trio.current_time() + self._grace,
            self._clipped_at,
            float("inf") if self._outer is None else self._outer._latest,
        )
        entered = self._scope.__enter__()
        self._cleanups.open.add(self)
        current_cleanup.set(self)
        return entered

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        current_cleanup.set(self._outer)
        self._cleanups.open.discard(self)
        absorbed = bool(self._scope.__exit__(kind, error, trace))
        if error is None:
            self._cleanups.add_cleaned(self._what)
        elif absorbed and self._clipped_at <= trio.current_time():
            self._cleanups.cut_off_calls.append(self._tool_use_id)
        return absorbed


class _Agent(Protocol):
    """What clean-up needs to know of its agent."""

    @property
    def label(self) -> str:
        """Its name as part of another."""

    @property
    def open_interruption(self) -> Interruption | None:
        """That of the turn that is open."""

    @property
    def interruption_in_flight(self) -> Interruption | None:
        """That of the open turn, or of the one about to begin."""

    def cleanups_below(self, of_turn: Interruption | None) -> "Iterable[Cleanups]":
        """Find those of the subagents, or only of those that one turn has spawned."""


class Cleanups:
    """The clean-ups that run in one agent, and until when they may."""

    def __init__(
        self,
        agent: _Agent,
        output: Output,
        above: "Cleanups | None" = None,
        spawned_in: Interruption | None = None,
    ) -> None:
        """Start with none, below those of the parent, and of the turn that cancels this agent."""
        self._agent = agent
        self._output = output
        self._above = above
        self._spawned_in = spawned_in
        self._is_killed = False
        self.open: set[CleanupScope] = set()
        self.cut_off_calls: Names = deque(maxlen=MAX_NAMES)
        """The ids of the last calls that were stopped within a clean-up."""
        self.abandoned: Names = deque(maxlen=MAX_NAMES)
        """What could not be stopped, here and in the subagents."""

    @property
    def deadline(self) -> float:
        """Until when clean-up may run here; nothing waits for it longer."""
        interruption = self._agent.interruption_in_flight
        return min(self._agent_deadline, interruption.deadline if interruption else float("inf"))

    @property
    def _agent_deadline(self) -> float:
        """Until when the whole agent must have ended, since it was killed or its turn stopped."""
        if self._is_killed:
            return float("-inf")
        if self._above is None:
            return float("inf")
        own = self._spawned_in.deadline if self._spawned_in else float("inf")
        return min(own, self._above._agent_deadline)

    def clip(self, deadline: float, of_turn: Interruption | None = None) -> None:
        """Shorten the clean-ups that run here, and in the subagents (of this turn, where given)."""
        for scope in self.open:
            scope.clip(deadline)
        for cleanups in self._agent.cleanups_below(of_turn):
            cleanups.clip(deadline)

    def call_label(self, tool_use_id: str) -> str:
        """Name the call on whose behalf something is cleaned up; empty without a call."""
        return self._output.tool_label(tool_use_id)

    def kill(self) -> None:
        """End all clean-up now."""
        self._is_killed = True
        self.clip(trio.current_time())

    def add_cleaned(self, what: str) -> None:
        """Report a clean-up that ran to its end to the turns that an interrupt is ending."""
        for interruption, words in self._find_interruptions(what):
            interruption.add_cleaned(words)

    def abandon(self, what: str) -> None:
        """Note something of this agent, and so of those above it, that could not be stopped."""
        each: Cleanups | None = self
        while each is not None:
            each.abandoned.append(what)
            each = each._above
        for interruption, words in self._find_interruptions(what):
            interruption.add_abandoned(words)

    def _find_interruptions(self, what: str) -> Iterator[tuple[Interruption, str]]:
        """Yield that of each open turn that this is part of, here and above, and its name there."""
        interruption = self._agent.open_interruption
        if interruption is not None:
            yield interruption, what or "the turn"
        each = self
        while each._above is not None:
            what = f"{what} of {each._agent.label}" if what else each._agent.label
            interruption = each._above._agent.open_interruption
            # A subagent that an earlier turn left behind is not part of the open one.
            if interruption is not None and interruption is each._spawned_in:
                yield interruption, what
            each = each._above
