"""Clean-up that a cancel can't abort and that can't hang: shielded scopes with a deadline."""

from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from greenroom.runtime.actor import Actor
    from greenroom.runtime.turn import Turn

__all__ = ["CleanupScope", "Cleanups"]


_MAX_ABANDONED = 1000  # names kept of what could not be stopped, the newest


class CleanupScope:
    """The scope behind `cleanup(grace)`; an interrupt's grace shortens it, never lengthens it."""

    def __init__(self, cleanups: "Cleanups", grace: float) -> None:
        """Made by `agent.cleanup` and `context.cleanup`."""
        self._cleanups = cleanups
        self._grace = grace
        self._scope = trio.CancelScope(shield=True)

    def clip(self, deadline: float) -> None:
        """End at `deadline` at the latest."""
        self._scope.deadline = min(self._scope.deadline, deadline)

    def __enter__(self) -> trio.CancelScope:
        self._scope.deadline = min(trio.current_time() + self._grace, self._cleanups.deadline)
        self._cleanups.open.add(self)
        return self._scope.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._cleanups.open.discard(self)
        absorbed = bool(self._scope.__exit__(kind, error, trace))
        if not self._scope.cancelled_caught:
            self._cleanups.note_cleaned(trio.lowlevel.current_task().name)
        return absorbed


class Cleanups:
    """The clean-ups that run in one agent, and until when they may."""

    def __init__(self, actor: "Actor") -> None:
        """Start with none."""
        self._actor = actor
        self.open: set[CleanupScope] = set()
        self.abandoned: deque[str] = deque(maxlen=_MAX_ABANDONED)
        """What could not be stopped, here and in the subagents."""

    @property
    def deadline(self) -> float:
        """Until when clean-up may run here: nobody who waits for it may be kept longer."""
        turn = self._actor.turns.current
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

    def note_cleaned(self, what: str) -> None:
        """A clean-up ran to its end: tell the turns that an interrupt is ending."""
        for actor in (self._actor, *self._actor.ancestors()):
            if actor.turns.current is not None:
                actor.turns.current.interruption.note_cleaned(what)

    def abandon(self, what: str) -> None:
        """Something of this agent, and so of those above it, could not be stopped."""
        for actor in (self._actor, *self._actor.ancestors()):
            actor.cleanups.abandoned.append(what)
            if actor.turns.current is not None:
                actor.turns.current.interruption.note_abandoned(what)
