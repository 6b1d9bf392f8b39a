"""Builders of the usual rules, each one line to write and equal to the rule written out."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Self, TypedDict, Unpack

from greenroom.core import RuleDecision
from greenroom.permissions.rules.matcher import Predicate, RuleMatcher

if TYPE_CHECKING:
    from greenroom.permissions.rules.rule import RuleScope

__all__ = ["RuleBuilders", "RuleOptions"]

_ALLOW, _DENY, _ASK = RuleDecision.ALLOW, RuleDecision.DENY, RuleDecision.ASK


class RuleOptions(TypedDict, total=False):
    """The fields of a rule besides its decision and matcher, as builders take them."""

    id: str
    scope: "RuleScope"
    agent: str
    session: str
    priority: int
    description: str
    message: str
    final: bool
    expires: datetime | None
    match: str | Sequence[str]
    not_match: str | Sequence[str]


class RuleBuilders:
    """Class methods that make a `PermissionRule`; each takes the rule's other fields by name."""

    if TYPE_CHECKING:

        def __init__(
            self, *, decision: RuleDecision, matcher: RuleMatcher, **options: Unpack[RuleOptions]
        ) -> None: ...

    @classmethod
    def parse(cls, text: str, decision: RuleDecision | str, **options: Unpack[RuleOptions]) -> Self:
        """Make a rule of its short form, which is also how its matcher is shown.

        The usual forms are `Read`, `Bash(git status:*)`, `Bash(npm run *)`, `Bash(exact command)`,
        `Edit(src/**)`, `WebFetch(domain:docs.python.org)` and `*`.

        Raises:
            RuleFileError: it has none of these forms.
        """
        return cls._of(RuleDecision(decision), RuleMatcher.parse(text), options)

    @classmethod
    def allow_tool(cls, *names: str, **options: Unpack[RuleOptions]) -> Self:
        """Allow tools by their exact names."""
        return cls._of(_ALLOW, RuleMatcher(tool=names), options)

    @classmethod
    def deny_tool(cls, *names: str, **options: Unpack[RuleOptions]) -> Self:
        """Deny tools by their exact names."""
        return cls._of(_DENY, RuleMatcher(tool=names), options)

    @classmethod
    def ask_for_tool(cls, *names: str, **options: Unpack[RuleOptions]) -> Self:
        """Always ask about these tools."""
        return cls._of(_ASK, RuleMatcher(tool=names), options)

    @classmethod
    def allow_category(cls, *names: str, **options: Unpack[RuleOptions]) -> Self:
        """Allow all tools of a category, such as "read"."""
        return cls._of(_ALLOW, RuleMatcher(category=names), options)

    @classmethod
    def deny_category(cls, *names: str, **options: Unpack[RuleOptions]) -> Self:
        """Deny all tools of a category."""
        return cls._of(_DENY, RuleMatcher(category=names), options)

    @classmethod
    def ask_for_category(cls, *names: str, **options: Unpack[RuleOptions]) -> Self:
        """Always ask about the tools of a category."""
        return cls._of(_ASK, RuleMatcher(category=names), options)

    @classmethod
    def allow_command(cls, *prefixes: str, **options: Unpack[RuleOptions]) -> Self:
        """Allow simple commands of `Bash` that begin with these words."""
        return cls._of(_ALLOW, _commands(prefixes), options)

    @classmethod
    def deny_command(cls, *prefixes: str, **options: Unpack[RuleOptions]) -> Self:
        """Deny simple commands that begin with these words, in any spelling."""
        return cls._of(_DENY, _commands(prefixes), options)

    @classmethod
    def ask_for_command(cls, *prefixes: str, **options: Unpack[RuleOptions]) -> Self:
        """Always ask about simple commands that begin with these words, in any spelling."""
        return cls._of(_ASK, _commands(prefixes), options)

    @classmethod
    def allow_bash_prefix(
        cls, prefixes: str | Sequence[str], **options: Unpack[RuleOptions]
    ) -> Self:
        """Do the same as `allow_command`, for one prefix or a list of them."""
        return cls._of(_ALLOW, _commands(prefixes), options)

    @classmethod
    def allow_path(cls, *patterns: str, **options: Unpack[RuleOptions]) -> Self:
        """Allow reading and writing files of these patterns, by any tool."""
        return cls._of(_ALLOW, RuleMatcher(path=patterns), options)

    @classmethod
    def deny_path(cls, *patterns: str, **options: Unpack[RuleOptions]) -> Self:
        """Deny reading and writing files of these patterns, by any tool."""
        return cls._of(_DENY, RuleMatcher(path=patterns), options)

    @classmethod
    def ask_for_path(cls, *patterns: str, **options: Unpack[RuleOptions]) -> Self:
        """Always ask about files of these patterns."""
        return cls._of(_ASK, RuleMatcher(path=patterns), options)

    @classmethod
    def allow_domain(cls, *hosts: str, **options: Unpack[RuleOptions]) -> Self:
        """Allow contacting these hosts."""
        return cls._of(_ALLOW, RuleMatcher(domain=hosts), options)

    @classmethod
    def deny_domain(cls, *hosts: str, **options: Unpack[RuleOptions]) -> Self:
        """Deny contacting these hosts."""
        return cls._of(_DENY, RuleMatcher(domain=hosts), options)

    @classmethod
    def allow_if(cls, predicate: Predicate, **options: Unpack[RuleOptions]) -> Self:
        """Allow calls for which a function of the tool's name and the input is true."""
        return cls._of(_ALLOW, RuleMatcher(predicate=predicate), options)

    @classmethod
    def deny_if(cls, predicate: Predicate, **options: Unpack[RuleOptions]) -> Self:
        """Deny calls for which a function is true; where it fails, the call is asked about."""
        return cls._of(_DENY, RuleMatcher(predicate=predicate), options)

    @classmethod
    def allow_all(cls, **options: Unpack[RuleOptions]) -> Self:
        """Allow every call whose effects can be told."""
        return cls._of(_ALLOW, RuleMatcher(all=True), options)

    @classmethod
    def deny_all(cls, **options: Unpack[RuleOptions]) -> Self:
        """Deny every call that no earlier rule allows."""
        return cls._of(_DENY, RuleMatcher(all=True), options)

    @classmethod
    def _of(cls, decision: RuleDecision, matcher: RuleMatcher, options: RuleOptions) -> Self:
        return cls(decision=decision, matcher=matcher, **options)


def _commands(prefixes: str | Sequence[str]) -> RuleMatcher:
    return RuleMatcher(tool="Bash", command_prefix=prefixes)
