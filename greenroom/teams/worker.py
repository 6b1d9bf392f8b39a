"""`Worker`: an agent of a team that is chosen by its capabilities."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from greenroom.teams.members import Member, name_members


@dataclass(frozen=True, eq=False)
class Worker:
    """One agent of a team.

    Attributes:
        name: its unique name in the team; a second agent of the same name gets a number.
        run: the agent function.
        capabilities: words for what it is good at; without any it may get every task.
        description: what it is good for, for the model that plans.
    """

    name: str
    run: Member
    capabilities: tuple[str, ...] = ()
    description: str = ""

    @classmethod
    def gather(cls, agents: Iterable[Member]) -> tuple["Worker", ...]:
        """Return a worker for each agent of a team.

        Raises:
            ConfigurationError: there are no agents, or one has an invalid name.
            TypeError: one of them is not an agent function.
        """
        return tuple(cls._of(name, agent) for name, agent in name_members(agents).items())

    @classmethod
    def _of(cls, name: str, agent: Member) -> "Worker":
        named: object = agent
        while isinstance(named, partial):
            named = named.func
        capabilities = tuple(getattr(named, "capabilities", ()))
        return cls(name, agent, capabilities, str(getattr(named, "description", "")))

    def can(self, capability: str) -> bool:
        """Whether it is good at something, or has this name."""
        wanted = capability.casefold()
        return wanted in (self.name.casefold(), *(each.casefold() for each in self.capabilities))
