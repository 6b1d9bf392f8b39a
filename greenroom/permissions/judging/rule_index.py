"""Which rules may be about a fact, so that a check looks at a few of many."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from greenroom.core import RuleDecision
from greenroom.permissions.facts.fact import Change, Command, Fact, HostUse, PathUse, Unread
from greenroom.permissions.facts.glob import Glob
from greenroom.permissions.facts.pattern import (
    PathPattern,
    Segments,
    fold,
    folded_segments,
    segments,
)
from greenroom.permissions.judging.prefix import is_flag, program_name
from greenroom.permissions.rules.matcher import RuleMatcher
from greenroom.permissions.rules.rule import PermissionRule
from greenroom.permissions.shell.unread import words_of

__all__ = ["RuleIndex"]

# Of one program: rules by a word that the command must have, or under "" without one.
_Words: TypeAlias = defaultdict[str, set[int]]
MAX_KEPT = 256  # folders
MAX_LENGTH = 1024  # of a folder that is kept
_WILD = re.compile(r"[*?\[]")
_ENDING = re.compile(r"\*[^*?\[]*(\.[^*?\[.]+)")


class RuleIndex:
    """Rules in their order, found by the program, or by a name in the path, that they are about.

    It leaves out only rules that surely are not about a fact, in any spelling; what the others say
    is for `evaluator` to find out.

    Attributes:
        careful_paths: whether a denial or a question is about paths.
        careful_folders: whether one is about the paths of certain folders.
        careful_hosts: whether a denial or a question is about hosts.
        denials: the rules that deny, whatever they are about.
    """

    def __init__(self, rules: Iterable[PermissionRule]) -> None:
        """File the rules, which are in their order."""
        self._rules = tuple(rules)
        self._calls: set[int] = set()
        self._commands: set[int] = set()
        self._expressions: set[int] = set()
        self._programs: defaultdict[str, _Words] = defaultdict(lambda: defaultdict(set))
        self._paths: set[int] = set()
        self._names: defaultdict[str, set[int]] = defaultdict(set)
        self._folders: dict[str, set[int]] = {}
        self._endings: defaultdict[str, list[str]] = defaultdict(list)  # of `_names`
        self._hosts: set[int] = set()
        for number, rule in enumerate(self._rules):
            self._file(number, rule.matcher)
        for key in self._names:
            self._endings[key[-1]].append(key)
        self.denials = tuple(each for each in self._rules if each.decision is RuleDecision.DENY)
        careful = [each.matcher for each in self._rules if each.decision is not RuleDecision.ALLOW]
        self.careful_paths = any(matcher.path for matcher in careful)
        self.careful_folders = not all(
            path.startswith("**/") for matcher in careful for path in matcher.path
        )
        self.careful_hosts = any(matcher.domain for matcher in careful)

    def _file(self, number: int, matcher: RuleMatcher) -> None:
        if matcher.about_calls:
            self._calls.add(number)
        elif matcher.about_commands:
            self._commands.add(number)
            if matcher.regex:
                self._expressions.add(number)
            for words in (*matcher.prefixes, matcher.exact):
                if words:
                    self._programs[program_name(words[0])][_last_plain(words)].add(number)
        elif matcher.path:
            for key in (key for pattern in matcher.paths for key in _keys(pattern)):
                (self._paths if key is None else self._names[key]).add(number)
        else:
            self._hosts.add(number)

    def about(self, fact: Fact) -> Sequence[PermissionRule]:
        """Find the rules that may be about a fact, in their order."""
        numbers = set(self._calls)
        if isinstance(fact, Command):
            numbers |= self._about_command(fact)
        elif isinstance(fact, Unread):
            words = set(fact.words)
            numbers |= self._expressions.union(*self._running(words, words))
        elif isinstance(fact, PathUse):
            numbers |= self._about_path(fact)
            if fact.command is not None:
                numbers |= self._about_program(fact.command)
        elif isinstance(fact, HostUse):
            numbers |= self._hosts
        elif isinstance(fact, Change) and fact.command is not None:
            numbers |= self._about_program(fact.command)
        return [self._rules[number] for number in sorted(numbers)]

    def _about_path(self, fact: PathUse) -> set[int]:
        numbers = set(self._paths)
        if fact.stars != "none":
            return numbers.union(*_filed(self._names, self._fitting(fact)))
        paths = [path.rpartition("/") for path in {*fact.lexical, *fact.real}]
        for folder in {folder for folder, _, _ in paths}:
            numbers |= self._about_folder(folder)
        for name in {name for _, _, name in paths}:
            numbers.update(*_filed(self._names, _name_keys(name)))
        return numbers

    def _fitting(self, fact: PathUse) -> set[str]:
        """Find the keys that a pattern of the shell's may stand for."""
        paths = {*fact.lexical, *fact.real}
        globs = [Glob(name) for name in {each for path in paths for each in folded_segments(path)}]
        wild = [glob for glob in globs if not glob.plain]
        keys = {key for glob in wild for key in self._with_end_of(glob) if _may_fit(glob, key)}
        return keys.union(*(_name_keys(glob.head) for glob in globs if glob.plain))

    def _with_end_of(self, glob: Glob) -> Iterable[str]:
        """Find the keys that end with the same character as every name that fits, if there is one."""
        return self._endings.get(glob.tail[-1], ()) if glob.simple and glob.tail else self._names

    def _about_folder(self, folder: str) -> set[int]:
        """Find the rules that name something on the way; commands often name files of one folder."""
        numbers = self._folders.get(folder)
        if numbers is None:
            if len(self._folders) >= MAX_KEPT or len(folder) > MAX_LENGTH:
                self._folders.clear()
            keys = {key for name in segments(folder) for key in _name_keys(name)}
            numbers = self._folders[folder] = set().union(*_filed(self._names, keys))
        return numbers

    def _about_command(self, fact: Command) -> set[int]:
        if not (fact.argv and fact.argv[0].static):
            return self._commands
        if not fact.loose and program_name(fact.argv[0].text) not in self._programs:
            numbers = self._expressions
            return numbers if fact.outer is None else numbers | self._about_program(fact.outer)
        words = {word.text for word in fact.argv}
        if fact.loose:
            words.update(words_of(fact.text))
        told = words if all(word.static for word in fact.argv) else None
        # A program that we don't know may run any of its words.
        programs = words if fact.loose else {fact.argv[0].text}
        numbers = self._expressions.union(*self._running(programs, told))
        return numbers if fact.outer is None else numbers | self._about_program(fact.outer)

    def _about_program(self, fact: Command) -> set[int]:
        """Find the rules about the program, without a look at each of its words."""
        if not (fact.argv and fact.argv[0].static):
            return self._commands
        return self._expressions.union(*self._running({fact.argv[0].text}, None))

    def _running(self, programs: set[str], words: set[str] | None) -> Iterator[set[int]]:
        """Find the rules about programs with some of these words, or with any if they are None."""
        for program in set(map(program_name, programs)) & self._programs.keys():
            for word, numbers in self._programs[program].items():
                if words is None or not word or word in words:
                    yield numbers


