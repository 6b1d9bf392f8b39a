"""`WrappedAgent`: an `Agent` in a team or with a wrapped model, for `handoff_team` and `react`."""

from collections.abc import Callable
from itertools import chain
from typing import TypeVar

from greenroom.agents import Agent, Runnable
from greenroom.agents._internal import RunReport, Team
from greenroom.core import ToolUseBlock
from greenroom.llm import LLMProvider, ModelSettings
from greenroom.llm._internal import find_model
from greenroom.runtime import AgentInternals

DepsT = TypeVar("DepsT")
OutputT_co = TypeVar("OutputT_co", covariant=True)


class WrappedAgent(Runnable[DepsT, OutputT_co]):
    """An `Agent` that is run in a team, or with another model.

    It goes on after a kill as the agent does: in its conversation, with a question for each call
    that was cut off.
    """

    asks_in_doubt = True

    def __init__(
        self,
        agent: Agent[DepsT, OutputT_co],
        *,
        team: Team[DepsT] | None = None,
        wrap: Callable[[LLMProvider], LLMProvider] | None = None,
        name: str = "",
        description: str = "",
    ) -> None:
        """Take the agent, its team, what wraps its model once that is open, and what it is called.

        By default the team is whatever the agent can reach by its handoffs.
        """
        self.name = name or agent.name
        self.description = description or agent.description
        self.deps_type = agent.deps_type
        self._agent = agent
        self._wrap = wrap
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
        return WrappedAgent(agent, wrap=self._wrap, name=self.name, description=self.description)

    async def __call__(
        self,
        internals: AgentInternals,
        deps: DepsT = None,  # type: ignore[assignment]  # checked when it is run
        report: RunReport | None = None,
    ) -> None:
        """Answer each input: the agent function, for `runtime.spawn(session, agent, deps)`."""
        agent = self._agent
        if self._wrap is not None:
            model = find_model(agent.llm, internals.context.resources)
            agent = agent.replace_model(self._wrap(model))
        await agent(internals, deps, report, self._team if self._is_team else None)
