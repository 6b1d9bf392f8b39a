"""The conversation input of an agent, one message after the other."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

from greenroom.core import ContentBlock, ConversationInput, UserInput, as_blocks, serde

if TYPE_CHECKING:
    from greenroom.runtime.actor import Actor

__all__ = ["Inputs", "user_input"]


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


def user_input(content: str | Iterable[ContentBlock]) -> UserInput:
    """Make an input of a text or of blocks.

    What is no block, or can't be stored, is refused here, at its source, and not in the agent that
    would take it.

    Raises:
        InvalidJSONError: it says where.
    """
    message = UserInput(as_blocks(content))
    return message if isinstance(content, str) else serde.decode(serde.encode(message), UserInput)
