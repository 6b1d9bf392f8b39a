"""`handoff_team`: agents that hand one conversation over to each other."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from greenroom.agents import Agent, Runnable
from greenroom.agents._internal import MAX_SWITCHES, Team, continue_runs
from greenroom.core import (
    BudgetExceededError,
    ConfigurationError,
    Message,
    ModelRequest,
    Price,
    StopReason,
    ToolError,
)
from greenroom.core._internal import RUNTIME, as_blocks
from greenroom.flow.graph import is_count
from greenroom.flow.wrapped_agent import WrappedAgent
from greenroom.llm import ModelStream
from greenroom.llm._internal import collect, replay
from greenroom.runtime._internal import calling_agent

DepsT = TypeVar("DepsT")


def handoff_team(
    start: Agent[DepsT, object],
    *others: Agent[DepsT, object] | Runnable[object, object],
    max_switches: int = MAX_SWITCHES,
    name: str = "",
    description: str = "",
) -> WrappedAgent[DepsT, object]:
    """Combine agents that hand one conversation over to each other, each to its `handoffs`.

    Names in `handoffs` refer to agents of the team, so two agents can name each other. The team has
    one session with one history, which records the agent that has the conversation; it keeps it in
    later turns. The steps and the budget of a turn are those of the first agent. For an
    orchestrator, the team is good at whatever one of its agents is good at.

    Args:
        start: the agent that has the conversation first.
        *others: the other agents. A pattern among them gets only the last user message; its output
            is its reply.
        max_switches: the most handoffs in one turn; another one is a `HandoffLimitError` that names
            the agents in order.
        name: the name for people, logs and models; by default that of the first agent.
        description: what the team is good for, for a model that may call it.

    Raises:
        ConfigurationError: a handoff names an unknown agent, two agents have the same name, no
            agent hands off to one of them, `max_switches` is below 1, or one is not an agent.
        TypeError: an agent needs other `deps` than the first one.

    Example:
        >>> from greenroom import Agent
        >>> from greenroom.flow import handoff_team
        >>> from greenroom.testing import ScriptedProvider, call
        >>> transfer = ScriptedProvider(call("transfer_to_refunds"))
        >>> desk = Agent(transfer, name="desk", handoffs=["refunds"])
        >>> reply = ScriptedProvider("It is on its way.")
        >>> refunds = Agent(reply, name="refunds", handoffs=["desk"])
        >>> handoff_team(desk, refunds).run_sync("Where is my money?").output
        'It is on its way.'
    """
    if not is_count(max_switches):
        raise ConfigurationError(f"max_switches is {max_switches!r}", hint="give 1 or more")
    if not isinstance(start, Agent):
        hint = "begin with an Agent that hands off to it"
        raise ConfigurationError(f"{start!r} can't be the first agent of a team", hint=hint)
    for each in others:
        if not isinstance(each, Runnable):
            hint = "give an Agent, or a function in a Pattern"
            raise ConfigurationError(f"{each!r} can't be an agent of a team", hint=hint)
    agents = [_as_agent(each) for each in others]
    team = Team.of(start, agents, max_switches=max_switches)
    reached = {
        handoff.target for agent in team.members.values() for handoff in team.handoffs(agent)
    }
    if lonely := [each.name for each in agents if each.name not in reached]:
        raise ConfigurationError(
            f"no agent hands off to {', '.join(lonely)}",
            hint=f"write Agent(…, handoffs=[{lonely[0]!r}])",
        )
    return WrappedAgent(start, team=team, name=name, description=description)


def _as_agent(
    each: Agent[DepsT, object] | Runnable[object, object],
) -> Agent[DepsT, object]:
    """Return an agent unchanged; wrap anything else in an agent with a `TeamModel`."""
    if isinstance(each, Agent):
        return each
    words = getattr(each, "capabilities", ())
    return Agent(TeamModel(each), name=each.name, description=each.description, capabilities=words)


def _is_input(message: Message) -> bool:
    """Whether a message is what a person or an agent asks, rather than a result or a remark."""
    return message.role == "user" and message.text != "" and message.sender != RUNTIME


class TeamModel:
    """A model whose replies are the outputs of a pattern.

    The pattern gets only the last user message, and runs as a subagent of the agent that uses the
    model. It reports no tokens, and each reply counts as a model call.
    """

    name = "team"
    price = Price(0, 0)

    def __init__(self, team: Runnable[object, object]) -> None:
        """Take a pattern or another `Runnable`."""
        self._tool = team.as_tool(description=team.description or team.name)
        self.model = team.name

    def __repr__(self) -> str:
        return f"TeamModel(<{self.model}>)"

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStream]:
        """Ask the team, and stream its answer in one piece.

        Raises:
            ToolError: the team did not answer, or this is called outside an agent.
            BudgetExceededError: it did not for want of a budget.
        """
        context = calling_agent()
        if context is None:
            raise ToolError(f"{self.model} can only be asked by an agent")
        asked = next(filter(_is_input, reversed(request.messages)), Message.user(""))
        try:
            with continue_runs(asked.id, self.model):
                result = await self._tool.execute({"prompt": asked.text}, context)
        except ToolError as error:
            if isinstance(error.__cause__, BudgetExceededError):
                raise BudgetExceededError(error.message) from None
            raise
        reply = Message(
            "assistant",
            as_blocks(result.text),
            model=self.model,
            provider=self.name,
            stop_reason=StopReason.END_TURN,
        )
        async with replay(reply) as stream:
            yield stream

    async def generate(self, request: ModelRequest) -> Message:
        """Ask the team, and return its answer.

        Raises:
            ToolError: as `stream`.
        """
        return await collect(self.stream(request))

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""
