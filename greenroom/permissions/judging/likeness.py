"""How far a rule is about a fact: exactly for allowances, generously for denials and questions."""

import logging
from collections.abc import Iterable
from itertools import product

from greenroom.permissions.facts.fact import (
    Change,
    Command,
    Fact,
    HostUse,
    PathUse,
    Unknown,
    Unread,
)
from greenroom.permissions.facts.word import Word
from greenroom.permissions.judging.anywhere import stands_in
from greenroom.permissions.judging.call import Call
from greenroom.permissions.judging.prefix import Likeness, begins, program_name, resembles
from greenroom.permissions.judging.protection import protected_words, protections, protects
from greenroom.permissions.rules.matcher import RuleMatcher
from greenroom.permissions.shell.programs.wrappers import RUNNERS
from greenroom.permissions.shell.unread import words_of

__all__ = ["covers", "holds", "touches"]

_logger = logging.getLogger("greenroom.permissions")


def holds(matcher: RuleMatcher, call: Call) -> Likeness:
    """Ask the matcher's own condition, if it has one; MAYBE means that it failed."""
    if matcher.predicate is None:
        return Likeness.YES
    try:
        return Likeness.YES if matcher.predicate(call.tool, call.input) else Likeness.NO
    except Exception:
        _logger.exception("a condition of a permission rule failed; the call is asked about")
        return Likeness.MAYBE


def covers(matcher: RuleMatcher, fact: Fact, call: Call) -> bool:
    """Tell whether an allowance is about all of this fact; what is protected it has to name."""
    if isinstance(fact, Unknown):
        return False
    if matcher.about_calls and isinstance(fact, Command):
        return next(protected_words(fact, call), None) is None
    if matcher.about_calls:
        return not (isinstance(fact, PathUse) and protects(fact, call))
    if isinstance(fact, Command):
        return _covers_command(matcher, fact, call)
    if isinstance(fact, PathUse):
        return _covers_path(matcher, fact, call)
    if isinstance(fact, Change):
        # What names the settings of a command names exactly those, so this one is among them.
        named = matcher.settings and fact.setting and fact.command
        return bool(named and _reach(matcher, named, call))
    return isinstance(fact, HostUse) and any(each.matches(fact.host) for each in matcher.hosts)


def _covers_command(matcher: RuleMatcher, fact: Command, call: Call) -> bool:
    reach = _reach(matcher, fact, call)
    if (
        reach
        and all(at < reach for at, _ in fact.cautions)
        and all(at < reach for at in protected_words(fact, call))
    ):
        return True
    outer = fact.outer
    return outer is not None and _reach(matcher, outer, call) > fact.start


def _reach(matcher: RuleMatcher, fact: Command, call: Call) -> int:
    """Say how many words of the command the matcher names; 0 if it is not about the command."""
    reaches = []
    if matcher.settings and matcher.settings != frozenset(fact.settings):
        return 0
    if matcher.command_prefix:
        named = matcher.prefixes_of.get(fact.argv[0].text, ()) if fact.argv else ()
        reaches.append(max((len(each) for each in named if begins(fact.argv, each)), default=0))
    if matcher.exact:
        same = len(fact.argv) == len(matcher.exact) and begins(fact.argv, matcher.exact)
        reaches.append(len(fact.argv) if same else 0)
    if matcher.expressions and all(reaches):
        # An expression says nothing of single words, so it reaches no further than the program.
        reaches.append(int(_is_match(matcher, fact, call)))
    return max(reaches, default=0) if all(reaches) else 0


def _is_match(matcher: RuleMatcher, fact: Command, call: Call) -> bool:
    """Tell whether an expression matches all of the command; it may have many redirections."""
    key = (id(matcher), id(fact))
    if key not in call.matched:
        call.matched[key] = _is_plain(fact.argv) and any(
            each.fullmatch(fact.text) for each in matcher.expressions
        )
    return call.matched[key]


def _is_plain(argv: tuple[Word, ...]) -> bool:
    """Tell whether joining the words hides nothing: all known, the program one word."""
    return all(word.static for word in argv) and not any(ch.isspace() for ch in argv[0].text)


