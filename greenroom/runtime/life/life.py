"""One life of an agent: one run of its function. A restart begins another one."""

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from greenroom.runtime.supervision.monitor import Monitor
    from greenroom.runtime.supervision.supervision import Supervision

__all__ = ["Life"]


class Life:
    """What belongs to one run of an agent's function, and is made anew for the next one."""

    def __init__(self) -> None:
        """Start with nothing run."""
        self.scope = trio.CancelScope()
        """Everything of this life; cancelling it ends the life, not the agent."""
        self.nursery: trio.Nursery | None = None
        """Where subagents live; None before the function is called, and after its end."""
        self.returned = False
        """Whether the function has returned."""
        self.crash: BaseException | None = None
        """What crashed it. Kept at once, so that a cancel that comes later can't take it away."""
        self.is_told = False
        """Whether subscribers have been told of the crash."""
        self.supervisions: dict[Supervision, None] = {}
        """The supervisors that the function has made, but for those below others."""
        self.monitors: set[Monitor] = set()
        """The orders of this life to be told of an end, which have not been carried out."""

    @property
    def takes_results(self) -> bool:
        """Whether the function still runs, and is not being ended."""
        return self.nursery is not None and not self.scope.cancel_called

    def fail(self, error: BaseException) -> None:
        """Crash it from the outside."""
        self.crash = self.crash or error
        self.scope.cancel()

    def end_monitors(self) -> None:
        """It is over: its orders are void."""
        for monitor in tuple(self.monitors):
            monitor.drop()

    def end_supervisions(self) -> None:
        """Its agents have ended: the supervisors end with them."""
        for supervision in tuple(self.supervisions):
            supervision.home_ended()
