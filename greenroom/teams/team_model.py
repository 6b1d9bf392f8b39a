"""A pattern in the place of a model, so that a conversation can be passed to several agents as one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from greenroom.agents import Runnable
from greenroom.core import Message, ModelRequest, Price, StopReason, ToolError, as_blocks
from greenroom.llm import ModelStream, collect, replay
from greenroom.runtime import calling_agent


class TeamModel:
    """A model whose replies are what several agents as one come to.

    They are asked what the person has said last, as subagents of the agent whose model it is, and see
    nothing else of the conversation. It has no tokens of its own, and each reply counts as a model call.
    """

    name = "team"
    price = Price(0, 0)

    def __init__(self, team: Runnable[object, object]) -> None:
        """Take a pattern, or anything else that is run for one input."""
        self._tool = team.as_tool(description=team.description or team.name)
        self.model = team.name

    def __repr__(self) -> str:
        return f"TeamModel(<{self.model}>)"

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelStream]:
        """Ask the team; its answer comes whole.

        Raises:
            ToolError: it has not answered, or no agent has asked.
        """
        context = calling_agent()
        if context is None:
            raise ToolError(f"{self.model} answers within an agent, and nowhere else")
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