def _covers_path(matcher: RuleMatcher, fact: PathUse, call: Call) -> bool:
    patterns = matcher.paths
    if matcher.targets and fact.command is not None:
        patterns = matcher.targets if _reach(matcher, fact.command, call) else ()
    folder = fact.kind == "read"
    return bool(patterns) and all(
        any(
            pattern.matches(path, anchors, folder=folder) and all(map(pattern.names, protected))
            for pattern in patterns
        )
        for path, anchors, protected in protections(fact, call)
    )


def touches(matcher: RuleMatcher, fact: Fact, call: Call) -> Likeness:
    """Tell whether a denial or a question may be about this fact."""
    if matcher.about_calls:
        return Likeness.YES
    if isinstance(fact, Command) and matcher.about_commands:
        return _touches_command(matcher, fact, call)
    if isinstance(fact, Unread) and matcher.about_commands:
        return Likeness(2 * _touches_unread(matcher, fact))
    if isinstance(fact, PathUse) and matcher.paths:
        return _touches_path(matcher, fact, call)
    if isinstance(fact, HostUse) and matcher.hosts:
        return Likeness(2 * any(each.touches(fact.host) for each in matcher.hosts))
    return Likeness.NO


def _touches_command(matcher: RuleMatcher, fact: Command, call: Call) -> Likeness:
    likeness = Likeness.YES
    if matcher.prefixes:
        likeness = max(resembles(fact.argv, each) for each in matcher.prefixes)
        if fact.loose and not likeness:  # it may run what its words say
            words = words_of(fact.text)
            surely = 1 + (program_name(fact.argv[0].text) in RUNNERS)
            likeness = Likeness(surely * any(stands_in(words, each) for each in matcher.prefixes))
    if matcher.exact and likeness:
        likeness = min(likeness, _same_words(matcher.exact, fact))
    if matcher.expressions and likeness:
        likeness = min(likeness, _found(matcher, fact))
    if likeness and not matcher.settings.issubset(fact.settings):
        likeness = min(
            likeness, _may_be_set(matcher.settings.difference(fact.settings), fact, call)
        )
    return likeness


def _may_be_set(settings: Iterable[str], fact: Command, call: Call) -> Likeness:
    """Tell whether the call may set these variables in another way than before the command."""
    others = [
        str(each)
        for each in call.facts
        if each is not fact
        and not (isinstance(each, Change) and each.setting and each.command is fact)
    ]
    names = (setting.partition("=")[0] for setting in settings)
    return Likeness(all(any(name in each for each in others) for name in names))


def _touches_unread(matcher: RuleMatcher, fact: Unread) -> bool:
    named = not matcher.prefixes or any(stands_in(fact.words, each) for each in matcher.prefixes)
    named = named and (not matcher.exact or stands_in(fact.words, matcher.exact))
    return named and (
        not matcher.expressions
        or any(each.search(fact.text) is not False for each in matcher.expressions)
    )


def _same_words(wanted: tuple[str, ...], fact: Command) -> Likeness:
    if len(wanted) == len(fact.argv):
        return resembles(fact.argv, wanted)
    unsure = any(word.split for word in fact.argv) and resembles(fact.argv[:1], wanted[:1])
    return Likeness.MAYBE if unsure else Likeness.NO


def _found(matcher: RuleMatcher, fact: Command) -> Likeness:
    """Search the words, and once more with the program named without its folder."""
    found = [each.search(part) for each in matcher.expressions for part in fact.spellings]
    if True in found:
        return Likeness.YES
    return Likeness.MAYBE if None in found else Likeness.NO


def _touches_path(matcher: RuleMatcher, fact: PathUse, call: Call) -> Likeness:
    for path, anchors in product({*fact.lexical, *fact.real}, call.different_anchors):
        if any(pattern.touches(path, anchors) for pattern in matcher.paths):
            return Likeness.YES
    for path, anchors in product(fact.patterns, call.different_anchors):
        if fact.stars == "search":  # it may find anything, and what there is takes long to tell
            if any(pattern.is_sought(path, anchors) for pattern in matcher.paths):
                return Likeness.YES
        elif any(pattern.overlaps(path, anchors) for pattern in matcher.paths):
            return Likeness.MAYBE
    return Likeness.NO
