"""Permission rules: a decision, what it is about, and for whom it holds."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Protocol, Self, TypedDict, Unpack

from greenroom.core import RuleDecision, RuleFileError, utc_now
from greenroom.permissions.matcher import Predicate, RuleMatcher, Texts


class RuleScope(StrEnum):
    """Where a rule comes from, in the order in which they are asked."""

    USER = "user"
    SESSION = "session"
    AGENT = "agent"
    GLOBAL = "global"


_ALLOW, _DENY, _ASK = RuleDecision.ALLOW, RuleDecision.DENY, RuleDecision.ASK


class _Options(TypedDict, total=False):
    """The fields of a rule besides its decision and matcher."""

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


class _Builder(Protocol):
    def __call__(self, *texts: str, **options: Unpack[_Options]) -> "PermissionRule": ...


def _builders(kind: str, **others: str) -> tuple[_Builder, _Builder, _Builder]:
    """Make three functions that make a rule of such texts: to allow, to deny, to ask about."""

    def builder(decision: RuleDecision, does: str) -> _Builder:
        def build(*texts: str, **options: Unpack[_Options]) -> "PermissionRule":
            matcher = RuleMatcher.of({kind: texts, **others})
            return PermissionRule(decision=decision, matcher=matcher, **options)

        build.__doc__ = (
            f"{does} calls by `RuleMatcher.{kind}`; takes the rule's other fields by name."
        )
        return build

    return builder(_ALLOW, "Allow"), builder(_DENY, "Deny"), builder(_ASK, "Always ask about")


@dataclass(frozen=True, kw_only=True)
class PermissionRule:
    """What may be done without asking, what may not, and what is always asked about.

    `allow_tool`, `deny_tool` and `ask_for_tool` make one of exact names of tools; their likes of
    categories, such as read; of the first words of simple commands; of patterns of files, which are
    read or written by any tool; and of hosts. They take the other fields by name.

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
        final: it is asked before all others, whatever their scope (an operator's policy); of
            several final ones the strictest comes first, whatever their scope and priority.
        expires: from when on it matches nothing, or None.
        created_by: where it came from, such as "prompt".
        match: commands, paths or URLs that it must match, verified when the rule is added.
        not_match: those that it must not match.
        source: where it comes from, such as the file that it was read from; it makes no other rule
            of it.
        tightens: its question stands before no denial, as of a project that is not trusted.

    Raises:
        RuleFileError: a decision or scope that does not exist, a scope without its agent or
        session,
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

    allow_tool, deny_tool, ask_for_tool = _builders("tool")
    allow_category, deny_category, ask_for_category = _builders("category")
    allow_command, deny_command, ask_for_command = _builders("command_prefix", tool="Bash")
    allow_path, deny_path, ask_for_path = _builders("path")
    allow_domain, deny_domain, ask_for_domain = _builders("domain")

    @classmethod
    def parse(cls, text: str, decision: RuleDecision | str, **options: Unpack[_Options]) -> Self:
        """Make a rule of its short form, which is also how its matcher is shown.

        The usual forms are `Read`, `Bash(git status:*)`, `Bash(npm run *)`, `Bash(exact command)`,
        `Edit(src/**)`, `WebFetch(domain:docs.python.org)` and `*`.

        Raises:
            RuleFileError: it has none of these forms.
        """
        return cls(decision=RuleDecision(decision), matcher=RuleMatcher.parse(text), **options)

    @classmethod
    def allow_bash_prefix(cls, prefixes: str | Sequence[str], **options: Unpack[_Options]) -> Self:
        """Do the same as `allow_command`, for one prefix or a list of them."""
        matcher = RuleMatcher(tool="Bash", command_prefix=prefixes)
        return cls(decision=_ALLOW, matcher=matcher, **options)

    @classmethod
    def allow_if(cls, predicate: Predicate, **options: Unpack[_Options]) -> Self:
        """Allow calls for which a function of the tool's name and the input is true."""
        return cls(decision=_ALLOW, matcher=RuleMatcher(predicate=predicate), **options)

    @classmethod
    def deny_if(cls, predicate: Predicate, **options: Unpack[_Options]) -> Self:
        """Deny calls for which a function is true; where it fails, the call is asked about."""
        return cls(decision=_DENY, matcher=RuleMatcher(predicate=predicate), **options)

    @classmethod
    def allow_all(cls, **options: Unpack[_Options]) -> Self:
        """Allow every call whose effects can be told."""
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
                f"a rule of the scope {self.scope} names its {self.scope}",
                hint=f'such as "{self.scope}": "coder"',
            )
        if self.expires is not None and self.expires.tzinfo is None:
            raise RuleFileError("expires needs a time zone", hint='such as "2026-11-20T12:00:00Z"')
        if not self.id:
            object.__setattr__(self, "id", self.generated_id)

    @property
    def generated_id(self) -> str:
        """The name that a rule without an id of its own is given."""
        limits = ", ".join(filter(None, (self.agent, self.session)))
        return f"{self} for {limits}" if limits else str(self)

    @property
    def is_expired(self) -> bool:
        """Whether its time is over."""
        return self.expires is not None and utc_now() >= self.expires

    def within(self, session_id: str) -> Self:
        """Return the same rule as a rule of this session."""
        scope = RuleScope.USER if self.scope is RuleScope.USER else RuleScope.SESSION
        identity = "" if self.id == self.generated_id else self.id
        return replace(self, scope=scope, session=session_id, id=identity)

    def __str__(self) -> str:
        return f"{self.decision} {self.matcher}"
