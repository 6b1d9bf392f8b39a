"""Which rules may be about a fact, so that a check looks at a few of many."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from greenroom.core import RuleDecision
from greenroom.permissions.facts.fact import Change, Command, Fact, HostUse, PathUse
from greenroom.permissions.facts.pattern import END, fold_path
from greenroom.permissions.facts.word import words_of
from greenroom.permissions.judging.prefix import is_flag, program_name
from greenroom.permissions.rules.matcher import RuleMatcher
from greenroom.permissions.rules.rule import PermissionRule


class RuleIndex:
    """Rules in their order, found by the program, or by a text in the path, that they are about.

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
        # Of each program: rules by a word that the command must have, or under "" without one.
        self._programs = defaultdict[str, defaultdict[str, set[int]]](lambda: defaultdict(set))
        self._marks = defaultdict[str, set[int]](set)  # a text that stands in the path
        self._paths: set[int] = set()
        self._hosts: set[int] = set()
        for number, rule in enumerate(self._rules):
            self._file(number, rule.matcher)
        self.denials = tuple(each for each in self._rules if each.decision is RuleDecision.DENY)
        careful = [each.matcher for each in self._rules if each.decision is not RuleDecision.ALLOW]
        paths = [path for matcher in careful for path in matcher.path]
        self.careful_paths = bool(paths)
        self.careful_folders = not all(path.startswith("**/") for path in paths)
        self.careful_hosts = any(matcher.domain for matcher in careful)

    def _file(self, number: int, matcher: RuleMatcher) -> None:
        if matcher.about_calls:
            self._calls.add(number)
        elif matcher.about_commands:
            self._commands.add(number)
            if matcher.regex:
                self._expressions.add(number)
            for words in filter(None, (*matcher.prefixes, matcher.exact)):
                # All but options a command must have as they stand.
                plain = [word for word in words[1:] if not is_flag(word)]
                self._programs[program_name(words[0])][plain[-1] if plain else ""].add(number)
        elif matcher.path:
            self._paths.add(number)
            for mark in (mark for pattern in matcher.paths for mark in pattern.marks):
                self._marks[mark].add(number)
        else:
            self._hosts.add(number)

    def about(self, fact: Fact) -> Sequence[PermissionRule]:
        """Find the rules that may be about a fact, in their order."""
        numbers = set(self._calls)
        if isinstance(fact, Command):
            numbers |= self._about_command(fact)
        elif isinstance(fact, PathUse):
            numbers |= self._about_path(fact)
        elif isinstance(fact, HostUse):
            numbers |= self._hosts
        if isinstance(fact, PathUse | Change) and fact.command is not None:
            numbers |= self._about_program(fact.command)
        return [self._rules[number] for number in sorted(numbers)]

    def _about_path(self, fact: PathUse) -> set[int]:
        if fact.patterns:
            return self._paths
        text = "".join([fold_path(path) + END for path in {*fact.lexical, *fact.real}])
        return set().union(*(numbers for mark, numbers in self._marks.items() if mark in text))

    def _about_command(self, fact: Command) -> set[int]:
        words = {word.text for word in fact.argv}
        if fact.loose:
            words.update(words_of(fact.text))
        given = words if all(word.static for word in fact.argv) else None
        # A program that we don't know may run any of its words.
        programs = words if fact.loose else {fact.argv[0].text}
        numbers = self._running(programs, given) if fact.argv[0].static else self._commands
        return numbers if fact.outer is None else numbers | self._about_program(fact.outer)

    def _about_program(self, fact: Command) -> set[int]:
        """Find the rules about the program, without a look at each of its words."""
        program = fact.argv[0]
        return self._running({program.text}, None) if program.static else self._commands

    def _running(self, programs: Iterable[str], words: set[str] | None) -> set[int]:
        """Find the rules about programs with some of these words, or with any if they are None."""
        found = set(self._expressions)
        for program in set(map(program_name, programs)) & self._programs.keys():
            for word, numbers in self._programs[program].items():
                if words is None or not word or word in words:
                    found |= numbers
        return found
