"""Words that may turn out to be an option which the text does not show.

`sort $(cat list)` writes a file if the list begins with `-o`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from greenroom.permissions.facts.word import Opening, Word, basename
from greenroom.permissions.shell.programs.options import Options, ends_options, letter_of
from greenroom.permissions.shell.variables.bindings import Bindings

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
_DEFAULT = re.compile(r"\$\{[A-Za-z]\w*:?-(\w+)\}")
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
    values = _values(argv, name, careful)
    for at, word in enumerate(argv[1:], 1):
        if ends_options(argv, at, careful):
            return
        opening = word.opening
        if opening is None or at in values or _is_only_text(argv, at, name):
            continue
        if name in _TWO_FILES and word.split and not _is_unset(opening, bindings):
            yield at, f"{word.text[:40]} may be two files, of which {name} writes the second"
        elif _may_be_careful(word, opening, argv[: min(at, 2)], careful, bindings, known):
            yield at, f"{word.text[:40]} may turn out to be an option that lets {name} do more"


def _values(argv: Sequence[Word], name: str, careful: Sequence[Options]) -> set[int]:
    """Find the words that surely are values of the options before them."""
    values: set[int] = set()
    takes = False
    for at, word in enumerate(argv[1:], 1):
        if takes and word.split:
            break  # it may be nothing, and then the next word is the value
        if takes:
            values.add(at)
        takes = not takes and _takes_value(word.text, name, careful)
    return values


def _takes_value(option: str, name: str, careful: Sequence[Options]) -> bool:
    if name == "find":
        return _FIND_VALUES.fullmatch(option) is not None
    if option in _LONG_VALUES:
        return name == "git"
    return any(letter_of(option, each.values, each.letters) == len(option) - 1 for each in careful)


def _is_only_text(argv: Sequence[Word], at: int, name: str) -> bool:
    """Tell whether a word is text in any case: of printf, or in a test of other words."""
    if name == "printf":
        return at > 1 or len(argv) == 2
    return name in ("test", "[") and not _is_test_of_two(argv, at)


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
    named = [found.strip("${}") for found in _VARIABLE.findall(word.text)]
    text = _DEFAULT.sub(r"\1", _VARIABLE.sub("", word.text))
    told = not opening.unsure and "$" not in text and "`" not in text
    if told and not any(map(bindings.is_set, named)):
        return any(each.names(text) for each in careful)
    if word.split and (opening.printed or bindings.options(opening.names) != frozenset()):
        return True  # behind a blank in it an option may stand
    if begun.startswith("--"):
        return "=" not in begun and any(
            option.startswith(begun) for each in careful for option in each.words
        )
    # Behind a letter that takes a value comes only that value.
    return all(letter_of(begun, each.values, each.letters) is None for each in careful)
