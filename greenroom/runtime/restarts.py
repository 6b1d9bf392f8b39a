"""What a supervisor does with its children: restarts, stops, ends.

A supervisor owns no task and no nursery: its agents live where they would live without it, in their
host's nursery, and park there between two lives. Work that takes time (a back-off, stopping a
group) is a job, a task in the same nursery. A stronger order cancels the running jobs and begins
its own: giving up is stronger than a restart, and the end is stronger than all. So a job may be cut
off anywhere, and the end of the host ends the jobs and the children together.
"""

import logging
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Literal, TypeAlias, TypeVarTuple, Unpack

import trio

from greenroom.core import ConfigurationError
from greenroom.core._internal import EndStatus, describe_error, log_error, quantity
from greenroom.resilience import Backoff
from greenroom.runtime.actor import Actor
from greenroom.runtime.errors import AgentNotRunningError, SupervisionError
from greenroom.runtime.kernel import Kernel
from greenroom.runtime.results import SupervisorOutcome
from greenroom.runtime.tasks import Dependent

logger = logging.getLogger("greenroom.runtime")

Ts = TypeVarTuple("Ts")


class AgentHost:
    """Where a supervisor's agents live: under the runtime, or under the agent that made it."""

    def __init__(self, kernel: Kernel[Actor], owner: Actor | None) -> None:
        """Take the runtime, or the present life of the agent that owns the supervisor.

        Raises:
            RuntimeClosedError: the runtime is not open.
            AgentNotRunningError: the agent's function has returned.
        """
        self.kernel = kernel
        self.owner = owner
        self._life = owner.life if owner else None
        self.nursery = kernel.require_nursery()
        """Where everything of it runs."""
        if self._life is not None:
            if self._life.nursery is None:
                raise AgentNotRunningError("the agent has returned, and supervises no more")
            self.nursery = self._life.nursery

    @property
    def is_open(self) -> bool:
        """Whether it has not begun to end."""
        return self.kernel.is_open if self._life is None else self._life.nursery is not None

    def add(self, supervision: Dependent) -> None:
        """Remember a topmost supervisor."""
        self._supervisions[supervision] = None

    def forget(self, supervision: Dependent, crash: SupervisionError | None) -> None:
        """Forget one that has ended; if it gave up, the agent that owns it crashes."""
        self._supervisions.pop(supervision, None)
        if crash is not None and self._life is not None and self.is_open:
            self._life.fail(crash)

    @property
    def _supervisions(self) -> dict[Dependent, None]:
        return self.kernel.supervisions if self._life is None else self._life.supervisions


class Jobs:
    """Starts jobs, and calls all of them off together."""

    def __init__(self, host: AgentHost, name: str) -> None:
        """Start with none; the name is that of their tasks."""
        self._host = host
        self._name = name
        self._scopes: set[trio.CancelScope] = set()

    def launch(self, job: Callable[[Unpack[Ts]], Awaitable[None]], *args: *Ts) -> None:
        """Start a job; it can be called off before it has run at all."""
        scope = trio.CancelScope()
        self._scopes.add(scope)
        self._host.nursery.start_soon(self._run, scope, job, args, name=self._name)

    async def _run(
        self,
        scope: trio.CancelScope,
        job: Callable[[Unpack[Ts]], Awaitable[None]],
        args: tuple[*Ts],
    ) -> None:
        try:
            with scope:
                await trio.lowlevel.checkpoint_if_cancelled()
                await job(*args)
        except BaseException as error:
            self._host.kernel.note_failure(error)
            raise
        self._scopes.discard(scope)

    def call_off(self) -> None:
        """Cancel all jobs, the calling one included, but none that is launched later."""
        for scope in self._scopes:
            scope.cancel()
        self._scopes.clear()


Restart: TypeAlias = Literal["permanent", "transient", "temporary"]
"""When a child is started again: always, only after a crash, or never."""

Strategy: TypeAlias = Literal["one_for_one", "rest_for_one", "one_for_all"]
"""Who is started again when a child crashes: it alone, it and those started after it, or all."""


