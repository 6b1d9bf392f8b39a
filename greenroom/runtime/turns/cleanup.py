"""Clean-up that a cancel can't abort and that can't hang: shielded scopes with a deadline."""

from collections import deque
from collections.abc import Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING

import trio

from greenroom.runtime.outcome import MAX_NAMES
from greenroom.runtime.turns.interruption import check_grace

if TYPE_CHECKING:
    from greenroom.runtime.actor import Actor
    from greenroom.runtime.turns.turn import Turn

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
