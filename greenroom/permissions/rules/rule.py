"""Permission rules: a decision, what it is about, and for whom it holds."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Self

from greenroom.core import RuleDecision, RuleFileError, clock
from greenroom.permissions.rules.builders import RuleBuilders
from greenroom.permissions.rules.matcher import RuleMatcher, Texts

__all__ = ["ANSWER", "ANSWERED", "PermissionRule", "RuleScope"]

ANSWER = "prompt"
"""The `created_by` of rules that were made of a person's answer."""


ANSWERED = "an answer in this session"
"""The `source` of the same, as long as they were not read from a file."""


class RuleScope(StrEnum):
    """Where a rule comes from, in the order in which they are asked."""

    USER = "user"
    SESSION = "session"
    AGENT = "agent"
    GLOBAL = "global"


SCOPE_ORDER = {scope: place for place, scope in enumerate(RuleScope)}
_DECISION_ORDER = {RuleDecision.DENY: 0, RuleDecision.ASK: 1, RuleDecision.ALLOW: 2}


@dataclass(frozen=True, kw_only=True)
class PermissionRule(RuleBuilders):
    """What may be done without asking, what may not, and what is always asked about.

    Attributes:
        decision: what the rule says to a call that it matches.
        matcher: which calls it is about.
        id: its name in reasons and listings; made of decision and matcher where it is empty.
        scope: user, session, agent or global; earlier scopes are asked first.
        agent: the agent type that it holds for, or empty for all; the scope agent needs one.
        session: the session that it holds for, or empty for all; the scope session needs one.
        priority: within a scope, a higher one is asked first.
        description: what it is for, in words.
        message: what the model is told when the rule denies.
        final: it is asked before all others, whatever their scope (an operator's policy); of several
            final ones the strictest comes first, whatever their scope and priority.
        expires: from when on it matches nothing, or None.
        created_by: where it came from, such as "prompt".
        match: commands, paths or URLs that it must match, verified when the rule is added.
        not_match: those that it must not match.
        source: where it comes from, such as the file that it was read from; it makes no other rule of it.
        tightens: its question stands before no denial, as of a project that is not trusted.

    Raises:
        RuleFileError: a decision or scope that does not exist, a scope without its agent or session,
            or an expiry without a time zone.

    Example:
        >>> rule = PermissionRule.allow_command("git status", "git log")
        >>> str(rule)
        'allow Bash(git status:*, git log:*)'
        >>> PermissionRule.parse("Edit(src/**)", "allow").matcher.path
        ('src/**',)
    """

    decision: RuleDecision
    matcher: RuleMatcher
    id: str = ""
    scope: RuleScope = RuleScope.GLOBAL
    agent: str = ""
    session: str = ""
    priority: int = 0
    description: str = ""
    message: str = ""
    final: bool = False
    expires: datetime | None = None
    created_by: str = ""
    match: Texts = Texts()  # noqa: RUF009 - a descriptor
    not_match: Texts = Texts()  # noqa: RUF009 - as above
    source: str = field(default="", compare=False)
    tightens: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        try:  # a plain "allow" would be compared as if it were something else
            object.__setattr__(self, "decision", RuleDecision(self.decision))
            object.__setattr__(self, "scope", RuleScope(self.scope))
        except ValueError as error:
            raise RuleFileError(f"a rule has no such decision or scope: {error}") from error
        if self.scope is RuleScope.AGENT and not self.agent:
            raise RuleFileError(
                "a rule of the scope agent names its agent", hint='"agent": "coder"'
            )
        if self.scope is RuleScope.SESSION and not self.session:
            raise RuleFileError("a rule of the scope session names its session")
        if self.expires is not None and self.expires.tzinfo is None:
            raise RuleFileError("expires needs a time zone", hint='such as "2026-11-20T12:00:00Z"')
        if not self.id:
            object.__setattr__(self, "id", self.generated_id)

    @property
    def generated_id(self) -> str:
        """The name that a rule without an id of its own is given."""
        limits = [part for part in (self.agent, self.session) if part]
        return f"{self} for {', '.join(limits)}" if limits else str(self)

    @cached_property
    def order(self) -> tuple[bool, int, int, int]:
        """Its place among the rules; what compares less is asked first."""
        scope, decision = SCOPE_ORDER[self.scope], _DECISION_ORDER[self.decision]
        if self.final:  # nothing overrides one, so of several the strictest is asked first
            return (False, decision, scope, -self.priority)
        return (True, scope, -self.priority, decision)

    @property
    def expired(self) -> bool:
        """Whether its time is over."""
        return self.expires is not None and clock.now() >= self.expires

    def holds_for(self, sessions: frozenset[str], agents: frozenset[str]) -> bool:
        """Tell whether it is a rule for one of these sessions and one of these agent types."""
        return (not self.session or self.session in sessions) and (
            not self.agent or self.agent in agents
        )

    def within(self, session_id: str) -> Self:
        """Return the same rule as a rule of this session."""
        scope = RuleScope.USER if self.scope is RuleScope.USER else RuleScope.SESSION
        identity = "" if self.id == self.generated_id else self.id
        return replace(self, scope=scope, session=session_id, id=identity)

    def __str__(self) -> str:
        return f"{self.decision} {self.matcher}"