class Member(ABC):
    """One child: it is alive, or parked between two lives, or gone.

    Its supervisor starts a parked child again or gives it up. It waits in its host's nursery, so
    the end of the host ends it in any case.
    """

    def __init__(self, name: str, restart: Restart, parent: "Supervision | None") -> None:
        self.name = name
        self.restart: Restart = restart
        self.parent = parent
        """The supervisor above it; None for the topmost."""
        self.stopped_by: SupervisionError | None = None
        """Why the supervisor has stopped it or given it up, if it did."""
        self._stopped = trio.Event()
        self._begun = trio.Event()

    @property
    def supervisors(self) -> "list[Supervision]":
        """The supervisors above it, the nearest first."""
        line: list[Supervision] = []
        above = self.parent
        while above is not None:
            line.append(above)
            above = above.parent
        return line

    @property
    @abstractmethod
    def restarts(self) -> int:
        """How often it was started again."""

    @property
    @abstractmethod
    def crash(self) -> BaseException | None:
        """What crashed its life that is over, or None."""

    @property
    @abstractmethod
    def is_finished(self) -> bool:
        """Whether its life ended because its work was done."""

    @property
    def is_parked(self) -> bool:
        """Whether its life is over, and it waits to be started again or given up."""
        return self._stopped.is_set()

    @property
    def may_live_again(self) -> bool:
        """Whether its restart type allows another life."""
        if self.restart == "transient":
            return not self.is_finished
        return self.restart == "permanent"

    async def stop(self, why: "SupervisionError") -> None:
        """End its life, and wait until it is parked, or gone."""
        if not self.is_parked:
            self.stopped_by = self.stopped_by or why
            self._begin_stop()
        await self._stopped.wait()

    @abstractmethod
    def _begin_stop(self) -> None:
        """End its life, without waiting."""

    @abstractmethod
    def announce(self, delay: float, why: str) -> None:
        """Tell its readers that it will live again in `delay` seconds, and why if no crash."""

    async def start(self) -> None:
        """Let it live again if it is parked, and wait until that life has begun, or is over."""
        if self.is_parked:
            self._stopped, self._begun = trio.Event(), trio.Event()
            self.stopped_by = None
            self._live_again()
        await self._begun.wait()

    @abstractmethod
    def _live_again(self) -> None:
        """Begin another life, without waiting."""

    @abstractmethod
    def give_up(self, why: "SupervisionError") -> None:
        """End it for good, without waiting."""

    @abstractmethod
    async def end(self, grace: float) -> None:
        """Shut it down for good, with so many seconds for the open turn."""

    def mark_begun(self) -> None:
        """Note that a life has begun."""
        self._begun.set()

    def park(self) -> None:
        """Note that a life is over, even if no other follows: nothing waits for it any longer."""
        self._stopped.set()
        self._begun.set()


class RestartWindow:
    """A sliding window in which at most `intensity` restarts fit.

    As in Erlang/OTP, the restart that would be one too many does not happen, and a restart exactly
    `period` seconds ago still counts.

    Example:
        >>> window = RestartWindow(intensity=2, period=5.0)
        >>> window.add("a", now=0.0), window.add("b", now=1.0), window.add("a", now=2.0)
        (1, 1, None)
        >>> window.add("a", now=5.5)
        1
    """

    def __init__(self, intensity: int, period: float) -> None:
        """Start with no restarts, or raise `ConfigurationError` if a bound makes no sense."""
        if not intensity >= 0:  # NaN compares to nothing, and is refused too
            raise ConfigurationError("a supervisor's intensity must be 0 or more")
        if not period > 0:
            raise ConfigurationError("a supervisor's period must be more than 0 seconds")
        self.intensity = intensity
        self.period = period
        self._restarts: deque[tuple[float, object]] = deque()
        self._by_child: Counter[object] = Counter()

    def add(self, child: object, now: float) -> int | None:
        """Count a restart of a child, and return which one it is of this child in the window.

        Return None, and count nothing, if that would exceed the intensity.
        """
        if self.count(now) >= self.intensity:
            return None
        self._restarts.append((now, child))
        self._by_child[child] += 1
        return self._by_child[child]

    def count(self, now: float) -> int:
        """Return how many restarts lie in the window that ends now."""
        while self._restarts and now - self._restarts[0][0] > self.period:
            _, child = self._restarts.popleft()
            self._by_child[child] -= 1
            if not self._by_child[child]:
                del self._by_child[child]
        return len(self._restarts)

    def clear(self) -> None:
        """Forget every restart."""
        self._restarts.clear()
        self._by_child.clear()


class _State(Enum):
    RUNNING = auto()
    HALTED = auto()
    ENDING = auto()


