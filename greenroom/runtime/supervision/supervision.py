"""What a supervisor does with its children: restarts, stops, ends.

A supervisor owns no task and no nursery of its own: its agents live where they would live without
it, in their home's nursery, and park there between two lives. What takes time (a back-off, stopping
a group) is a job, a task in the same nursery. A stronger order cancels the jobs in hand and begins
its own: giving up is stronger than a restart, and the end is stronger than all. So the jobs may be
cut off anywhere, and if the home itself ends, it ends the jobs and the children together.
"""

import logging
from enum import Enum, auto
from typing import TYPE_CHECKING

import trio

from greenroom.core import EndStatus, SupervisionError, describe_error, log_error
from greenroom.runtime.outcome import SupervisorOutcome
from greenroom.runtime.supervision.jobs import Jobs
from greenroom.runtime.supervision.member import Member, Restart, Strategy

if TYPE_CHECKING:
    from greenroom.resilience import Backoff
    from greenroom.runtime.supervision.home import Home
    from greenroom.runtime.supervision.restart_window import RestartWindow

logger = logging.getLogger("greenroom.runtime")


class _State(Enum):
    RUNNING = auto()
    HALTED = auto()
    ENDING = auto()


class Supervision(Member):
    """The children of one supervisor, in the order in which they were started."""

    def __init__(
        self,
        home: "Home",
        parent: "Supervision | None",
        *,
        name: str,
        restart: Restart,
        strategy: Strategy,
        window: "RestartWindow",
        backoff: "Backoff",
    ) -> None:
        """Made by `supervisor()` of a runtime, an agent or another supervisor."""
        super().__init__(name, restart, parent)
        self.home = home
        self.strategy: Strategy = strategy
        self.window = window
        self.members: dict[Member, None] = {}
        self.restarted = 0
        """How many restarts it has ordered."""
        self.ended = trio.Event()
        self.outcome: SupervisorOutcome | None = None
        self._backoff = backoff
        self._state = _State.RUNNING
        self._crash: SupervisionError | None = None
        self._lives = 1
        self._was_asked = False
        self._jobs = Jobs(home, f"supervisor {name}")
        # Children whose crash concerns a group, and the job that sees to one after the other.
        self._failed: set[Member] = set()
        self._is_grouping = False
        self.begun()

    # -- as the child of another one ------------------------------------------------------------

    @property
    def restarts(self) -> int:
        """How often it was started again, with all of its children."""
        return self._lives - 1

    @property
    def crash(self) -> SupervisionError | None:
        """Why it has given up, or None."""
        return self._crash

    @property
    def is_finished(self) -> bool:
        """Never: a supervisor's work is not done before it is told so."""
        return False

    def _begin_stop(self) -> None:
        if self._state is _State.RUNNING:
            self._halt()

    def announce(self, delay: float, why: str) -> None:
        """Tell the readers of all its agents."""
        for member in self.members:
            member.announce(delay, describe_error(self._crash) or why)

    def _live_again(self) -> None:
        self._lives += 1
        self._crash = None
        self._state = _State.RUNNING
        self.window.clear()
        self._is_grouping = True
        self._jobs.launch(self._start_all)

    def give_up(self, why: SupervisionError) -> None:
        """End it and everything below it for good, without waiting."""
        self.stopped_by = why
        self._end_now(why)

    async def end(self, grace: float) -> None:
        """Shut everything below it down, in reverse order, each with this grace."""
        self.close(grace)
        await self.ended.wait()

    # -- what its children tell it --------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether it takes children."""
        return self._state is _State.RUNNING

    def add(self, member: Member) -> None:
        """A child was started."""
        self.members[member] = None

    def forget(self, member: Member) -> None:
        """A child has ended for good."""
        del self.members[member]
        self._failed.discard(member)
        self._finish_if_empty()

    def takes(self, member: Member) -> bool:
        """A child's life is over: whether it may have another one, and so shall park."""
        if self._state is _State.ENDING or not member.may_live_again:
            return False
        if self._state is _State.RUNNING and member.stopped_by is None:
            self._order_restart(member)
        return True

    # -- restarts -------------------------------------------------------------------------------

    def _order_restart(self, member: Member) -> None:
        if self.strategy == "one_for_one":
            count = self._count(member, member)
            if count is not None:
                delay = self._backoff.delay(count)
                member.announce(delay, "")
                self._jobs.launch(self._start_after, member, delay)
            return
        self._failed.add(member)
        if not self._is_grouping:
            self._is_grouping = True
            self._jobs.launch(self._restart_groups)

    def _count(self, culprit: Member, who: object) -> int | None:
        """Count a restart; None where it was one too many, and the supervisor gives up."""
        count = self.window.add(who, trio.current_time())
        if count is None:
            self._fail(culprit)
        else:
            self.restarted += 1
        return count

    async def _start_after(self, member: Member, delay: float) -> None:
        await trio.sleep(delay)
        await self._start([member])

    async def _start(self, members: list[Member]) -> None:
        for member in members:
            # A cancel may have come after what was waited for last: then nothing may happen here.
            await trio.lowlevel.checkpoint_if_cancelled()
            if member in self.members:
                await member.start()

    async def _stop(self, members: list[Member], why: SupervisionError) -> None:
        for member in reversed(members):
            await trio.lowlevel.checkpoint_if_cancelled()
            await member.stop(why)
        await trio.lowlevel.checkpoint_if_cancelled()

    async def _start_all(self) -> None:
        await self._start(list(self.members))
        self.begun()
        await self._restart_groups()

    async def _restart_groups(self) -> None:
        """Restart one group after the other, until no crash is left to see to."""
        while self._failed:
            culprit = next(member for member in self.members if member in self._failed)
            count = self._count(culprit, self)
            if count is None:
                return
            await self._restart_group(culprit, self._backoff.delay(count))
        self._is_grouping = False

    async def _restart_group(self, culprit: Member, delay: float) -> None:
        group = self._group(culprit)
        reason = f"{culprit.name} {'crashed' if culprit.crash else 'ended'}"
        why = SupervisionError(f"the supervisor {self.name} stopped its group, because {reason}")
        why.__cause__ = culprit.crash
        await self._stop(group, why)
        # Whoever of them crashed meanwhile is seen to by this restart.
        self._failed.difference_update(group)
        for member in group:
            if member in self.members:
                member.announce(delay, reason)
        await trio.sleep(delay)
        await self._start(group)

    def _group(self, culprit: Member) -> list[Member]:
        members = list(self.members)
        first = members.index(culprit) if self.strategy == "rest_for_one" else 0
        return members[first:]

    # -- giving up ------------------------------------------------------------------------------

    def _fail(self, culprit: Member) -> None:
        """A restart too many: stop everything, and let whoever is above decide."""
        window = self.window
        self._crash = SupervisionError(
            f"the supervisor {self.name} gave up: {culprit.name} was to be started again, after "
            f"{window.intensity} restarts within {window.period:g} seconds"
        )
        self._crash.__cause__ = culprit.crash
        if culprit.crash is None:
            logger.error("%s", self._crash)
        else:
            log_error(logger, str(self._crash), culprit.crash)
        self._halt()

    def _halt(self) -> None:
        self._state = _State.HALTED
        self._call_off()
        self._jobs.launch(self._stop_all)

    async def _stop_all(self) -> None:
        why = self._crash or self.stopped_by
        assert why is not None  # whoever halts says why
        await self._stop(list(self.members), why)
        if self.parent is not None and self.parent.takes(self):
            self.park()
        else:
            self._end_now(why)

    # -- the end --------------------------------------------------------------------------------

    def close(self, grace: float) -> None:
        """Begin to end, on request; a second call joins the first."""
        if self._state is _State.ENDING:
            return
        self._was_asked = True
        self._begin_end()
        if self.members and self.home.is_open:
            self._jobs.launch(self._end_members, grace)
        self._finish_if_empty()

    def home_ended(self) -> None:
        """The runtime or the agent that it belongs to has ended, and all of its agents with it."""
        self._begin_end()
        for member in tuple(self.members):
            if isinstance(member, Supervision):
                member.home_ended()
        self._finish_if_empty()

    async def _end_members(self, grace: float) -> None:
        for member in reversed(tuple(self.members)):
            await trio.lowlevel.checkpoint_if_cancelled()
            await member.end(grace)

    def _end_now(self, why: SupervisionError) -> None:
        self._begin_end()
        for member in tuple(self.members):
            member.give_up(why)
        self._finish_if_empty()

    def _begin_end(self) -> None:
        self._state = _State.ENDING
        self._call_off()

    def _call_off(self) -> None:
        self._jobs.call_off()
        self._is_grouping = False
        self._failed.clear()

    def _finish_if_empty(self) -> None:
        """End, in one step, once the last child is gone."""
        if self._state is not _State.ENDING or self.members or self.ended.is_set():
            return
        status = EndStatus.COMPLETED if self._was_asked else EndStatus.CANCELLED
        if self._crash is not None:
            status = EndStatus.CRASHED
        error = self._crash or self.stopped_by
        self.outcome = SupervisorOutcome(status, error, self.restarted)
        self.park()
        self.ended.set()
        if self.parent is not None:
            self.parent.forget(self)
        else:
            self.home.forget(self, self._crash)
