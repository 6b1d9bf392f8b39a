"""An agent of a team: its function, and the name and capabilities by which it is chosen."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from greenroom.core import ConfigurationError
from greenroom.runtime import AgentInternals

__all__ = ["AgentFunction", "Worker"]

AgentFunction: TypeAlias = Callable[[AgentInternals], Awaitable[object]]
"""An agent: an `Agent`, an async function, or what a pattern of this package has made."""


@dataclass(frozen=True, eq=False)
class Worker:
    """One agent of a team.

    Attributes:
        name: what it is called in the team: its `name`, else that of the function.
        run: the agent function.
        capabilities: words for what it is good at; without any it may be given everything.
        description: what it is good for, for the model that plans.
    """

    name: str
    run: AgentFunction
    capabilities: tuple[str, ...] = ()
    description: str = ""

    @classmethod
    def of(cls, agent: AgentFunction) -> "Worker":
        """Look at an agent."""
        named: object = agent
        while isinstance(named, partial):
            named = named.func
        name = getattr(named, "name", None) or getattr(named, "__name__", type(named).__name__)
        capabilities = tuple(getattr(named, "capabilities", ()))
        return cls(str(name), agent, capabilities, str(getattr(named, "description", "")))

    @classmethod
    def gather(cls, agents: Iterable[AgentFunction]) -> tuple["Worker", ...]:
        """Look at the agents of a team.

        Raises:
            ConfigurationError: there are none, or two of them have one name.
        """
        workers = tuple(map(cls.of, agents))
        names = [worker.name for worker in workers]
        if not workers:
            raise ConfigurationError("a team without agents does nothing", hint="pass some")
        if twice := {name for name in names if names.count(name) > 1}:
            raise ConfigurationError(
                f"several agents of a team are named {', '.join(sorted(twice))}",
                hint='give each a name of its own: Agent(…, name="researcher")',
            )
        return workers

    def can(self, capability: str) -> bool:
        """Whether it is good at something, or has this name."""
        wanted = capability.casefold()
        return wanted in (self.name.casefold(), *(each.casefold() for each in self.capabilities))