class Supervision(Member):
    """The children of one supervisor, in the order in which they were started."""

    def __init__(
        self,
        host: AgentHost,
        parent: "Supervision | None",
        *,
        name: str,
        restart: Restart,
        strategy: Strategy,
        window: RestartWindow,
        backoff: Backoff,
    ) -> None:
        """Made by `supervisor()` of a runtime, an agent or another supervisor."""
        super().__init__(name, restart, parent)
        self.host = host
        self.strategy: Strategy = strategy
        self.window = window
        self.members: dict[Member, None] = {}
        self.restart_count = 0
        """How many restarts it has ordered."""
        self.ended = trio.Event()
        self.outcome: SupervisorOutcome | None = None
        self._backoff = backoff
        self._state = _State.RUNNING
        self._crash: SupervisionError | None = None
        self._lives = 1
        self._was_asked = False
        self._jobs = Jobs(host, f"supervisor {name}")
        # Children whose crash concerns a group, and whether the job that restarts groups runs.
        self._failed: set[Member] = set()
        self._is_grouping = False
        self.mark_begun()

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
        """Never: a supervisor's work is not done before `shutdown`."""
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

    @property
    def is_running(self) -> bool:
        """Whether it takes children."""
        return self._state is _State.RUNNING

    def add(self, member: Member) -> None:
        """Add a child that was started."""
        self.members[member] = None

    def forget(self, member: Member) -> None:
        """Remove a child that has ended for good."""
        del self.members[member]
        self._failed.discard(member)
        self._finish_if_empty()

    def on_life_end(self, member: Member) -> bool:
        """Decide whether a child whose life is over may have another one, and so parks."""
        if self._state is _State.ENDING or not member.may_live_again:
            return False
        if self._state is _State.RUNNING and member.stopped_by is None:
            self._order_restart(member)
        return True

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
        """Count a restart; give up and return None if it is one too many."""
        count = self.window.add(who, trio.current_time())
        if count is None:
            self._fail(culprit)
        else:
            self.restart_count += 1
        return count

    async def _start_after(self, member: Member, delay: float) -> None:
        await trio.sleep(delay)
        await self._start([member])

    async def _start(self, members: list[Member]) -> None:
        for member in members:
            # A cancel may have come after the last wait: then nothing may happen here.
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
        self.mark_begun()
        await self._restart_groups()

    async def _restart_groups(self) -> None:
        """Restart one group after the other, until no crash is left."""
        while self._failed:
            culprit = next(member for member in self.members if member in self._failed)
            count = self._count(culprit, self)
            if count is None:
                return
            await self._restart_group(culprit, self._backoff.delay(count))
        self._is_grouping = False

    async def _restart_group(self, culprit: Member, delay: float) -> None:
        group = self._find_group(culprit)
        # An exception may be false, or refuse to say whether it is true.
        reason = f"{culprit.name} {'ended' if culprit.crash is None else 'crashed'}"
        why = SupervisionError(f"the supervisor {self.name} stopped its group, because {reason}")
        why.__cause__ = culprit.crash
        await self._stop(group, why)
        # This restart is also for those of them that crashed meanwhile.
        self._failed.difference_update(group)
        for member in group:
            if member in self.members:
                member.announce(delay, reason)
        await trio.sleep(delay)
        await self._start(group)

    def _find_group(self, culprit: Member) -> list[Member]:
        members = list(self.members)
        first = members.index(culprit) if self.strategy == "rest_for_one" else 0
        return members[first:]

    def _fail(self, culprit: Member) -> None:
        """A restart too many: stop everything, and let the supervisor above decide."""
        window = self.window
        self._crash = SupervisionError(
            f"the supervisor {self.name} gave up: {culprit.name} was to be started again, after "
            f"{quantity(window.intensity, 'restart')} within {quantity(window.period, 'second')}"
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
        assert why is not None  # whatever halts it says why
        await self._stop(list(self.members), why)
        if self.parent is not None and self.parent.on_life_end(self):
            self.park()
        else:
            self._end_now(why)

    def close(self, grace: float) -> None:
        """Begin to end, on request; a second call joins the first."""
        if self._state is _State.ENDING:
            return
        self._was_asked = True
        self._begin_end()
        if self.members and self.host.is_open:
            self._jobs.launch(self._end_members, grace)
        self._finish_if_empty()

    def on_host_end(self) -> None:
        """The runtime or the agent that it belongs to has ended, and all of its agents with it."""
        self._begin_end()
        for member in tuple(self.members):
            if isinstance(member, Supervision):
                member.on_host_end()
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
        self.outcome = SupervisorOutcome(status, error, self.restart_count)
        self.park()
        self.ended.set()
        if self.parent is not None:
            self.parent.forget(self)
        else:
            self.host.forget(self, self._crash)
