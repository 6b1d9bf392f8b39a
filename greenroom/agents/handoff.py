"""Handoffs: the tool by which an agent passes the conversation on, and the team of those that may get it."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from greenroom.agents.configuration import AgentConfiguration
from greenroom.agents.run_context import fits, type_name
from greenroom.core import AgentContext, ConfigurationError, HandoffLimitError, ToolInfo, ToolResult
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


# -- the team: the agents that may get the conversation, each by its name
# ---------------------------

DepsT = TypeVar("DepsT")

_NAME = re.compile(r"[A-Za-z0-9_-]{1,52}")  # with the 12 characters before it, a name for a tool


@dataclass(frozen=True)
class Team(Generic[DepsT]):
    """The agents among which one conversation is passed on.

    Attributes:
        first: the agent that is run; its budget and its steps are those of a turn.
        members: all of them by name, the first included.
        max_switches: how often the conversation may be passed on in a turn.
    """

    first: AgentConfiguration[DepsT, object]
    members: Mapping[str, AgentConfiguration[DepsT, object]]
    max_switches: int = MAX_SWITCHES

    @classmethod
    def of(
        cls,
        first: AgentConfiguration[DepsT, object],
        others: Iterable[AgentConfiguration[DepsT, object]] = (),
        *,
        max_switches: int = MAX_SWITCHES,
    ) -> "Team[DepsT]":
        """Gather an agent, these others, and all that can be reached from them; resolve the names.

        Raises:
            ConfigurationError: no agent has one of the names, or two agents have it.
            TypeError: one of them wants other `deps` than the first one.
        """
        members = _gather([first, *others])
        for member in members.values():
            for each in member.handoffs:
                if isinstance(each, str) and each not in members:
                    raise ConfigurationError(
                        f"{member.name} hands off to {each!r}, but no agent has this name"
                        f" among {', '.join(members)}",
                        hint="write the agent itself, or run one from which it can be reached",
                    )
        return cls(first, members, max_switches)

    def handoffs(self, agent: AgentConfiguration[DepsT, object]) -> tuple[Handoff, ...]:
        """Return the tools by which one of them passes the conversation on."""
        names = map(_name, agent.handoffs)
        return tuple(Handoff(name, self.members[name].description) for name in names)


def check_handoffs(agent: AgentConfiguration[DepsT, object]) -> None:
    """Refuse handoffs that can't be, as far as that shows before the agent is run.

    Raises:
        ConfigurationError: one of them can't be made a tool, or has the name of another tool.
        TypeError: one of the agents wants other `deps`.
    """
    _gather([agent])
    taken = {*agent.toolbox.registry.list_tools(), transfer_name(agent.name)}
    for name in map(_name, agent.handoffs):
        tool = transfer_name(name)
        if tool in taken or not _NAME.fullmatch(name):
            why = "taken" if tool in taken else "not a name for a tool"
            raise ConfigurationError(
                f"{agent.name} can't hand off to {name!r}: {tool!r} is {why}",
                hint="an agent hands off to others, to each once, and has no tools of such names;"
                " the name of an agent has at most 52 letters, digits, '_' and '-' there",
            )
        taken.add(tool)


def _gather(
    agents: Sequence[AgentConfiguration[DepsT, object]],
) -> dict[str, AgentConfiguration[DepsT, object]]:
    """Return agents and those that can be reached from them, by name; all want the first one's deps."""
    found: dict[str, AgentConfiguration[DepsT, object]] = {}
    waiting = list(agents)
    while waiting:
        agent = waiting.pop()
        if agent.name not in found:
            waiting += [each for each in agent.handoffs if not isinstance(each, str)]
        elif found[agent.name] is not agent:
            raise ConfigurationError(
                f"two agents that pass a conversation on are named {agent.name!r}",
                hint='give each a name of its own: Agent(…, name="sales")',
            )
        found[agent.name] = agent
        if not fits(agents[0].deps_type, agent.deps_type):
            wanted, given = type_name(agent.deps_type), type_name(agents[0].deps_type)
            raise TypeError(
                f"{agent.name} gets the conversation and the deps of {agents[0].name}, and wants"
                f" {wanted} instead of {given}: give both the same deps_type"
            )
    return found


def _name(each: AgentConfiguration[DepsT, object] | str) -> str:
    return each if isinstance(each, str) else each.name
