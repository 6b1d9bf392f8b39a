"""Clean-up that a cancel can't abort and that can't hang: a shielded scope with a deadline."""

from types import TracebackType
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from greenroom.runtime.actor import Actor

__all__ = ["CleanupScope"]


class CleanupScope:
    """The scope behind `cleanup(grace)`; an interrupt's grace shortens it, never lengthens it."""

    def __init__(self, actor: "Actor", grace: float) -> None:
        """Made by `agent.cleanup` and `context.cleanup`."""
        self._actor = actor
        self._grace = grace
        self._scope = trio.CancelScope(shield=True)

    def clip(self, deadline: float) -> None:
        """End at `deadline` at the latest."""
        self._scope.deadline = min(self._scope.deadline, deadline)

    def __enter__(self) -> trio.CancelScope:
        self._scope.deadline = min(trio.current_time() + self._grace, self._actor.cleanup_deadline)
        self._actor.cleanups.add(self)
        return self._scope.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._actor.cleanups.discard(self)
        absorbed = bool(self._scope.__exit__(kind, error, trace))
        if not self._scope.cancelled_caught:
            self._actor.note_cleaned(trio.lowlevel.current_task().name)
        return absorbed
