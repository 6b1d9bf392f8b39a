"""What is protected of the paths that a call would write."""

import re
from collections.abc import Iterator

from greenroom.core import own_rules, protected_names
from greenroom.permissions.facts.fact import Command, PathUse
from greenroom.permissions.facts.pattern import Anchors, Segments
from greenroom.permissions.facts.word import Word, basename
from greenroom.permissions.judging.call import Call

__all__ = [
    "protected_text",
    "protected_words",
    "protections",
    "protects",
    "protects_own_rules",
]

# Programs whose operands are what they write. What others write can't be told by their words.
_WRITERS = frozenset(
    {"chmod", "chown", "cp", "dd", "install", "ln", "mkdir", "mv", "patch", "rm", "rmdir", "rsync"}
    | {"shred", "tee", "touch", "truncate", "unlink"}
)
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


def protects_own_rules(fact: PathUse, call: Call) -> bool:
    """Tell whether the fact writes what says what agents may do here."""
    return any(any(map(own_rules, names)) for _, _, names in protections(fact, call))


def protected_text(fact: PathUse, call: Call) -> str:
    """Name what is protected of what the fact writes, or nothing."""
    found = (each for _, _, names in protections(fact, call) for each in names)
    return next(("/".join(each) for each in found), "")


def protected_words(fact: Command, call: Call) -> Iterator[int]:
    """Find the words of a command that name something protected which it writes."""
    if not _writes(fact.argv):
        return
    place = fact.place or call.place
    for at, word in enumerate(fact.argv[1:], start=1):
        for name in {word.text, word.text.partition("=")[2]} - {""}:
            use = place.use("write", name, tilde=not word.quoted, guard=True)
            if isinstance(use, PathUse) and protects(use, call):
                yield at


def _writes(argv: tuple[Word, ...]) -> bool:
    program = basename(argv[0].text) if argv else ""
    if program in ("sed", "perl"):
        return any(_IN_PLACE.match(word.text) for word in argv[1:])
    return program in _WRITERS
