"""`TeamModel`: use a pattern as a model, so that a conversation can be handed over to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from greenroom.agents import Runnable
from greenroom.core import Message, ModelRequest, Price, StopReason, ToolError, as_blocks
from greenroom.llm import ModelStream, collect, replay
from greenroom.runtime import calling_agent


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
        """
        context = calling_agent()
        if context is None:
            raise ToolError(f"{self.model} can only be asked by an agent")
        said = (each.text for each in reversed(request.messages) if each.role == "user")
        prompt = next(filter(None, said), "")
        told = await self._tool.execute({"prompt": prompt}, context)
        reply = Message(
            "assistant",
            as_blocks(told.text),
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
