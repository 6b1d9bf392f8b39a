"""What is protected of the paths that a call would write."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from greenroom.core import PROTECTED_FILES, PROTECTED_FOLDERS, own_rules, protected_names
from greenroom.permissions.facts.fact import Command, Fact, PathUse, Stars
from greenroom.permissions.facts.pattern import Anchors, Segments, segments
from greenroom.permissions.facts.word import UNKNOWN, Word, basename
from greenroom.permissions.judging.call import Call
from greenroom.permissions.judging.operands import candidates
from greenroom.permissions.shell.programs.reading import only_prints, writes_no_named_file
from greenroom.permissions.shell.programs.wrappers import WRAPPERS, inner_start

__all__ = [
    "protected_text",
    "protected_words",
    "protections",
    "protects",
    "writes_inside",
    "writes_own_rules",
]


def protections(fact: PathUse, call: Call) -> Iterator[tuple[str, Anchors, tuple[Segments, ...]]]:
    """Go through the paths of a fact, as written and followed: what is protected of each."""
    written, followed = call.anchors
    for paths, anchors in ((fact.lexical, written), (fact.real, followed)):
        for path in paths:
            names = protected_names(path, *anchors.texts) if fact.kind == "write" else ()
            yield path, anchors, names


def protects(fact: PathUse, call: Call) -> bool:
    """Tell whether something is protected of what the fact writes."""
    return any(names for _, _, names in protections(fact, call))


def writes_inside(fact: PathUse, call: Call) -> bool:
    """Tell whether the fact surely writes in the workspace, and nothing that is protected."""
    return all(
        segments(path)[: len(anchors.root)] == anchors.root and not protected
        for path, anchors, protected in protections(fact, call)
    )


def protected_text(fact: PathUse, call: Call) -> str:
    """Name what is protected of what the fact writes, or nothing."""
    found = (each for _, _, names in protections(fact, call) for each in names)
    return next(("/".join(each) for each in found), "")


def writes_own_rules(fact: Fact, call: Call) -> bool:
    """Tell whether the fact writes what says what agents may do here."""
    if isinstance(fact, Command):
        return any(any(map(own_rules, names)) for _, names in _protected(fact, call))
    if not isinstance(fact, PathUse):
        return False
    return any(any(map(own_rules, names)) for _, _, names in protections(fact, call))


def protected_words(fact: Command, call: Call) -> Iterator[int]:
    """Find the words of a command that name something protected which it writes."""
    return (at for at, _ in _protected(fact, call))


def _protected(fact: Command, call: Call) -> Iterator[tuple[int, tuple[Segments, ...]]]:
    """Find what is protected among the words of a command that may write what they name."""
    argv, place = fact.argv, fact.place or call.place
    if not argv or only_prints(argv) or (writes_no_named_file(argv) and not fact.cautions):
        return
    wrapper = WRAPPERS.get(basename(argv[0].text))
    inner = inner_start(argv, wrapper) if wrapper else None
    for at, word in enumerate(argv[1:inner], 1):
        found = dict.fromkeys(_fitting(word))
        for name in candidates(word):
            stars: Stars = "files" if word.pattern else "none"
            use = place.use("write", name, tilde=not word.quoted, guard=True, stars=stars)
            if isinstance(use, PathUse):
                found |= dict.fromkeys(
                    each for *_, names in protections(use, call) for each in names
                )
        if found:
            yield at, tuple(found)


def _fitting(word: Word) -> Iterator[Segments]:
    """Find the protected names that a hidden name with parts unknown may stand for, as `.g*` does."""
    if word.static:
        return
    hidden = [
        each.casefold() for each in segments(word.shape.replace(UNKNOWN, "*")) if each[0] == "."
    ]
    known = PROTECTED_FOLDERS | PROTECTED_FILES
    yield from ((name,) for each in hidden for name in known if fnmatchcase(name, each))
