"""Which rules an agent is bound by, and the order in which they are tried; see `scopes`."""

from typing import NamedTuple, Self

from greenroom.core import AgentContext, RuleDecision
from greenroom.permissions.rule import PermissionRule, RuleScope

_STRICTEST_FIRST = (RuleDecision.DENY, RuleDecision.ASK, RuleDecision.ALLOW)
_SCOPES = tuple(RuleScope)


def sort_key(rule: PermissionRule) -> tuple[bool, int, int, int]:
    """Return the position of a rule among others; the lowest is tried first."""
    scope, decision = _SCOPES.index(rule.scope), _STRICTEST_FIRST.index(rule.decision)
    if rule.final:  # nothing overrides it, so the strictest has to come first
        return (False, decision, scope, -rule.priority)
    return (True, scope, -rule.priority, decision)


class Audience(NamedTuple):
    """The sessions and agent types whose rules apply, as pairs such as ("agent", "coder").

    Attributes:
        allow_subjects: those whose allowances apply.
        deny_subjects: those whose denials and questions apply; the agents above are among them.
        takes_grants: whether every step so far passes on what is allowed above it.
    """

    allow_subjects: frozenset[tuple[str, str]]
    deny_subjects: frozenset[tuple[str, str]]
    takes_grants: bool = True

    @classmethod
    def of(cls, context: AgentContext) -> Self:
        """Return the audience of one agent, which also gets the rules that name nobody."""
        own = {("session", context.session_id), ("agent", context.agent_type)}
        names = frozenset(own | {("session", ""), ("agent", "")})
        return cls(names, names)

    def below(self, spawner: "Audience", *, pass_grants: bool) -> "Audience":
        """Add the agent above: all its denials, and its allowances if every step passes them on."""
        takes = self.takes_grants and pass_grants
        allow = self.allow_subjects | (spawner.allow_subjects if takes else frozenset())
        return Audience(allow, self.deny_subjects | spawner.deny_subjects, takes)

    def is_bound_by(self, rule: PermissionRule) -> bool:
        """Return whether a rule applies to this audience."""
        names = self.allow_subjects if rule.decision is RuleDecision.ALLOW else self.deny_subjects
        return {("session", rule.session), ("agent", rule.agent)} <= names