def _filed(index: dict[str, set[int]], keys: Iterable[str]) -> Iterator[set[int]]:
    return (index[key] for key in keys if key in index)


def _last_plain(words: tuple[str, ...]) -> str:
    """Take the last word that a command must have as it stands; empty if there are only options."""
    return next((word for word in reversed(words[1:]) if not is_flag(word)), "")


def _may_fit(glob: Glob, key: str) -> bool:
    """Tell whether a pattern of the shell's may stand for a name that is filed under this key."""
    if not glob.simple:
        return True
    if key.startswith("*"):
        return glob.tail.endswith(key[1:]) or key.endswith(glob.tail)
    return key.startswith(glob.head) and key.endswith(glob.tail)


def _name_keys(name: str) -> tuple[str, ...]:
    """Give the keys under which a rule about a name, or about its ending, is filed."""
    name = fold(name)
    ending = name.rfind(".")
    return (name,) if ending < 0 else (name, f"*{name[ending:]}")


def _keys(pattern: PathPattern) -> Iterator[str | None]:
    """For each alternative, give a name that a path must hold, or None if there is none."""
    return (_key(alternative) for alternative in pattern.alternatives)


def _key(alternative: Segments) -> str | None:
    """Take the last name that is written out, else the last ending, such as `*.pem`."""
    plain = [name for name in alternative if not _WILD.search(name)]
    if plain:
        return fold(plain[-1])
    endings = filter(None, map(_ENDING.fullmatch, alternative))
    return next((f"*{fold(found[1])}" for found in reversed(list(endings))), None)
