"""What is protected of the paths that a call would write."""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from greenroom.core import PROTECTED_FILES, PROTECTED_FOLDERS, own_rules, protected_names
from greenroom.permissions.facts.fact import Command, Fact, PathUse
from greenroom.permissions.facts.pattern import Anchors, Segments, segments
from greenroom.permissions.facts.word import Word, basename
from greenroom.permissions.judging.call import Call

__all__ = [
    "protected_text",
    "protected_words",
    "protections",
    "protects",
    "writes_inside",
    "writes_own_rules",
]

# Programs whose operands are what they write. What others write can't be told by their words.
_WRITERS = frozenset(
    {"chmod", "chown", "cp", "dd", "install", "ln", "mkdir", "mv", "patch", "rm", "rmdir", "rsync"}
    | {"shred", "tee", "touch", "truncate", "unlink"}
)
# Programs that fill a folder, which these options name.
_UNPACKERS = {
    "tar": ("-C", "--directory"),
    "bsdtar": ("-C", "--directory"),
    "unzip": ("-d",),
    "cpio": ("-D", "--directory"),
}
_IN_PLACE = re.compile(r"-[A-Za-z]*i|--in-p")  # with it sed and perl write, too


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
    place = fact.place or call.place
    for at, name in _written(fact.argv):
        word = fact.argv[at]
        use = place.use("write", name, tilde=not word.quoted, guard=True)
        if isinstance(use, PathUse):
            names = tuple(each for _, _, found in protections(use, call) for each in found)
            names += _fitting(name) if word.pattern else ()
            if names:
                yield at, names


def _written(argv: Sequence[Word]) -> Iterator[tuple[int, str]]:
    """Find the names among the words of a command that it writes, as far as words tell."""
    program = basename(argv[0].text) if argv else ""
    in_place = program in ("sed", "perl") and any(_IN_PLACE.match(word.text) for word in argv[1:])
    if program in _UNPACKERS:
        yield from _folders(argv, _UNPACKERS[program])
    elif in_place or program in _WRITERS:
        for at, word in enumerate(argv[1:], start=1):
            names = {word.text, word.text.partition("=")[2]}
            yield from ((at, name) for name in names if name)


def _folders(argv: Sequence[Word], options: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Find the folders that options name, apart or attached."""
    for at, word in enumerate(argv[1:], start=1):
        if argv[at - 1].text in options:
            yield at, word.text
        for option in options:
            if word.text.startswith(option) and len(word.text) > len(option):
                yield at, word.text.removeprefix(option).removeprefix("=")


def _fitting(pattern: str) -> tuple[Segments, ...]:
    """Find the protected names that a hidden name with wildcards may stand for, as `.g*` does."""
    hidden = [each.casefold() for each in segments(pattern) if each.startswith(".")]
    known = PROTECTED_FOLDERS | PROTECTED_FILES
    return tuple((name,) for each in hidden for name in known if fnmatchcase(name, each))
