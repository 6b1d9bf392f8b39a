"""Monitors: one agent is told, as input, that another one has ended."""

from typing import TYPE_CHECKING

from greenroom.core import (
    AgentExit,
    AgentNotRunningError,
    MailboxFullError,
    SelfWaitError,
    describe_error,
)
from greenroom.runtime.caller import require_loop

if TYPE_CHECKING:
    from greenroom.runtime.actor import Actor


class Monitor:
    """A standing order: one `AgentExit`, when the agent has ended for good.

    It takes no part in what happens to the other agent, and has no part in it: neither ends with
    the other. It ends with this run of the function of the agent that gave it.
    """

    def __init__(self, watcher: "Actor", watched: "Actor") -> None:
        """Made by `AgentInternals.monitor`."""
        self._watcher = watcher
        self._watched = watched
        self._message: AgentExit | None = None
        watcher.life.monitors.add(self)
        watched.monitors.add(self)

    def cancel(self) -> None:
        """Call it off: from now on no `AgentExit` comes of it, also none that waits already.

        Raises:
            EventLoopError: called outside of the runtime's event loop.
        """
        require_loop(self._watcher.runtime, "cancel()")
        self.drop()
        if self._message is not None:
            self._watcher.mailbox.remove(self._message)

    def drop(self) -> None:
        """Watch no longer; what waits already stays."""
        self._watcher.life.monitors.discard(self)
        self._watched.monitors.discard(self)

    def tell(self) -> None:
        """The agent has ended: say so, once."""
        self.drop()
        session, outcome = self._watched.session, self._watched.outcome
        assert outcome is not None  # it has ended
        self._message = AgentExit(
            session.session_id, session.agent_type, outcome.status, describe_error(outcome.error)
        )
        self._watcher.mailbox.put_result(self._message)


def monitor(watcher: "Actor", watched: "Actor") -> Monitor:
    """Make a monitor; `AgentInternals.monitor` says what may be raised."""
    require_loop(watcher.runtime, "monitor()")
    if watched is watcher:
        raise SelfWaitError("an agent can't be told of its own end: it has ended then")
    if watcher.life.nursery is None:
        raise AgentNotRunningError(
            f"the agent {watcher.name} has returned, and monitors no more", outcome=watcher.outcome
        )
    limit = watcher.limits.monitors
    if len(watcher.life.monitors) + watcher.mailbox.count(AgentExit) >= limit:
        raise MailboxFullError(
            f"{watcher.name} monitors {limit} agents already, or has not taken word of their ends",
            hint="cancel some of its monitors, or raise RuntimeLimits.monitors",
        )
    made = Monitor(watcher, watched)
    if watched.outcome is not None:
        made.tell()
    return made
