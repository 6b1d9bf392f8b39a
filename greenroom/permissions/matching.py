"""How far a rule is about a fact: exactly for allowances, generously for denials and questions.

`covers` is for an allowance: it has to name all of the fact. A command begins with exactly these
words, a path matches in every way it can be understood, and what is protected has to be named.
`touches` is for a denial or a
question: every spelling counts, of a program, its options, a path, a host; MAYBE means that it
    depends on
what is only known at run time.
"""

import logging
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import product

from greenroom.core import protected_names
from greenroom.permissions.call import Call, Fact, HostUse, find_protected
from greenroom.permissions.matcher import RuleMatcher
from greenroom.shell import (
    RUNNERS,
    Change,
    Command,
    PathUse,
    Unknown,
    Word,
    basename,
    extract_words,
    read_glob,
)

_logger = logging.getLogger("greenroom.permissions")
MAX_PLACES = 16  # at which one program is looked for
# Spellings of the options that denials are usually written with.
_SPELLINGS = (
    *({"-r", "-R", "--recursive"}, {"-f", "--force"}, {"-i", "--in-place"}, {"-n", "--dry-run"}),
    *({"-o", "--output"}, {"-a", "--all"}, {"-d", "--delete"}, {"-D", "--delete"}),
)


class Match(IntEnum):
    """How far a rule is about a fact."""

    NO = 0
    MAYBE = 1
    YES = 2


def meets_condition(matcher: RuleMatcher, call: Call) -> Match:
    """Ask the matcher's own condition, if it has one; MAYBE means that it failed."""
    if matcher.predicate is None:
        return Match.YES
    try:
        return Match.YES if matcher.predicate(call.tool, call.input) else Match.NO
    except Exception:
        _logger.exception("a condition of a permission rule failed; the call is asked about")
        return Match.MAYBE


def covers(matcher: RuleMatcher, fact: Fact, call: Call) -> bool:
    """Tell whether an allowance is about all of this fact; what is protected it has to name."""
    if isinstance(fact, Unknown):
        return False
    if matcher.about_calls:
        return not find_protected(fact, call)
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
    careful = [*(at for at, _ in fact.risks), *(find_protected(fact, call) if reach else ())]
    if reach and all(at < reach for at in careful):
        return True
    outer = fact.outer
    return outer is not None and _reach(matcher, outer) > fact.start


def _reach(matcher: RuleMatcher, fact: Command) -> int:
    """Say how many words of the command the matcher names; 0 if it is not about the command."""
    reaches = []
    if matcher.settings and matcher.settings != frozenset(fact.settings):
        return 0
    if matcher.prefixes:
        named = (len(each) for each in matcher.prefixes if begins_with(fact.argv, each))
        reaches.append(max(named, default=0))
    if matcher.exact:
        same = len(fact.argv) == len(matcher.exact) and begins_with(fact.argv, matcher.exact)
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


def touches(matcher: RuleMatcher, fact: Fact, call: Call) -> Match:
    """Tell whether a denial or a question may be about this fact."""
    if matcher.about_calls:
        return Match.YES
    if isinstance(fact, Command) and matcher.about_commands:
        return _touches_command(matcher, fact, call)
    if isinstance(fact, PathUse) and matcher.paths:
        return _touches_path(matcher, fact, call)
    if isinstance(fact, HostUse) and matcher.hosts:
        return Match(2 * any(each.touches(fact.host) for each in matcher.hosts))
    return Match.NO


def _touches_command(matcher: RuleMatcher, fact: Command, call: Call) -> Match:
    found = [Match.YES]
    if matcher.prefixes:
        found.append(max(_runs(fact, each) for each in matcher.prefixes))
    if matcher.exact:
        found.append(_runs_exactly(fact, matcher.exact))
    if matcher.expressions:
        hits = {each.search(text) for each in matcher.expressions for text in fact.spellings}
        found.append(Match.YES if True in hits else Match(None in hits))
    if not matcher.settings.issubset(fact.settings) and min(found):
        # The call may set the variable in another way than before the command.
        missing = matcher.settings.difference(fact.settings)
        own = {
            id(x) for x in call.facts if isinstance(x, Change) and x.command is fact and x.setting
        }
        text = "\n".join(str(each) for each in call.facts if id(each) not in own)
        found.append(Match(all(each.partition("=")[0] in text for each in missing)))
    return min(found)


def _runs(fact: Command, prefix: tuple[str, ...]) -> Match:
    """Tell whether a command of this prefix is run, or is among the words of what may run it."""
    match_ = resembles(fact.argv, prefix)
    if match_ or not fact.loose:
        return match_
    surely = 1 + (program_name(fact.argv[0].text) in RUNNERS)
    return Match(surely * occurs_in(extract_words(fact.text), prefix))


def _runs_exactly(fact: Command, wanted: tuple[str, ...]) -> Match:
    if len(wanted) == len(fact.argv):
        return resembles(fact.argv, wanted)
    return Match(any(word.split for word in fact.argv) and resembles(fact.argv, wanted[:1]) > 0)


