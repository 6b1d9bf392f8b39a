"""An agent as its supervisor sees it."""

import logging
from typing import TYPE_CHECKING

import trio

from greenroom.core import AgentState, Restarted, describe_error, log_error
from greenroom.runtime.failure import error_chunk
from greenroom.runtime.supervision.member import Member, Restart

if TYPE_CHECKING:
    from greenroom.core import SupervisionError
    from greenroom.runtime.actor import Actor
    from greenroom.runtime.supervision.supervision import Supervision

logger = logging.getLogger("greenroom.runtime")


class SupervisedAgent(Member):
    """Parks an agent's task between two of its lives."""

    def __init__(self, actor: "Actor", parent: "Supervision", restart: Restart) -> None:
        """Begin with the agent's first life."""
        super().__init__(actor.name, restart, parent)
        self.actor = actor
        self._supervision = parent
        self._go = trio.Event()

    @property
    def restarts(self) -> int:
        """How often it was started again."""
        return self.actor.restarts

    @property
    def crash(self) -> BaseException | None:
        """What crashed its life that is over, or None."""
        return self.actor.life.crash

    @property
    def is_finished(self) -> bool:
        """Whether its function has returned."""
        return self.actor.life.returned and self.actor.life.crash is None

    # -- what its supervisor does ---------------------------------------------------------------

    def _begin_stop(self) -> None:
        self.actor.life.scope.cancel()

    def announce(self, delay: float, why: str) -> None:
        """Publish `Restarted`, after the `Error` of a crash."""
        actor = self.actor
        name = "/".join(actor.lineage())
        if self.crash is None:
            logger.warning("the agent %s starts again in %.3g s: %s", name, delay, why)
        else:
            log_error(logger, f"the agent {name} starts again in {delay:.3g} s", self.crash)
            self._tell_crash(self.crash)
        text = describe_error(self.crash) or why
        actor.publish(Restarted(actor.epoch + 1, text, delay))
        actor.set_state(AgentState.idle())
        actor.note = _note(self.crash, why)

    def _tell_crash(self, crash: BaseException) -> None:
        if not self.actor.life.is_reported:
            self.actor.life.is_reported = True
            self.actor.publish(error_chunk(crash))

    def _live_again(self) -> None:
        self.actor.begin_life()
        self._go.set()

    def give_up(self, why: "SupervisionError") -> None:
        """End it for good, without waiting."""
        self.stopped_by = why
        self.actor.scope.cancel()

    async def end(self, grace: float) -> None:
        """Shut it down for good."""
        await self.actor.shut_down(grace)

    # -- what the agent's task does -------------------------------------------------------------

    def parks(self) -> bool:
        """Say that a life is over, and ask whether another one may follow."""
        self._go = trio.Event()
        if not self._supervision.takes(self):
            return False
        self.park()
        return True

    async def wait_start(self) -> None:
        """Wait to be started again; the end of the agent cancels this."""
        await self._go.wait()

    def gone(self) -> None:
        """The agent has ended."""
        self.park()
        self._supervision.forget(self)


def _note(crash: BaseException | None, why: str) -> str:
    if crash is not None:
        return f"[The agent crashed: {describe_error(crash)}; it was started again]"
    return f"[The agent was started again{f': {why}' if why else ''}]"
