"""How far a rule is about a fact: exactly for allowances, generously for denials and questions."""

import logging
from itertools import product

from greenroom.core import protected_names
from greenroom.permissions.facts.fact import Change, Command, Fact, HostUse, PathUse, Unknown
from greenroom.permissions.facts.word import words_of
from greenroom.permissions.judging.call import Call
from greenroom.permissions.judging.prefix import (
    Likeness,
    begins,
    program_name,
    resembles,
    stands_in,
)
from greenroom.permissions.judging.protection import protected
from greenroom.permissions.rules.matcher import RuleMatcher
from greenroom.permissions.shell.programs.table import RUNNERS

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
    if matcher.about_calls:
        return not protected(fact, call)
    if isinstance(fact, Command):
        return _covers_command(matcher, fact, call)
    if isinstance(fact, PathUse):
        return _covers_path(matcher, fact, call)
    if isinstance(fact, Change):
        # What names the settings of a command names exactly those, so this one is among them.
        named = matcher.settings and fact.setting and fact.command
        return bool(named and _reach(matcher, named))
    return isinstance(fact, HostUse) and any(each.matches(fact.host) for each in matcher.hosts)


def _covers_command(matcher: RuleMatcher, fact: Command, call: Call) -> bool:
    reach = _reach(matcher, fact)
    careful = [*(at for at, _ in fact.cautions), *(protected(fact, call) if reach else ())]
    if reach and all(at < reach for at in careful):
        return True
    outer = fact.outer
    return outer is not None and _reach(matcher, outer) > fact.start


def _reach(matcher: RuleMatcher, fact: Command) -> int:
    """Say how many words of the command the matcher names; 0 if it is not about the command."""
    reaches = []
    if matcher.settings and matcher.settings != frozenset(fact.settings):
        return 0
    if matcher.command_prefix:
        named = (len(each) for each in matcher.prefixes if begins(fact.argv, each))
        reaches.append(max(named, default=0))
    if matcher.exact:
        same = len(fact.argv) == len(matcher.exact) and begins(fact.argv, matcher.exact)
        reaches.append(len(fact.argv) if same else 0)
    if matcher.expressions and all(reaches):
        # An expression says nothing of single words, so it reaches no further than the program.
        is_match = fact.is_plain and any(each.fullmatch(fact.text) for each in matcher.expressions)
        reaches.append(int(is_match))
    return max(reaches, default=0) if all(reaches) else 0


def _covers_path(matcher: RuleMatcher, fact: PathUse, call: Call) -> bool:
    patterns = matcher.paths
    if matcher.targets and fact.command is not None:
        patterns = matcher.targets if _reach(matcher, fact.command) else ()
    folder = fact.kind == "read"
    return bool(patterns) and all(
        any(
            pattern.matches(path, anchors, folder=folder)
            and (folder or all(map(pattern.names, protected_names(path, *anchors.texts))))
            for pattern in patterns
        )
        for path, anchors in call.paths(fact)
    )


def touches(matcher: RuleMatcher, fact: Fact, call: Call) -> Likeness:
    """Tell whether a denial or a question may be about this fact."""
    if matcher.about_calls:
        return Likeness.YES
    if isinstance(fact, Command) and matcher.about_commands:
        return _touches_command(matcher, fact, call)
    if isinstance(fact, PathUse) and matcher.paths:
        return _touches_path(matcher, fact, call)
    if isinstance(fact, HostUse) and matcher.hosts:
        return Likeness(2 * any(each.touches(fact.host) for each in matcher.hosts))
    return Likeness.NO


def _touches_command(matcher: RuleMatcher, fact: Command, call: Call) -> Likeness:
    found = [Likeness.YES]
    if matcher.prefixes:
        found.append(max(_runs(fact, each) for each in matcher.prefixes))
    if matcher.exact:
        found.append(_runs_exactly(fact, matcher.exact))
    if matcher.expressions:
        hits = {each.search(text) for each in matcher.expressions for text in fact.spellings}
        found.append(Likeness.YES if True in hits else Likeness(None in hits))
    if not matcher.settings.issubset(fact.settings) and min(found):
        # The call may set the variable in another way than before the command.
        missing = matcher.settings.difference(fact.settings)
        own = {
            id(x) for x in call.facts if isinstance(x, Change) and x.command is fact and x.setting
        }
        text = "\n".join(str(each) for each in call.facts if id(each) not in own)
        found.append(Likeness(all(each.partition("=")[0] in text for each in missing)))
    return min(found)


def _runs(fact: Command, prefix: tuple[str, ...]) -> Likeness:
    """Tell whether a command of this prefix is run, or stands among the words of what may run it."""
    likeness = resembles(fact.argv, prefix)
    if likeness or not fact.loose:
        return likeness
    surely = 1 + (program_name(fact.argv[0].text) in RUNNERS)
    return Likeness(surely * stands_in(words_of(fact.text), prefix))


def _runs_exactly(fact: Command, wanted: tuple[str, ...]) -> Likeness:
    if len(wanted) == len(fact.argv):
        return resembles(fact.argv, wanted)
    return Likeness(any(word.split for word in fact.argv) and resembles(fact.argv, wanted[:1]) > 0)


def _touches_path(matcher: RuleMatcher, fact: PathUse, call: Call) -> Likeness:
    for path, anchors in product({*fact.lexical, *fact.real}, dict.fromkeys(call.anchors)):
        if any(pattern.touches(path, anchors) for pattern in matcher.paths):
            return Likeness.YES
    for path, anchors in product(fact.patterns, dict.fromkeys(call.anchors)):
        if fact.stars == "search":  # it may find anything, and what there is takes long to tell
            if any(pattern.is_sought(path, anchors) for pattern in matcher.paths):
                return Likeness.YES
        elif any(pattern.overlaps(path, anchors) for pattern in matcher.paths):
            return Likeness.MAYBE
    return Likeness.NO