def _touches_path(matcher: RuleMatcher, fact: PathUse, call: Call) -> Match:
    for path, anchors in product({*fact.lexical, *fact.real}, dict.fromkeys(call.anchors)):
        if any(pattern.touches(path, anchors) for pattern in matcher.paths):
            return Match.YES
    for path, anchors in product(fact.patterns, dict.fromkeys(call.anchors)):
        if fact.stars == "search":  # it may find anything, and what there is takes long to tell
            if any(pattern.may_be_found_by(path, anchors) for pattern in matcher.paths):
                return Match.YES
        elif any(pattern.overlaps(path, anchors) for pattern in matcher.paths):
            return Match.MAYBE
    return Match.NO


# Prefixes of commands.


def begins_with(argv: Sequence[Word], prefix: Sequence[str]) -> bool:
    """Tell whether the first words are known and are exactly these."""
    if len(argv) < len(prefix):
        return False
    for word, wanted in zip(argv, prefix, strict=False):
        if word.text != wanted or not word.static:
            return False
    return True


def resembles(argv: Sequence[Word], prefix: Sequence[str]) -> Match:
    """Tell whether a command is this one in any spelling.

    The program may be named by its path or in another case; options may stand between, before or
    after the words, apart or together, short or long. MAYBE means that it depends on words which
    are only known at run time.
    """
    if not argv or not argv[0].static or program_name(argv[0].text) != program_name(prefix[0]):
        return Match.NO
    rest = argv[1:]
    flags = [each for each in prefix[1:] if is_flag(each)]
    words = [each for each in prefix[1:] if not is_flag(each)]
    if _has_words(rest, words, surely=True):
        return _has_flags(rest, flags)
    return min(Match(_has_words(rest, words, surely=False)), _has_flags(rest, flags))


def is_flag(word: str) -> bool:
    """Tell whether a word is an option."""
    return len(word) > 1 and word.startswith("-")


def program_name(program: str) -> str:
    """Name a program as every spelling of it is named: without its folder and without case."""
    return basename(program).casefold()


def _has_words(argv: Sequence[Word], words: Sequence[str], *, surely: bool) -> bool:
    """Look for the words in order, stepping over options and over one value of each."""
    places = {0}
    for wanted in words:
        places = {at + 1 for at in _steps(argv, places) if _equal(argv[at], wanted, surely)}
    return bool(places)


def _steps(argv: Sequence[Word], places: set[int]) -> Iterator[int]:
    reached = set(places)
    for at in range(min(places, default=len(argv)), len(argv)):
        if at in reached:
            yield at
            word = argv[at]
            if word.text.startswith(("-", "+")) or word.dynamic:
                reached.add(at + 1)
                if "=" not in word.text and is_flag(word.text):
                    reached.add(at + 2)


def _equal(word: Word, wanted: str, surely: bool) -> bool:
    if word.static or surely:
        return word.static and word.text == wanted
    return word.dynamic or read_glob(word.text).fits(wanted)


def _has_flags(argv: Sequence[Word], flags: Sequence[str]) -> Match:
    ends = next((at for at, word in enumerate(argv) if word.text == "--"), len(argv))
    given = argv[:ends]
    wanted = [option for flag in flags for option in _single_flags(flag)]
    if all(any(turns_on(word.text, option) for word in given) for option in wanted):
        return Match.YES
    return Match(any(word.dynamic or (word.pattern and word.text[0] in "-*?[") for word in given))


def _single_flags(flag: str) -> list[str]:
    """Take a cluster such as -rf apart; a word such as -exec stays whole for `turns_on` as well."""
    if flag.startswith("--") or len(flag) == 2 or len(flag) > 4 or not flag[1:].isalpha():
        return [flag]
    return [f"-{letter}" for letter in flag[1:]]


def turns_on(word: str, option: str) -> bool:
    """Tell whether a word turns an option on: alone, in a cluster, abbreviated, with a value."""
    name = word.partition("=")[0]
    for each in {option}.union(*(group for group in _SPELLINGS if option in group)):
        if each in (word, name):
            return True
        if each.startswith("--"):
            found = len(name) > 3 and each.startswith(name)
        else:
            found = len(each) == 2 and word[:1] == "-" != word[1:2] and each[1] in word
        if found:
            return True
    return False


def occurs_in(words: Sequence[str], prefix: Sequence[str]) -> bool:
    """Tell whether a command of this prefix stands anywhere among the words, in any spelling.

    A program that is named very often counts as one.

    Example:
        >>> occurs_in("a b git -C x push c".split(), ["git", "push"])
        True
    """
    program = program_name(prefix[0])
    places = [at for at, word in enumerate(words) if program_name(word) == program]
    if len(places) > MAX_PLACES:
        return True
    argv = [Word(word) for word in words] if places else []
    return any(resembles(argv[at:], prefix) for at in places)
