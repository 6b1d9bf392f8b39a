"""A child of a supervisor as the supervisor sees it: an agent, or another supervisor."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal, TypeAlias

import trio

if TYPE_CHECKING:
    from greenroom.core import SupervisionError
    from greenroom.runtime.supervision.supervision import Supervision

Restart: TypeAlias = Literal["permanent", "transient", "temporary"]
"""When a child is started again: always, only after a crash, or never."""

Strategy: TypeAlias = Literal["one_for_one", "rest_for_one", "one_for_all"]
"""Who is started again when a child crashes: it alone, it and those started after it, or all."""


class Member(ABC):
    """One child: it is alive, or parked between two lives, or gone.

    Whoever parks it starts it again or gives it up. It waits in its home's nursery, so that the end
    of the home ends it in any case.
    """

    def __init__(self, name: str, restart: Restart, parent: "Supervision | None") -> None:
        """Begin alive."""
        self.name = name
        self.restart: Restart = restart
        self.parent = parent
        """The supervisor whose child it is; None for one that has none above it."""
        self.stopped_by: SupervisionError | None = None
        """Why the supervisor has stopped it or given it up, where it did."""
        self._stopped = trio.Event()
        self._begun = trio.Event()

    # -- what it tells --------------------------------------------------------------------------

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
        """Whether its restart type allows another life after the one that is over."""
        if self.restart == "transient":
            return not self.is_finished
        return self.restart == "permanent"

    # -- what its supervisor does ---------------------------------------------------------------

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
        """Tell whoever reads it that it will live again in `delay` seconds, and why if no crash."""

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
        """Shut it down for good, with so many seconds for the turn in hand."""

    # -- what happens to it ---------------------------------------------------------------------

    def begun(self) -> None:
        """A life has begun."""
        self._begun.set()

    def park(self) -> None:
        """A life is over. Also when no other follows: then nobody may wait for it any longer."""
        self._stopped.set()
        self._begun.set()
