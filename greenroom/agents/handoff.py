"""Handoffs: the tool that passes the conversation to another agent, and the team it moves within.

The session records each handoff, so a later run continues with the agent that has the conversation.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from greenroom.agents.configuration import AgentConfiguration
from greenroom.agents.cut_off import continues
from greenroom.agents.errors import HandoffLimitError
from greenroom.agents.run_context import fits, type_name
from greenroom.core import AgentContext, ConfigurationError, ToolInfo, ToolResult, ToolUseBlock
from greenroom.core._internal import serde
from greenroom.session import AgentSession

MAX_SWITCHES = 5
"""How often the conversation may be passed on in one turn, since agents may send it in circles."""

_RECORD = "agent.handoff"


class Handoff:
    """A tool that passes the conversation to another agent."""

    category = "agent"
    requires_permission = False  # listing the agent is consent; a rule may still deny it
    continues = True  # the call only passes the conversation, so it may be made again
    parameters: dict[str, object] = {"type": "object", "properties": {}}

    def __init__(self, target: str, description: str) -> None:
        """Take the name and the description of the agent that gets the conversation."""
        self.name = transfer_name(target)
        self.target = target
        self.description = f"Pass the conversation to {target}. {description}".rstrip()

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Say who gets the conversation."""
        return ToolInfo(f"Pass the conversation to {self.target}")

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Agree; `Switches.note` passes the conversation on when it sees this result."""
        return ToolResult.ok(f"{self.target} has the conversation now, and goes on from here.")


class Switches:
    """The names of the agents that have the conversation in one turn, in order."""

    def __init__(self, session: AgentSession, first: str, most: int, busy: Collection[str]) -> None:
        """Begin with the agent that has the conversation.

        Args:
            session: the conversation.
            first: the agent's name.
            most: how often the conversation may be passed on.
            busy: names of agents that wait for this turn's result, and so can't take it.
        """
        self._session = session
        self._path = [first]
        self._most = most
        self._busy = busy
        self._refused = ""

    @property
    def last(self) -> str:
        """The name of the agent that has the conversation now."""
        return self._path[-1]

    def note(self, asker: str, target: str, agreed: ToolResult) -> ToolResult:
        """Pass the conversation on and record that; or return the reason why it stays."""
        if self.last != asker:
            return ToolResult.error(f"This was not done: {self.last} has the conversation already.")
        if target in self._busy:
            return ToolResult.error(
                f"{target} can't take over: it is waiting for the result of this turn."
            )
        if len(self._path) > self._most:
            self._refused = target
            return ToolResult.error(
                f"{target} can't take over: the conversation was passed on too often."
            )
        self._path.append(target)
        self._session.add_record(_RECORD, {"from": asker, "to": target})
        return agreed

    def check(self) -> None:
        """End the turn if the conversation was passed on too often without an answer.

        Raises:
            HandoffLimitError: it was.
        """
        if self._refused:
            path = " → ".join([*self._path, self._refused])
            raise HandoffLimitError(
                f"the conversation would have been passed on more than {self._most} times in a "
                f"turn: {path}",
                hint="say in their descriptions and instructions which of them answers what",
            )


def transfer_name(target: str) -> str:
    """Return the name of the tool that passes the conversation to an agent."""
    return f"transfer_to_{target}"


def find_holder(session: AgentSession) -> str | None:
    """Return the name of the agent that got the conversation last, or None without a handoff."""
    last = session.last_record(_RECORD)
    return serde.convert(last, dict[str, str])["to"] if last else None


DepsT = TypeVar("DepsT")

_NAME = re.compile(r"[A-Za-z0-9_-]{1,52}")  # 64 with "transfer_to_", the longest name of a tool


@dataclass(frozen=True)
class Team(Generic[DepsT]):
    """The agents that pass one conversation among themselves.

    Attributes:
        first: the agent that is run; its budget and `max_steps` hold for each turn.
        members: all agents by name, the first included.
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
        """Gather agents and all that they can hand off to, and resolve their names.

        Raises:
            ConfigurationError: no agent has one of the names, or two agents do.
            TypeError: an agent wants other `deps` than the first one.
        """
        members = _gather([first, *others])
        for member in members.values():
            for each in member.handoffs:
                if isinstance(each, str) and each not in members:
                    raise ConfigurationError(
                        f"{member.name} hands off to {each!r}, but no agent has this name"
                        f" among {', '.join(members)}",
                        hint="write the agent itself, or run an agent that can reach it",
                    )
        return cls(first, members, max_switches)

    def continues(self, call: ToolUseBlock) -> bool:
        """Whether a call of a member that was cut off goes on when it is made again."""
        members = self.members.values()
        is_handoff = any(each.name == call.name for one in members for each in self.handoffs(one))
        return is_handoff or any(continues(each.toolbox.registry, call) for each in members)

    def handoffs(self, agent: AgentConfiguration[DepsT, object]) -> tuple[Handoff, ...]:
        """Return the tools with which one of the agents passes the conversation on."""
        names = map(_name, agent.handoffs)
        return tuple(Handoff(name, self.members[name].description) for name in names)


def check_handoffs(agent: AgentConfiguration[DepsT, object]) -> None:
    """Refuse handoffs that can't work, as far as that is known before a run.

    Raises:
        ConfigurationError: one can't be made a tool, or has the name of another tool.
        TypeError: one of the agents wants other `deps`.
    """
    _gather([agent])
    taken = {*agent.toolbox.names, transfer_name(agent.name)}
    for name in map(_name, agent.handoffs):
        tool = transfer_name(name)
        if tool in taken or not _NAME.fullmatch(name):
            why = "taken" if tool in taken else "not a name for a tool"
            raise ConfigurationError(
                f"{agent.name} can't hand off to {name!r}: {tool!r} is {why}",
                hint="an agent hands off to each other agent once, and has no tool with that name;"
                " the other agent's name has at most 52 letters, digits, '_' and '-'",
            )
        taken.add(tool)


def _gather(
    agents: Sequence[AgentConfiguration[DepsT, object]],
) -> dict[str, AgentConfiguration[DepsT, object]]:
    """Return agents and all they can reach, by name; refuse other deps than the first one's."""
    found: dict[str, AgentConfiguration[DepsT, object]] = {}
    waiting = list(agents)
    while waiting:
        agent = waiting.pop()
        if agent.name not in found:
            waiting += [each for each in agent.handoffs if not isinstance(each, str)]
        elif found[agent.name] is not agent:
            raise ConfigurationError(
                f"two agents of one conversation are named {agent.name!r}",
                hint='give each its own name: Agent(…, name="sales")',
            )
        found[agent.name] = agent
        if not fits(agents[0].deps_type, agent.deps_type):
            wanted, given = type_name(agent.deps_type), type_name(agents[0].deps_type)
            raise TypeError(
                f"{agent.name} gets the deps of {agents[0].name}, and wants {wanted} instead of"
                f" {given}: give both the same deps_type"
            )
    return found


def _name(each: AgentConfiguration[DepsT, object] | str) -> str:
    return each if isinstance(each, str) else each.name
