"""Scopes: which rules apply to a call, and in which order they are tried.

Which rules apply: a rule may name a session or an agent type, and then applies only to those. A
subagent is bound by every denial and question for itself and for the agents above it. What is
allowed to an agent above it counts only if it was passed on at every step (`Audience`).

In which order: final rules come first, the strictest of them before the others. Then come the
scopes: user, session, agent, global; in each scope, rules with a higher priority come first; and at
equal priority deny comes before ask before allow. The first rule that is about a part of a call
decides on that part (`greenroom.permissions.evaluator`), so a rule overrides those of later scopes.

An index finds the few of many rules that may be about a part, and keeps their order.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from greenroom.core import RuleDecision
from greenroom.fs._internal import fold_path
from greenroom.permissions.call import Fact
from greenroom.permissions.matcher import RuleMatcher
from greenroom.permissions.operands import HostUse
from greenroom.permissions.patterns import END, Care
from greenroom.permissions.rule import Audience, PermissionRule
from greenroom.programs._internal import extract_words, fold_program
from greenroom.shell._internal import Change, Command, PathUse, Unknown


class RuleIndex:
    """Rules in their order, indexed by the programs and by texts in the paths they are about.

    A lookup leaves out only rules that can't be about a fact in any spelling; `evaluator` has to
    look at the others.

    Attributes:
        all: the rules, in their order.
        care: what denials and questions are about, besides programs.
        denials: all rules that deny.
    """

    def __init__(self, rules: Iterable[PermissionRule]) -> None:
        self.all = tuple(rules)
        self._kinds = defaultdict[str, set[int]](set)  # by a field of the matcher
        self._programs = defaultdict[str, set[int]](set)
        self._marks = defaultdict[str, set[int]](set)  # by a text that the path must have
        for number, rule in enumerate(self.all):
            self._add(number, rule.matcher)
        self.denials = tuple(each for each in self.all if each.decision is RuleDecision.DENY)
        careful = [each.matcher for each in self.all if each.decision is not RuleDecision.ALLOW]
        self.care = Care(
            paths=tuple(path for matcher in careful for path in matcher.paths),
            hosts=tuple(host for matcher in careful for host in matcher.hosts),
        )

    def _add(self, number: int, matcher: RuleMatcher) -> None:
        for kind in ("about_calls", "regex", "path", "domain"):
            if getattr(matcher, kind):
                self._kinds[kind].add(number)
        for words in matcher.commands:
            self._programs[fold_program(words[0])].add(number)
        for mark in chain.from_iterable(each.marks for each in matcher.paths):
            self._marks[mark].add(number)

    def find_rules(self, fact: Fact) -> Sequence[PermissionRule]:
        """Find the rules that may be about a fact, in their order."""
        numbers = self._kinds["about_calls"] | self._kinds["regex"]
        if isinstance(fact, PathUse):
            numbers |= self._find_by_path(fact)
        elif isinstance(fact, HostUse):
            numbers |= self._kinds["domain"]
        programs = set(map(fold_program, _list_programs(fact))) & self._programs.keys()
        numbers.update(*(self._programs[each] for each in programs))
        return [self.all[number] for number in sorted(numbers)]

    def _find_by_path(self, fact: PathUse) -> set[int]:
        if fact.searches:
            return self._kinds["path"]
        text = "".join([fold_path(path) + END for path in {*fact.lexical, *fact.real}])
        return set().union(*(numbers for mark, numbers in self._marks.items() if mark in text))


def _list_programs(fact: Fact) -> Iterator[str]:
    """List the programs that a fact is about."""
    outer = fact.command if isinstance(fact, PathUse | Change) else None
    if isinstance(fact, Command):
        outer = fact.outer
        # A loose one may run any of its words.
        yield from (*fact.argv, *fact.possible_words) if fact.loose else fact.argv[:1]
    elif isinstance(fact, Unknown) and fact.text:
        yield from extract_words(fact.text)
    while outer is not None:
        yield outer.argv[0]
        outer = outer.outer


def is_about_tool(matcher: RuleMatcher, tool: str, category: str) -> bool:
    """Return whether a matcher is about a tool."""
    is_tool = not matcher.tool or tool in matcher.tool
    return is_tool and (not matcher.category or category in matcher.category)


def choose_rules(
    rules: Iterable[PermissionRule], tool: str, category: str, audience: Audience
) -> RuleIndex:
    """Index only the rules that apply to a tool and an agent."""
    return RuleIndex(
        rule
        for rule in rules
        if audience.is_bound_by(rule) and is_about_tool(rule.matcher, tool, category)
    )
