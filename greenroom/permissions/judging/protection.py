"""What is protected of what a call would write."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from greenroom.core import PROTECTED_FILES, PROTECTED_FOLDERS, own_rules, protected_names
from greenroom.permissions.facts.fact import Command, Fact, PathUse
from greenroom.permissions.facts.pattern import Segments, segments
from greenroom.permissions.facts.word import UNKNOWN, Word, words_of
from greenroom.permissions.judging.call import Call
from greenroom.permissions.judging.operands import named_files


def protected(fact: Fact, call: Call) -> Mapping[int, tuple[Segments, ...]]:
    """Find what is protected of what a fact writes: of a command by its words, else under 0."""
    if isinstance(fact, PathUse) and fact.kind == "write":
        names = tuple(_names(fact, call))
        return {0: names} if names else {}
    if not isinstance(fact, Command) or fact.extent != "any":
        return {}
    if id(fact) not in call.protected:  # which holds its facts as long as it lives
        call.protected[id(fact)] = dict(_in_words(fact, call))
    return call.protected[id(fact)]


def writes_inside(fact: PathUse, call: Call) -> bool:
    """Tell whether the fact surely writes in the workspace, and nothing that is protected."""
    return call.has(fact) and not any(_names(fact, call))


def writes_own_rules(fact: Fact, call: Call) -> bool:
    """Tell whether the fact writes what says what agents may do here."""
    return any(own_rules(name) for names in protected(fact, call).values() for name in names)


def _names(use: PathUse, call: Call) -> Iterator[Segments]:
    for path, anchors in call.paths(use):
        yield from protected_names(path, *anchors.texts)


def _in_words(fact: Command, call: Call) -> Iterator[tuple[int, tuple[Segments, ...]]]:
    """Look at the words of a command that may write what they name, but not of what it runs."""
    for at, word in enumerate(fact.argv[1 : fact.inner], 1):
        parts = map(Word, words_of(word.text)) if fact.loose else ()  # which it may run
        uses = (use for each in (word, *parts) for use in named_files(each, fact.place, call))
        if names := (*(name for use in uses for name in _names(use, call)), *_fitting(word)):
            yield at, names


def _fitting(word: Word) -> Iterator[Segments]:
    """Find the protected names that a hidden name with parts unknown may stand for, as `.g*` does."""
    if not word.static:
        names = segments(word.shape.replace(UNKNOWN, "*").casefold())
        hidden = [name for name in names if name.startswith(".")]
        known = PROTECTED_FOLDERS | PROTECTED_FILES
        yield from ((name,) for each in hidden for name in known if fnmatchcase(name, each))
