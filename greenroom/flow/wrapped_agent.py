"""`WrappedAgent`: an `Agent` that is run in another way, as by `react` and `handoff_team`."""

from collections.abc import Awaitable, Callable
from itertools import chain
from typing import TypeAlias, TypeVar

from greenroom.agents import Agent, Runnable
from greenroom.agents._internal import RunReport, Team
from greenroom.core import ToolUseBlock
from greenroom.llm import ModelSettings
from greenroom.runtime import AgentInternals

DepsT = TypeVar("DepsT")
OutputT_co = TypeVar("OutputT_co", covariant=True)

Run: TypeAlias = Callable[
    [Agent[DepsT, OutputT_co], AgentInternals, DepsT, RunReport | None], Awaitable[None]
]
"""Runs an agent in another way."""


class WrappedAgent(Runnable[DepsT, OutputT_co]):
    """An `Agent` that a function runs, such as in a team or with another model.

    It goes on after a kill as the agent does: in its conversation, with a question for each call
    that was cut off.
    """

    asks_in_doubt = True

    def __init__(
        self,
        agent: Agent[DepsT, OutputT_co],
        run: "Run[DepsT, OutputT_co]",
        *,
        team: Team[DepsT] | None = None,
        name: str = "",
        description: str = "",
    ) -> None:
        """Take the agent, the function that runs it, and what differs from the agent.

        The function may get a copy of the agent, with other settings.
        """
        self.name = name or agent.name
        self.description = description or agent.description
        self.deps_type = agent.deps_type
        self._agent = agent
        self._run = run
        self._is_team = team is not None
        self._team = team or Team.of(agent)
        words = (getattr(each, "capabilities", ()) for each in self._team.members.values())
        self.capabilities = tuple(dict.fromkeys(chain.from_iterable(words)))

    def __repr__(self) -> str:
        return f"<{self.name}, run by {', '.join(self._team.members)}>"

    def continues(self, call: ToolUseBlock) -> bool:
        """Whether a call that was cut off goes on when it is made again."""
        return self._team.continues(call)

    @property
    def identity(self) -> object:
        """The agent, which answers for it."""
        return self._agent.identity

    def replace_settings(self, settings: ModelSettings) -> Runnable[DepsT, OutputT_co]:
        """Return a copy whose model is asked with these settings.

        Raises:
            ConfigurationError: it is a team of several agents.
        """
        if self._is_team:
            return super().replace_settings(settings)
        agent = self._agent.replace_settings(settings)
        return WrappedAgent(agent, self._run, name=self.name, description=self.description)

    async def __call__(
        self,
        internals: AgentInternals,
        deps: DepsT = None,  # type: ignore[assignment]  # checked when it is run
        report: RunReport | None = None,
    ) -> None:
        """Answer each input: the agent function, for `runtime.spawn(session, agent, deps)`."""
        await self._run(self._agent, internals, deps, report)
