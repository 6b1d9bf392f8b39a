"""The conversation input of an agent, one message after the other."""

from typing import TYPE_CHECKING, Self

from greenroom.core import ConversationInput

if TYPE_CHECKING:
    from greenroom.runtime.actor import Actor

__all__ = ["Inputs"]


class Inputs:
    """An iterator over an agent's conversation input; it ends when the agent is shut down."""

    def __init__(self, actor: "Actor") -> None:
        """Made by `AgentInternals.inputs`."""
        self._actor = actor

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConversationInput:
        self._actor.turns.await_input()
        message = await self._actor.mailbox.next_input()
        if message is None:
            raise StopAsyncIteration
        return message
