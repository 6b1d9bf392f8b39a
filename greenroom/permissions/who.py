"""For whom a call is judged."""

from dataclasses import dataclass

from greenroom.core import AgentContext

__all__ = ["Who"]


@dataclass(frozen=True, slots=True)
class Who:
    """The sessions and agent types whose rules hold for a call."""

    sessions: frozenset[str]
    agents: frozenset[str]

    @classmethod
    def of(cls, context: AgentContext) -> "Who":
        """Take those of one agent."""
        return cls(frozenset({context.session_id}), frozenset({context.agent_type}))

    def __or__(self, other: "Who") -> "Who":
        """Take those of both."""
        return Who(self.sessions | other.sessions, self.agents | other.agents)
