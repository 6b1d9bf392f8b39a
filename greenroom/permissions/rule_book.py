"""The rules that one manager holds, and for whom they do."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Self

from greenroom.core import AgentContext, RuleDecision
from greenroom.permissions.judging.call import Call
from greenroom.permissions.judging.rule_index import RuleIndex
from greenroom.permissions.rule_files.examples import check_rule
from greenroom.permissions.rules.rule import PermissionRule

__all__ = ["RuleBook", "Who"]

MAX_CACHED = 256


class Who(NamedTuple):
    """The sessions and agent types whose rules hold for a call, as pairs such as ("agent", "coder").

    Attributes:
        granted: those of which allowances hold.
        bound: those of which denials and questions hold; the agents above are among them.
        takes_grants: whether every step so far passes on what is allowed above it.
    """

    granted: frozenset[tuple[str, str]]
    bound: frozenset[tuple[str, str]]
    takes_grants: bool = True

    @classmethod
    def of(cls, context: AgentContext) -> Self:
        """Take those of one agent, and the rules that name none."""
        own = {("session", context.session_id), ("agent", context.agent_type)}
        names = frozenset(own | {("session", ""), ("agent", "")})
        return cls(names, names)

    def below(self, spawner: Self, *, pass_grants: bool) -> Self:
        """Add the agent above; what is allowed to it counts if it passes that on, at every step."""
        takes = self.takes_grants and pass_grants
        granted = self.granted | spawner.granted if takes else self.granted
        return self._replace(granted=granted, bound=self.bound | spawner.bound, takes_grants=takes)

    def is_bound_by(self, rule: PermissionRule) -> bool:
        """Tell whether a rule holds for the call."""
        names = self.granted if rule.decision is RuleDecision.ALLOW else self.bound
        return {("session", rule.session), ("agent", rule.agent)} <= names


class RuleBook:
    """Rules, no two of one id, and which of them are about a call."""

    def __init__(self) -> None:
        """Begin with none."""
        self._rules: list[PermissionRule] = []
        self._relevant: dict[tuple[str, str, Who], RuleIndex] = {}

    def __iter__(self) -> Iterator[PermissionRule]:
        return iter(self._rules)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def in_order(self) -> tuple[PermissionRule, ...]:
        """Return them in the order in which they are asked."""
        return tuple(sorted(self._rules, key=lambda rule: rule.order))

    def add(self, rules: Iterable[PermissionRule]) -> None:
        """Add several rules, or none of them if one can't be used.

        Raises:
            TypeError: something is no rule.
            RuleFileError: two rules of one id, or a rule whose examples it does not meet.
        """
        added = list(self._rules)
        known = {rule.id: rule for rule in added}
        for rule in rules:
            if not isinstance(rule, PermissionRule):
                raise TypeError(
                    f"{rule!r} is no rule: write PermissionRule.allow_tool('Read'), "
                    "or PermissionRule.parse('Bash(ls:*)', 'allow')"
                )
            if known.get(rule.id) == rule:
                continue
            check_rule(rule, known)
            known[rule.id] = rule
            added.append(rule)
        self.keep(added)

    def keep(self, rules: Iterable[PermissionRule]) -> None:
        """Hold these and no others."""
        self._rules = list(rules)
        self._relevant.clear()

    def about(self, call: Call, who: Who) -> RuleIndex:
        """Choose the rules for this tool and agent, once; a check then looks at no others."""
        key = (call.tool, call.category, who)
        if key not in self._relevant:
            if len(self._relevant) >= MAX_CACHED:
                self._relevant.clear()
            self._relevant[key] = RuleIndex(
                rule
                for rule in self.in_order()
                if who.is_bound_by(rule) and rule.matcher.concerns(call.tool, call.category)
            )
        return self._relevant[key]
