"""What a program does at the edges of a coder's turns: before the model sees an input, and after.

`TurnHooks` is what the program writes; `TurnEdges` is how a loop asks it.
"""

from collections.abc import Sequence
from typing import Protocol

from greenroom.core import Message, UserInput
from greenroom.core._internal import HOOK, ConversationInput
from greenroom.runtime import AgentInternals

MOST_ROUNDS = 3
"""How often the end of one turn may be put off."""


class TurnHooks(Protocol):
    """Looks at the turns of an agent and of its subagents, in their own tasks.

    What it raises ends the turn.
    """

    async def on_input(self, agent: AgentInternals, message: UserInput) -> Sequence[str] | None:
        """Look at an input before the model does.

        Return what the model is told with it, or None to drop the input: then the turn ends, and
        the conversation goes on as if it had not been said.
        """

    async def on_stop(self, agent: AgentInternals, reply: Message) -> str:
        """Look at the reply that would end the turn; return a text to go on with, or nothing."""


class TurnEdges:
    """The edges of the turns of one loop, at which it asks its hooks, if it has any."""

    def __init__(self, agent: AgentInternals, hooks: TurnHooks | None) -> None:
        self._agent = agent
        self._hooks = hooks
        self._rounds = 0

    async def take(self, message: ConversationInput) -> bool:
        """Show the open turn's input to the hooks; return whether the turn goes on."""
        self._rounds = 0
        if self._hooks is None or not isinstance(message, UserInput):
            return True
        session = self._agent.session
        told = await self._hooks.on_input(self._agent, message)
        if told is None:
            await session.rewind(len(session.history) - 1)
            return False
        for text in filter(None, told):
            session.add_message(Message.user(text, sender=HOOK))
        return True

    async def goes_on(self, reply: Message) -> bool:
        """Show the last reply to the hooks; return whether the turn goes on with what they say."""
        if self._hooks is None or self._rounds == MOST_ROUNDS:
            return False
        self._rounds += 1
        text = await self._hooks.on_stop(self._agent, reply)
        if text:
            self._agent.session.add_message(Message.user(text, sender=HOOK))
        return bool(text)
