"""For whom a call is judged."""

from dataclasses import dataclass, replace

from greenroom.core import AgentContext, RuleDecision
from greenroom.permissions.rules.rule import PermissionRule

__all__ = ["Who"]

_NOBODY = frozenset[str]()


@dataclass(frozen=True, slots=True)
class Who:
    """The sessions and agent types whose rules hold for a call.

    Attributes:
        sessions: those of which every rule holds.
        agents: the same of agent types.
        sessions_above: those of which only denials and questions hold.
        agents_above: the same of agent types.
        takes_grants: whether every step so far passes on what is allowed above it.
    """

    sessions: frozenset[str]
    agents: frozenset[str]
    sessions_above: frozenset[str] = _NOBODY
    agents_above: frozenset[str] = _NOBODY
    takes_grants: bool = True

    @classmethod
    def of(cls, context: AgentContext) -> "Who":
        """Take those of one agent."""
        return cls(frozenset({context.session_id}), frozenset({context.agent_type}))

    def below(self, spawner: "Who", *, pass_grants: bool) -> "Who":
        """Add the agent above; what is allowed to it counts if it passes that on, at every step."""
        bound = Who(
            self.sessions,
            self.agents,
            self.sessions_above | spawner.sessions,
            self.agents_above | spawner.agents,
            self.takes_grants and pass_grants,
        )
        if not bound.takes_grants:
            return bound
        return replace(
            bound,
            sessions=self.sessions | spawner.sessions,
            agents=self.agents | spawner.agents,
        )

    def is_bound_by(self, rule: PermissionRule) -> bool:
        """Tell whether a rule holds for the call."""
        if rule.decision is RuleDecision.ALLOW:
            return rule.holds_for(self.sessions, self.agents)
        return rule.holds_for(self.sessions | self.sessions_above, self.agents | self.agents_above)
