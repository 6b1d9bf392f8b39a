"""Matchers: which calls a rule is about. Fields of one matcher are ANDed, values of a field ORed.

People write and read matchers in a short form:

    Read                      a tool, or several: Read,Grep; category:read names a category
    Bash(git log:*, ls *)     commands that begin with these words
    Bash(npm test)            exactly this command
    Bash(pytest:*, > out/**)  its output may be redirected there
    Edit(src/**, *.md)        files; path:… behind any other tool
    WebFetch(domain:a.test)   hosts
    now(definition:sha256:…)  a tool, as long as it is defined as it was then
    Bash(regex:…)             commands that a regular expression matches
    *                         every call

A matcher that does not fit this form is written as a JSON object, as in a rule file.
"""

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Self, TypeAlias

from greenroom.core import RuleFileError
from greenroom.core._internal import compile_later, exact, serde
from greenroom.permissions.patterns import Expression, HostPattern, PathPattern

Predicate: TypeAlias = Callable[[str, Mapping[str, object]], bool]
"""A condition in Python, called with the tool's name and the call's input."""

_TEXT = compile_later("[^\0\ud800-\udfff]*")  # can be stored in a file and passed to a program
_FORM = compile_later(r"\s*(\*|[A-Za-z_][\w.:/,-]*)\s*(?:\((.*\S.*)\))?\s*", re.DOTALL)
_COMMA = compile_later(r",\s+(?=(?:[^'\"]*(?:'[^']*'|\"[^\"]*\"))*[^'\"]*\Z)")  # outside of quotes
_KIND = compile_later(r"(definition|domain|path|regex):|(>) ")
_EXAMPLES = (
    "write Read, Bash(git status:*), Bash(exact command), Edit(src/**), "
    "WebFetch(domain:docs.python.org) or *"
)
_LAST = "."
_SETTING = compile_later(r"[A-Za-z_]\w*=", re.ASCII)


def split_words(text: str) -> tuple[str, ...]:
    """Split text into words without their quotes; leading settings such as `CI=1` are words, too.

    Raises:
        RuleFileError: there is no program, or more than plain words: an operator, an expansion, a
            redirection, a pattern.

    Example:
        >>> split_words("CI=1 npm run 'my task'")
        ('CI=1', 'npm', 'run', 'my task')
    """
    # Rules without commands need not wait for what reads them.
    from greenroom.shell._internal import NotPlainError, Pipeline, SimpleCommand, read

    with suppress(NotPlainError):
        # A word is added, since nothing may follow or surround the words: `ls; `, `ls # x`.
        script = read(f"{text.strip()} {_LAST}", home=os.path.expanduser("~"))
        words, settings = script[0].commands[0].words, script[0].commands[0].settings
        is_alone = script == (Pipeline("", (SimpleCommand(words, settings),)),)
        if is_alone and len(words) > 1 and words[-1] == _LAST and not _SETTING.match(words[0]):
            return (*(f"{name}={value}" for name, value in settings), *words[:-1])
    raise RuleFileError(
        f"not a plain command: {text!r}",
        hint="write its words alone, without operators or variables, such as: git status",
    )


