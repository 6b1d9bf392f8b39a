"""Words that may turn out to be an option which the text does not show.

`sort $(cat list)` writes a file if the list begins with `-o`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from greenroom.permissions.facts.word import Opening, Word, basename
from greenroom.permissions.shell.bindings import Bindings
from greenroom.permissions.shell.options import Options, letter_of

__all__ = ["unseen_options"]

Cautions: TypeAlias = Sequence[tuple[int, str]]
_TWO_FILES = frozenset({"uniq", "xxd"})
_FIND_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FIND_VALUES = re.compile(
    r"-(?:i?(?:name|path|wholename|regex|lname)|x?type|[amcBf]?newer\w*|size|[acm](?:time|min)|user"
    r"|group|uid|gid|perm|links|inum|(?:max|min)depth|regextype|printf|fstype|samefile|used)"
)
_LONG_VALUES = frozenset(
    ("--message", "--author", "--date", "--grep", "--since", "--until", "--after", "--before")
)
_VARIABLE = re.compile(r"\$(?:\w+|\{\w+\})")


def unseen_options(
    argv: Sequence[Word],
    careful: Sequence[Options],
    bindings: Bindings,
    known: Callable[[Sequence[Word]], Cautions],
) -> Iterator[tuple[int, str]]:
    """Find the words that may become one of a program's careful options.

    Args:
        argv: the program and its words.
        careful: its options to be careful with.
        bindings: what variables may hold.
        known: finds the careful words among those that are to be seen.
    """
    name = basename(argv[0].text)
    for at, word in enumerate(argv[1:], 1):
        if word.text == "--":
            return
        opening = word.opening
        if opening is None or (not word.split and _is_value(argv, at, name, careful)):
            continue
        if name in _TWO_FILES and word.split and not _is_unset(opening, bindings):
            yield at, f"{word.text[:40]} may be two files, of which {name} writes the second"
        if name == "printf" and (at > 1 or len(argv) == 2):
            continue
        if name in ("test", "[") and not _is_test_of_two(argv, at):
            continue
        if _may_be_careful(word, opening, argv[: min(at, 2)], careful, bindings, known):
            yield at, f"{word.text[:40]} may turn out to be an option that lets {name} do more"


def _is_value(argv: Sequence[Word], at: int, name: str, careful: Sequence[Options]) -> bool:
    """Tell whether the word before takes this one as its value."""
    before = argv[at - 1].text
    if name == "find":
        return _FIND_VALUES.fullmatch(before) is not None
    if before in _LONG_VALUES:
        return name == "git"
    return any(letter_of(before, each.values, each.letters) == len(before) - 1 for each in careful)


def _is_test_of_two(argv: Sequence[Word], at: int) -> bool:
    """Tell whether a test's word may be an operator whose operand is evaluated."""
    more = argv[at + 1] if at + 1 < len(argv) else None
    return argv[at].split or (more is not None and (more.dynamic or "[" in more.text))


def _may_be_careful(
    word: Word,
    opening: Opening,
    before: Sequence[Word],
    careful: Sequence[Options],
    bindings: Bindings,
    known: Callable[[Sequence[Word]], Cautions],
) -> bool:
    if opening.text.startswith("-"):
        return _may_continue(word, opening, careful, bindings)
    if opening.text and not word.split:
        return False
    if opening.printed or (opening.dash and _may_vanish(opening, bindings)):
        return True
    options = bindings.options(opening.names)
    if options is None or (options and not opening.whole):
        return True
    return any(
        option in _FIND_ACTIONS
        or any(at == len(before) for at, _ in known((*before, Word(option))))
        for option in options
    )


def _is_unset(opening: Opening, bindings: Bindings) -> bool:
    return bool(opening.names) and not any(bindings.is_set(name) for name in opening.names)


def _may_vanish(opening: Opening, bindings: Bindings) -> bool:
    return all(bindings.may_be_empty(name) for name in opening.names)


def _may_continue(
    word: Word, opening: Opening, careful: Sequence[Options], bindings: Bindings
) -> bool:
    """Tell whether what begins as an option may go on as one to be careful with."""
    begun = opening.text
    printed = "$(" in word.text or "`" in word.text
    if not printed and not any(bindings.is_set(name) for name in _named(word.text)):
        return any(each.names(_VARIABLE.sub("", word.text)) for each in careful)
    if begun.startswith("--"):
        if "=" in begun:
            return False
        return any(option.startswith(begun) for each in careful for option in each.words)
    if any(letter_of(begun, each.values, each.letters) is not None for each in careful):
        # It is the value of an option; behind a blank in it an option may stand.
        return word.split and (opening.printed or bindings.options(opening.names) != frozenset())
    return True


def _named(text: str) -> list[str]:
    return [found.strip("${}") for found in _VARIABLE.findall(text)]
