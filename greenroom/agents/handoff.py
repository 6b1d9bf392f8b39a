"""Handoffs: the tool by which an agent passes the conversation on, and who has had it in a turn."""

from collections.abc import Collection

import msgspec

from greenroom.core import AgentContext, HandoffLimitError, ToolInfo, ToolResult
from greenroom.session import AgentSession

MAX_SWITCHES = 5
"""How often the conversation may be passed on in one turn; agents may send a person back and forth."""

_RECORD = "agent.handoff"


class Handoff:
    """Passes the conversation to another agent; one of the tools of an agent that may do so."""

    category = "agent"
    requires_permission = False  # passing the agent is consent; denials hold all the same
    parameters: dict[str, object] = {"type": "object", "properties": {}}

    def __init__(self, target: str, description: str) -> None:
        """Take the name of an agent, and what it is good for."""
        self.name = transfer_name(target)
        self.target = target
        self.description = f"Pass the conversation to {target}. {description}".rstrip()

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Say who gets the conversation."""
        return ToolInfo(f"Pass the conversation to {self.target}")

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Agree; the conversation is passed on where the result is noted (`Switches.note`)."""
        return ToolResult.ok(f"{self.target} has the conversation now, and goes on from here.")


class Switches:
    """The agents that have the conversation in one turn, one after the other, by their names."""

    def __init__(self, session: AgentSession, first: str, most: int, busy: Collection[str]) -> None:
        """Begin with the agent that has the conversation.

        Args:
            session: the conversation.
            first: the agent's name.
            most: how often it may be passed on.
            busy: agents that wait for the result of this turn, and so can't take it.
        """
        self._session = session
        self._way = [first]
        self._most = most
        self._busy = busy
        self._refused = ""

    @property
    def last(self) -> str:
        """Who has the conversation."""
        return self._way[-1]

    def note(self, asker: str, target: str, agreed: ToolResult) -> ToolResult:
        """Pass the conversation on, and record that; or return why it stays where it is."""
        if self.last != asker:
            return ToolResult.error(f"This was not done: {self.last} has the conversation already.")
        if target in self._busy:
            return ToolResult.error(f"{target} can't go on: it waits for what this comes to.")
        if len(self._way) > self._most:
            self._refused = target
            return ToolResult.error(f"{target} can't go on: too many have had the conversation.")
        self._way.append(target)
        self._session.add_record(_RECORD, {"from": asker, "to": target})
        return agreed

    def check(self) -> None:
        """End the turn if the conversation goes from one agent to the next without an answer.

        Raises:
            HandoffLimitError: it does.
        """
        if self._refused:
            way = " → ".join([*self._way, self._refused])
            raise HandoffLimitError(
                f"the conversation was to be passed on more than {self._most} times in a turn: {way}",
                hint="say in their descriptions and instructions which of them answers what",
            )


def transfer_name(target: str) -> str:
    """Return what the tool is called that passes the conversation to an agent."""
    return f"transfer_to_{target}"


def find_holder(session: AgentSession) -> str | None:
    """Return the name of the agent that was given the conversation last; None where none was."""
    last = session.last_record(_RECORD)
    return msgspec.convert(last, dict[str, str])["to"] if last else None