def split_settings(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Separate the settings before a command from its words.

    Example:
        >>> split_settings(["CI=1", "npm", "run", "A=b"])
        (('CI=1',), ('npm', 'run', 'A=b'))
    """
    start = next((at for at, word in enumerate(words) if not _SETTING.match(word)), len(words))
    return tuple(words[:start]), tuple(words[start:])


class Texts:
    """A field of a dataclass that holds texts; a plain string is one text, never its characters."""

    def __init__(self, split: Callable[[str], Sequence[str]] = lambda text: (text,)) -> None:
        """Set how a plain string is split; by default it is one text."""
        self._split = split

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> tuple[str, ...]:
        texts: tuple[str, ...] = () if instance is None else instance.__dict__[self._name]
        return texts

    def __set__(self, instance: object, value: str | Sequence[str]) -> None:
        texts = self._split(value) if isinstance(value, str) else value
        is_texts = isinstance(texts, Sequence) and all(isinstance(each, str) for each in texts)
        if not is_texts or not all(map(_TEXT.fullmatch, texts)):
            raise RuleFileError(
                f"{self._name}: not a text or a list of texts: {value!r}",
                hint=f'write {self._name}="…" or {self._name}=["…", "…"]',
            )
        instance.__dict__[self._name] = tuple(texts)


@dataclass(frozen=True, kw_only=True)
class RuleMatcher:
    """Which calls, or which parts of a call, a rule is about.

    Each field but the last two takes one text, or several of which one must match.

    Attributes:
        tool: exact names of tools.
        category: categories of tools.
        command_prefix: the first words of a simple command, such as "git status". With settings
            before them, as in "CI=1 npm test", it matches commands with exactly these settings, in
            any order. Settings that only change how output looks, such as NO_COLOR, don't count.
        argv_exact: all words of a simple command; a plain string is split as the shell splits it.
            Settings count as above.
        path: patterns of files that are read or written.
        domain: hosts that are contacted.
        regex: regular expressions for the words of a simple command, joined by spaces; an allowance
            must match all of the text, a denial any part.
        redirect_to: files that an allowed command's output may be redirected to.
        definition_hash: digests of a tool's definition, for tools from elsewhere, whose definitions
            may change: the rule is about the tool only as long as it has one of these.
        predicate: a condition in Python; it can't be saved to a file.
        all: every call.

    Raises:
        RuleFileError: no field is given, or one is invalid.

    Example:
        >>> str(RuleMatcher(tool="Bash", command_prefix=["git status", "git log"]))
        'Bash(git status:*, git log:*)'
    """

    tool: Texts = Texts()
    category: Texts = Texts()
    command_prefix: Texts = Texts()
    argv_exact: Texts = Texts(split_words)
    path: Texts = Texts()
    domain: Texts = Texts()
    regex: Texts = Texts()
    redirect_to: Texts = Texts()
    definition_hash: Texts = Texts()
    predicate: Predicate | None = None
    all: bool = False

    def __post_init__(self) -> None:
        kinds = [self.about_commands, bool(self.path), bool(self.domain)]
        narrowed = any(kinds) or self.tool or self.category or self.predicate
        if not narrowed and not self.all:
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
                f"{starred!r} is not the name of a tool: names are exact",
                hint='name each tool, give a category, or write "all": true',
            )
        if self.redirect_to and not self.about_commands:
            raise RuleFileError(
                "redirect_to belongs to a rule about commands", hint="use path for other writes"
            )
        if self.definition_hash and (not self.tool or any(kinds)):
            raise RuleFileError(
                "definition_hash belongs to a rule about whole calls of a tool",
                hint="name the tool, and leave out commands, paths and hosts",
            )
        # Equal prefixes are spelled alike, so rules compare and are named alike.
        prefixes = tuple(quote_words(split_words(each)) for each in self.command_prefix)
        object.__setattr__(self, "command_prefix", prefixes)
        object.__setattr__(self, "all", not narrowed)
        # Parsing them here reports an invalid one at once, not at the first call.
        _ = self.settings, self.paths, self.hosts, self.expressions, self.targets
        _ = self.prefixes, self.exact, self.about_calls

    @cached_property
    def about_commands(self) -> bool:
        """Whether it matches simple commands rather than whole calls."""
        return bool(self.command_prefix or self.argv_exact or self.regex)

    @cached_property
    def about_calls(self) -> bool:
        """Whether it matches whole calls: every part of them, whatever it is."""
        return not (self.about_commands or self.path or self.domain)

    def fits_definition(self, definition_hash: str) -> bool:
        """Whether it is about a tool with this digest of its definition."""
        return not self.definition_hash or definition_hash in self.definition_hash

    @cached_property
    def prefixes(self) -> tuple[tuple[str, ...], ...]:
        """The command prefixes, split into words as the shell would, without their settings."""
        return tuple(split_settings(split_words(each))[1] for each in self.command_prefix)

    @cached_property
    def exact(self) -> tuple[str, ...]:
        """All words of a command, without the settings before them."""
        return split_settings(self.argv_exact)[1]

    @cached_property
    def commands(self) -> tuple[tuple[str, ...], ...]:
        """The prefixes, and the exact words as one of them."""
        return (*self.prefixes, *filter(None, [self.exact]))

    @cached_property
    def settings(self) -> frozenset[str]:
        """The variables that are set for the command, such as "CI=1"."""
        if not (self.command_prefix or self.argv_exact):
            return frozenset()
        from greenroom.programs._internal import is_display_setting

        exact = [quote_words(self.argv_exact)] if self.argv_exact else []
        given = [split_settings(split_words(each))[0] for each in (*self.command_prefix, *exact)]
        found = {frozenset(x for x in each if not is_display_setting(x)) for each in given}
        if len(found) > 1:
            raise RuleFileError(
                "the commands of one rule differ in the variables that are set for them",
                hint="write one rule for each",
            )
        return next(iter(found), frozenset())

    @cached_property
    def paths(self) -> tuple[PathPattern, ...]:
        """The parsed path patterns."""
        return tuple(PathPattern.parse(each) for each in self.path)

    @cached_property
    def targets(self) -> tuple[PathPattern, ...]:
        """The parsed patterns of `redirect_to`."""
        return tuple(PathPattern.parse(each) for each in self.redirect_to)

    @cached_property
    def hosts(self) -> tuple[HostPattern, ...]:
        """The parsed host patterns."""
        return tuple(HostPattern.parse(each) for each in self.domain)

    @cached_property
    def expressions(self) -> tuple[Expression, ...]:
        """The parsed regular expressions."""
        return tuple(Expression(each) for each in self.regex)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the short form, such as `Bash(git status:*)`; `str` of a matcher writes it.

        Raises:
            RuleFileError: the text has none of the known forms.
        """
        return cls.of(_read_notation(text))

    @classmethod
    def of(cls, fields: Mapping[str, object]) -> Self:
        """Make a matcher from its fields, as a file or a short form has them, and check them.

        Raises:
            RuleFileError: no field is given, or one is invalid.
        """
        make: type = cls
        matcher: Self = make(**fields)
        return matcher

    def __str__(self) -> str:
        text = _write_notation(self)
        return text if self.predicate is None else f"{text} & condition"


# The fields of a matcher that hold texts.
KINDS = tuple(name for name, kind in vars(RuleMatcher).items() if isinstance(kind, Texts))


def _read_notation(text: str) -> Mapping[str, object]:
    """Parse the short form of a matcher into its fields, without checking them.

    Raises:
        RuleFileError: the text has none of the known forms.

    Example:
        >>> _read_notation("Bash(npm run *)")
        {'tool': ['Bash'], 'command_prefix': ['npm run']}
    """
    if text.lstrip().startswith("{"):
        return _read_object(text)
    form = _FORM.fullmatch(text)
    if form is None:
        raise RuleFileError(f"not a rule: {text!r}", hint=_EXAMPLES)
    fields: dict[str, list[str]] = {}
    for name in form[1].split(",") if form[1] != "*" else ():
        kind = "category" if name.startswith("category:") else "tool"
        fields.setdefault(kind, []).append(name.removeprefix("category:"))
    spec = (form[2] or "*").strip()
    if spec == "*":
        return fields or {"all": True}
    values = [_read_value(value, form[1]) for value in _COMMA.split(spec)]
    kinds = [kind for kind, _ in values if kind != "redirect_to"]
    if len(set(kinds)) != 1 or kinds.count("argv_exact") > 1:
        raise RuleFileError(f"not a rule: {text!r}", hint=_EXAMPLES)
    for kind, texts in values:
        fields.setdefault(kind, []).extend(texts)
    return fields


def _read_object(text: str) -> Mapping[str, object]:
    try:
        fields = serde.loads_object(text)
    except serde.InvalidJSONError as error:
        raise RuleFileError(f"not a rule: {error.message}", hint=_EXAMPLES) from error
    if unknown := sorted(fields.keys() - KINDS):
        raise RuleFileError(f"not a rule: {unknown[0]!r}", hint=f"write {', '.join(KINDS)}")
    return fields


def _read_value(value: str, tool: str) -> tuple[str, Sequence[str]]:
    """Parse one of the values in brackets after a tool: its kind, and its texts."""
    if found := _KIND.match(value):
        kind = "definition_hash" if found[1] == "definition" else found[1]
        return kind or "redirect_to", [value[found.end() :].strip()]
    value = value.strip()
    if tool in ("*", "Bash") and value.endswith((":*", " *")):
        return "command_prefix", [value[:-2]]
    if tool == "Bash":
        return "argv_exact", split_words(value)
    if tool in ("*", "WebFetch") or value.endswith(":*"):
        raise RuleFileError(f"it is unclear what {value!r} means for {tool}", hint=_EXAMPLES)
    return "path", [value]


def _write_notation(matcher: RuleMatcher) -> str:
    """Write a matcher in the short form if `_read_notation` can read it back, else as JSON."""
    tools = [*matcher.tool, *(f"category:{each}" for each in matcher.category)]
    names = ",".join(tools) or "*"
    values = [f"{each}:*" for each in matcher.command_prefix]
    values += [quote_words(matcher.argv_exact)] if matcher.argv_exact else []
    values += [f"regex:{each}" for each in matcher.regex]
    values += [f"path:{each}" if names in ("*", "Bash") else each for each in matcher.path]
    values += [f"domain:{each}" for each in matcher.domain]
    values += [f"> {each}" for each in matcher.redirect_to]
    values += [f"definition:{each}" for each in matcher.definition_hash]
    text = f"{names}({', '.join(values)})" if values else names
    given: dict[str, object] = {
        kind: list(getattr(matcher, kind)) for kind in KINDS if getattr(matcher, kind)
    }
    try:
        is_same = _read_notation(text) == (given or {"all": True})
    except RuleFileError:
        is_same = False
    if is_same and _hides_nothing(text):
        return text
    return "".join(map(_escape_character, serde.dumps(given).decode()))


def _hides_nothing(text: str) -> bool:
    return text.isprintable() and exact(text) == text


@lru_cache(4_096)
def _escape_character(char: str) -> str:
    """Escape a character that is invisible or changes how others look."""
    if _hides_nothing(char):
        return char
    units = char.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def quote_words(words: Sequence[str]) -> str:
    """Quote words so that the shell and `PermissionRule.parse` read the same words back."""
    settings, command = split_settings(words)
    named = (each.partition("=") for each in settings)
    parts = [f"{name}={shlex.quote(value)}" for name, _, value in named]
    parts += map(shlex.quote, command)
    try:
        is_same = split_words(" ".join(parts)) == tuple(words)
    except RuleFileError:
        is_same = False
    if command and not is_same:  # the program has the name of a keyword
        parts[len(settings)] = f"'{command[0]}'"
    return " ".join(parts)
