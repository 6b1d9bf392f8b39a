"""What an agent is tied to: the function that it runs, and its place under a supervisor."""

from collections.abc import Awaitable
from typing import Protocol

from greenroom.runtime.errors import SupervisionError


class AgentFunction(Protocol):
    """What an agent does, given its internals and other arguments."""

    def __call__(self, agent: object, /, *args: object) -> Awaitable[object]:
        """Begin a life."""


class Membership(Protocol):
    """An agent's place under a supervisor, as the agent sees it."""

    @property
    def path(self) -> str:
        """The supervisor's path, from the root down."""

    @property
    def is_parked(self) -> bool:
        """Whether the agent waits for its next life."""

    @property
    def stopped_by(self) -> SupervisionError | None:
        """Why the supervisor ended it, if it did."""

    def mark_begun(self) -> None:
        """Note that a life begins."""

    def try_park(self) -> bool:
        """Ask for another life; return whether there may be one."""

    async def wait_start(self) -> None:
        """Wait until the next life may begin."""

    def mark_gone(self) -> None:
        """Note that the agent has ended for good."""
