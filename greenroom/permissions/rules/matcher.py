"""Matchers: which calls a rule is about. The kinds of one matcher are ANDed, the values ORed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from greenroom.core import RuleFileError
from greenroom.permissions.facts.host import HostPattern
from greenroom.permissions.facts.pattern import PathPattern
from greenroom.permissions.rules.expression import Expression
from greenroom.permissions.shell.grammar.split import split_settings, split_words
from greenroom.permissions.shell.variables import is_display_setting

__all__ = ["Predicate", "RuleMatcher"]

Predicate: TypeAlias = Callable[[str, Mapping[str, object]], bool]
"""A condition of the programmer's: called with the tool's name and the call's input."""


@dataclass(frozen=True, kw_only=True)
class RuleMatcher:
    """Which calls, or which parts of a call, a rule is about.

    Attributes:
        tool: exact names of tools.
        category: categories of tools.
        command_prefix: first words of a simple command, such as "git status". Settings before them,
            as in "CI=1 npm test", are about a command with exactly these, in any order; those that
            only change how output looks, such as NO_COLOR, don't count.
        argv_exact: all words of a simple command, or empty; settings as above.
        path: patterns of files that are read or written.
        domain: hosts that are contacted.
        regex: patterns of a simple command's words joined by blanks; an allowance must match all
            of it, a denial any part.
        redirect_to: files into which an allowed command's output may be redirected.
        predicate: a condition in Python; it can't be saved to a file.
        all: every call.

    Raises:
        RuleFileError: no matcher at all, or one that can't be read.

    Example:
        >>> str(RuleMatcher(tool=("Bash",), command_prefix=("git status",)))
        'Bash(git status:*)'
    """

    tool: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    command_prefix: tuple[str, ...] = ()
    argv_exact: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    domain: tuple[str, ...] = ()
    regex: tuple[str, ...] = ()
    redirect_to: tuple[str, ...] = ()
    predicate: Predicate | None = field(default=None, compare=True)
    all: bool = False

    def __post_init__(self) -> None:
        kinds = [self.about_commands, bool(self.path), bool(self.domain)]
        if not (any(kinds) or self.tool or self.category or self.predicate or self.all):
            raise RuleFileError(
                "a rule needs a matcher: without one it would be about every call",
                hint='name a tool, a command_prefix, a path …, or write "all": true',
            )
        if sum(kinds) > 1:
            raise RuleFileError(
                "one rule can't be about commands, paths and hosts at the same time",
                hint="write one rule for each",
            )
        if starred := next((each for each in self.tool if set(each) & set("*?[")), ""):
            raise RuleFileError(
                f"{starred!r} is the name of no tool: names are exact",
                hint='name each tool, give a category, or write "all": true',
            )
        if self.redirect_to and not self.about_commands:
            raise RuleFileError(
                "redirect_to belongs to a rule about commands", hint="use path for other writes"
            )
        # Reading them here makes a bad one an error at once, not at the first call.
        _ = self.settings, self.paths, self.hosts, self.expressions, self.targets

    @cached_property
    def about_commands(self) -> bool:
        """Whether it judges simple commands rather than whole calls."""
        return bool(self.command_prefix or self.argv_exact or self.regex)

    @cached_property
    def about_calls(self) -> bool:
        """Whether it judges whole calls: any part of them, whatever it is."""
        return not (self.about_commands or self.path or self.domain)

    @cached_property
    def prefixes(self) -> tuple[tuple[str, ...], ...]:
        """The command prefixes, split into words as the shell would, without their settings."""
        return tuple(split_settings(split_words(each))[1] for each in self.command_prefix)

    @cached_property
    def exact(self) -> tuple[str, ...]:
        """All words of a command, without the settings before them."""
        return split_settings(self.argv_exact)[1]

    @cached_property
    def settings(self) -> frozenset[str]:
        """The variables that are set for the command, such as "CI=1"."""
        named = [*map(split_words, self.command_prefix), *filter(None, (self.argv_exact,))]
        parts = [split_settings(words) for words in named]
        if not all(words for _, words in parts):
            raise RuleFileError(
                "a rule about a command names its program", hint="such as CI=1 npm test"
            )
        found = {frozenset(x for x in given if not is_display_setting(x)) for given, _ in parts}
        if len(found) > 1:
            raise RuleFileError(
                "the commands of one rule differ in the variables that are set for them",
                hint="write one rule for each",
            )
        return next(iter(found), frozenset())

    @cached_property
    def prefixes_of(self) -> Mapping[str, tuple[tuple[str, ...], ...]]:
        """The same by the program that they begin with, as it is written."""
        found: dict[str, tuple[tuple[str, ...], ...]] = {}
        for words in self.prefixes:
            found[words[0]] = (*found.get(words[0], ()), words)
        return found

    @cached_property
    def paths(self) -> tuple[PathPattern, ...]:
        """The path patterns, read."""
        return tuple(PathPattern.parse(each) for each in self.path)

    @cached_property
    def targets(self) -> tuple[PathPattern, ...]:
        """The patterns of `redirect_to`, read."""
        return tuple(PathPattern.parse(each) for each in self.redirect_to)

    @cached_property
    def hosts(self) -> tuple[HostPattern, ...]:
        """The host patterns, read."""
        return tuple(HostPattern.parse(each) for each in self.domain)

    @cached_property
    def expressions(self) -> tuple[Expression, ...]:
        """The regular expressions, read."""
        return tuple(Expression(each) for each in self.regex)

    def concerns(self, tool: str, category: str) -> bool:
        """Tell whether the tool is one that this matcher is about."""
        return (not self.tool or tool in self.tool) and (
            not self.category or category in self.category
        )

    def __str__(self) -> str:
        name = ",".join(self.tool) or (",".join(self.category) and f"category:{self._categories}")
        spec = ", ".join(self._specs())
        if not spec:
            return name or ("*" if self.all else "condition")
        return f"{name or '*'}({spec})"

    @property
    def _categories(self) -> str:
        return ",".join(self.category)

    def _specs(self) -> list[str]:
        specs = [f"{each}:*" for each in self.command_prefix]
        specs += [quoted_words(self.argv_exact)] if self.argv_exact else []
        specs += [f"/{each}/" for each in self.regex]
        specs += [*self.path, *(f"domain:{each}" for each in self.domain)]
        specs += [f"> {each}" for each in self.redirect_to]
        return specs + (["condition"] if self.predicate and specs else [])


def quoted_words(words: tuple[str, ...]) -> str:
    """Write words so that the shell, and `PermissionRule.parse`, read the same words again."""
    from shlex import join, quote

    settings, command = split_settings(words)
    named = (each.partition("=") for each in settings)
    return " ".join([*(f"{name}={quote(value)}" for name, _, value in named), join(command)])
