"""What is protected of what a call would write."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from greenroom.core import PROTECTED_FILES, PROTECTED_FOLDERS, own_rules, protected_names
from greenroom.permissions.facts.fact import Command, Fact, PathUse
from greenroom.permissions.facts.pattern import Anchors, Segments, segments
from greenroom.permissions.facts.word import UNKNOWN, Word, basename
from greenroom.permissions.judging.call import Call
from greenroom.permissions.judging.operands import named_files
from greenroom.permissions.shell.programs.reading import only_prints, writes_no_named_file
from greenroom.permissions.shell.programs.wrappers import WRAPPERS, inner_start
from greenroom.permissions.shell.unread import words_of

__all__ = ["protected", "protections", "writes_inside", "writes_own_rules"]


def protections(fact: PathUse, call: Call) -> Iterator[tuple[str, Anchors, tuple[Segments, ...]]]:
    """Go through the paths of a fact, as written and followed: what is protected of each."""
    written, followed = call.anchors
    for paths, anchors in ((fact.lexical, written), (fact.real, followed)):
        for path in paths:
            names = protected_names(path, *anchors.texts) if fact.kind == "write" else ()
            yield path, anchors, names


def writes_inside(fact: PathUse, call: Call) -> bool:
    """Tell whether the fact surely writes in the workspace, and nothing that is protected."""
    return all(
        segments(path)[: len(anchors.root)] == anchors.root and not names
        for path, anchors, names in protections(fact, call)
    )


def protected(fact: Fact, call: Call) -> Mapping[int, tuple[Segments, ...]]:
    """Find what is protected of what a fact writes: of a command by its words, else under 0."""
    if isinstance(fact, PathUse):
        names = tuple(each for *_, names in protections(fact, call) for each in names)
        return {0: names} if names else {}
    if not isinstance(fact, Command):
        return {}
    if id(fact) not in call.protected:  # which holds its facts as long as it lives
        call.protected[id(fact)] = dict(_in_words(fact, call))
    return call.protected[id(fact)]


def writes_own_rules(fact: Fact, call: Call) -> bool:
    """Tell whether the fact writes what says what agents may do here."""
    return any(own_rules(name) for names in protected(fact, call).values() for name in names)


def _in_words(fact: Command, call: Call) -> Iterator[tuple[int, tuple[Segments, ...]]]:
    """Look at the words of a command that may write what they name, but not of what it runs."""
    argv = fact.argv
    if not argv or only_prints(argv) or (writes_no_named_file(argv) and not fact.cautions):
        return
    wrapper = WRAPPERS.get(basename(argv[0].text))
    inner = inner_start(argv, wrapper) if wrapper else None
    for at, word in enumerate(argv[1:inner], 1):
        parts = (Word(each) for each in words_of(word.text)) if fact.loose else ()
        uses = (
            use
            for each in (word, *parts)
            for use in named_files(each, fact.place or call.place, "write")
        )
        names = [name for use in uses for *_, each in protections(use, call) for name in each]
        if names := [*names, *_fitting(word)]:
            yield at, tuple(names)


def _fitting(word: Word) -> Iterator[Segments]:
    """Find the protected names that a hidden name with parts unknown may stand for, as `.g*` does."""
    if not word.static:
        names = segments(word.shape.replace(UNKNOWN, "*").casefold())
        hidden = [name for name in names if name.startswith(".")]
        known = PROTECTED_FOLDERS | PROTECTED_FILES
        yield from ((name,) for each in hidden for name in known if fnmatchcase(name, each))
