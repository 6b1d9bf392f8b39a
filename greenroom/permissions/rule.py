"""Permission rules: a decision, the calls it is about, and the agents it applies to.

An `Audience` is bound by some of them; `scopes` says by which, and in which order they are tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Self, TypedDict, Unpack

from greenroom.core import AgentContext, RuleDecision, RuleFileError, utc_now
from greenroom.permissions.matcher import Predicate, RuleMatcher, Texts


class RuleScope(StrEnum):
    """How far a rule reaches, in the order in which rules are tried."""

    USER = "user"
    SESSION = "session"
    AGENT = "agent"
    GLOBAL = "global"


_ALLOW, _DENY, _ASK = RuleDecision.ALLOW, RuleDecision.DENY, RuleDecision.ASK


def _match_commands(prefixes: str | Sequence[str]) -> RuleMatcher:
    return RuleMatcher(tool="Bash", command_prefix=prefixes)


class _Options(TypedDict, total=False):
    """The fields of a rule other than its decision and matcher."""

    id: str
    scope: RuleScope
    agent: str
    session: str
    priority: int
    description: str
    message: str
    final: bool
    expires: datetime | None
    match: str | Sequence[str]
    not_match: str | Sequence[str]


@dataclass(frozen=True, kw_only=True)
class PermissionRule:
    """A rule that allows calls, denies them, or always asks about them.

    `allow_tool`, `deny_tool` and `ask_for_tool` make a rule from exact names of tools. There are
    such functions for categories such as read, for the first words of simple commands, for patterns
    of files that any tool reads or writes, and for hosts. The other fields are keyword arguments.

    Attributes:
        decision: what the rule decides about a call that it matches.
        matcher: which calls it is about.
        id: its name in reasons and listings; made from decision and matcher if it is empty.
        scope: user, session, agent or global; rules of earlier scopes are tried first.
        agent: the agent type that it applies to, or empty for all; the scope agent needs one.
        session: the session that it applies to, or empty for all; the scope session needs one.
        priority: within a scope, rules with a higher priority are tried first.
        description: what it is for, in words.
        message: what the model reads if the rule denies a call.
        final: whether it is tried before all rules that are not final, whatever their scope (an
            operator's policy); of the final ones, the strictest is tried first.
        expires: when it stops matching, or None.
        created_by: what made it, such as "prompt".
        match: commands, paths or URLs that it must match, verified when the rule is added.
        not_match: those that it must not match.
        source: where it comes from, such as a file; rules that differ only in this are equal.
        tightens: whether the rule can only tighten, as one of a project that is not trusted: a
            later denial overrides its question.

    Raises:
        RuleFileError: the decision or scope does not exist, a scope lacks its agent or session,
            or an expiry has no time zone.

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

    @classmethod
    def allow_tool(cls, *names: str, **options: Unpack[_Options]) -> Self:
        """Allow calls of the tools with these exact names."""
        return cls(decision=_ALLOW, matcher=RuleMatcher(tool=names), **options)

    @classmethod
    def deny_tool(cls, *names: str, **options: Unpack[_Options]) -> Self:
        """Deny calls of the tools with these exact names."""
        return cls(decision=_DENY, matcher=RuleMatcher(tool=names), **options)

    @classmethod
    def ask_for_tool(cls, *names: str, **options: Unpack[_Options]) -> Self:
        """Always ask about calls of the tools with these exact names."""
        return cls(decision=_ASK, matcher=RuleMatcher(tool=names), **options)

    @classmethod
    def allow_category(cls, *categories: str, **options: Unpack[_Options]) -> Self:
        """Allow calls of tools of these categories, such as "read"."""
        return cls(decision=_ALLOW, matcher=RuleMatcher(category=categories), **options)

    @classmethod
    def deny_category(cls, *categories: str, **options: Unpack[_Options]) -> Self:
        """Deny calls of tools of these categories, such as "read"."""
        return cls(decision=_DENY, matcher=RuleMatcher(category=categories), **options)

    @classmethod
    def ask_for_category(cls, *categories: str, **options: Unpack[_Options]) -> Self:
        """Always ask about calls of tools of these categories, such as "read"."""
        return cls(decision=_ASK, matcher=RuleMatcher(category=categories), **options)

    @classmethod
    def allow_command(cls, *prefixes: str, **options: Unpack[_Options]) -> Self:
        """Allow simple commands that begin with these words."""
        return cls(decision=_ALLOW, matcher=_match_commands(prefixes), **options)

    @classmethod
    def deny_command(cls, *prefixes: str, **options: Unpack[_Options]) -> Self:
        """Deny simple commands that begin with these words."""
        return cls(decision=_DENY, matcher=_match_commands(prefixes), **options)

    @classmethod
    def ask_for_command(cls, *prefixes: str, **options: Unpack[_Options]) -> Self:
        """Always ask about simple commands that begin with these words."""
        return cls(decision=_ASK, matcher=_match_commands(prefixes), **options)

    @classmethod
    def allow_path(cls, *patterns: str, **options: Unpack[_Options]) -> Self:
        """Allow calls that read or write matching files, whatever the tool."""
        return cls(decision=_ALLOW, matcher=RuleMatcher(path=patterns), **options)

    @classmethod
    def deny_path(cls, *patterns: str, **options: Unpack[_Options]) -> Self:
        """Deny calls that read or write matching files, whatever the tool."""
        return cls(decision=_DENY, matcher=RuleMatcher(path=patterns), **options)

    @classmethod
    def ask_for_path(cls, *patterns: str, **options: Unpack[_Options]) -> Self:
        """Always ask about calls that read or write matching files, whatever the tool."""
        return cls(decision=_ASK, matcher=RuleMatcher(path=patterns), **options)

    @classmethod
    def allow_domain(cls, *hosts: str, **options: Unpack[_Options]) -> Self:
        """Allow calls that contact these hosts."""
        return cls(decision=_ALLOW, matcher=RuleMatcher(domain=hosts), **options)

    @classmethod
    def deny_domain(cls, *hosts: str, **options: Unpack[_Options]) -> Self:
        """Deny calls that contact these hosts."""
        return cls(decision=_DENY, matcher=RuleMatcher(domain=hosts), **options)

    @classmethod
    def ask_for_domain(cls, *hosts: str, **options: Unpack[_Options]) -> Self:
        """Always ask about calls that contact these hosts."""
        return cls(decision=_ASK, matcher=RuleMatcher(domain=hosts), **options)

    @classmethod
    def parse(cls, text: str, decision: RuleDecision | str, **options: Unpack[_Options]) -> Self:
        """Parse a rule from the short form, in which matchers are also shown.

        The usual forms are `Read`, `Bash(git status:*)`, `Bash(npm run *)`, `Bash(exact command)`,
        `Edit(src/**)`, `WebFetch(domain:docs.python.org)` and `*`.

        Raises:
            RuleFileError: the text has none of these forms.
        """
        return cls(decision=RuleDecision(decision), matcher=RuleMatcher.parse(text), **options)

    @classmethod
    def allow_bash_prefix(cls, prefixes: str | Sequence[str], **options: Unpack[_Options]) -> Self:
        """Allow commands like `allow_command`, by one prefix or a list of them."""
        return cls(decision=_ALLOW, matcher=_match_commands(prefixes), **options)

    @classmethod
    def allow_if(cls, predicate: Predicate, **options: Unpack[_Options]) -> Self:
        """Allow calls for which a function of the tool's name and the input returns true."""
        return cls(decision=_ALLOW, matcher=RuleMatcher(predicate=predicate), **options)

    @classmethod
    def deny_if(cls, predicate: Predicate, **options: Unpack[_Options]) -> Self:
        """Deny calls for which a function returns true; if it raises, the call is asked about."""
        return cls(decision=_DENY, matcher=RuleMatcher(predicate=predicate), **options)

    @classmethod
    def ask_if(cls, predicate: Predicate, **options: Unpack[_Options]) -> Self:
        """Ask a person about calls for which a function returns true, or raises."""
        return cls(decision=_ASK, matcher=RuleMatcher(predicate=predicate), **options)

    @classmethod
    def allow_all(cls, **options: Unpack[_Options]) -> Self:
        """Allow every call whose effects are known, by any tool.

        Not covered, and so asked about, are commands that are not plain, texts that a command hands
        to a shell (`bash -c …`), what is protected such as `.git/hooks`, and what a tool calls
        `Opaque`. A rule for a whole tool, such as `allow_tool("Bash")`, covers its commands of any
        kind, unless something is denied.
        """
        return cls(decision=_ALLOW, matcher=RuleMatcher(all=True), **options)

    @classmethod
    def deny_all(cls, **options: Unpack[_Options]) -> Self:
        """Deny every call that no earlier rule allows."""
        return cls(decision=_DENY, matcher=RuleMatcher(all=True), **options)

    def __post_init__(self) -> None:
        try:  # a plain "allow" would be compared as if it were something else
            object.__setattr__(self, "decision", RuleDecision(self.decision))
            object.__setattr__(self, "scope", RuleScope(self.scope))
        except ValueError as error:
            raise RuleFileError(f"not a decision or a scope of a rule: {error}") from error
        if self.scope.value in ("agent", "session") and not getattr(self, self.scope):
            raise RuleFileError(
                f"a rule of the scope {self.scope} needs the {self.scope} that it applies to",
                hint=f'such as "{self.scope}": "coder"',
            )
        if self.expires is not None and self.expires.tzinfo is None:
            raise RuleFileError("expires needs a time zone", hint='such as "2026-11-20T12:00:00Z"')
        if not self.id:
            object.__setattr__(self, "id", self.generated_id)

    @property
    def generated_id(self) -> str:
        """The id of a rule that was given none."""
        limits = ", ".join(filter(None, (self.agent, self.session)))
        return f"{self} for {limits}" if limits else str(self)

    @property
    def is_expired(self) -> bool:
        """Whether it no longer matches anything."""
        return self.expires is not None and utc_now() >= self.expires

    def within(self, session_id: str) -> Self:
        """Return the same rule, limited to a session."""
        scope = RuleScope.USER if self.scope is RuleScope.USER else RuleScope.SESSION
        identity = "" if self.id == self.generated_id else self.id
        return replace(self, scope=scope, session=session_id, id=identity)

    def __str__(self) -> str:
        return f"{self.decision} {self.matcher}"


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
