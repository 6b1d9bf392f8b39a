"""Prefixes of commands: exactly the first words for an allowance, every spelling for a denial."""

from collections.abc import Sequence
from enum import IntEnum

from greenroom.permissions.facts.glob import read_glob
from greenroom.permissions.facts.word import Word, basename

__all__ = [
    "Likeness",
    "begins",
    "gives",
    "is_flag",
    "program_name",
    "resembles",
    "single_flags",
]

# Long names of the short options that denials are usually written with.
_LONG = {
    "r": "--recursive",
    "R": "--recursive",
    "f": "--force",
    "i": "--in-place",
    "n": "--dry-run",
    "o": "--output",
    "a": "--all",
    "d": "--delete",
    "D": "--delete",
}


class Likeness(IntEnum):
    """How far a command resembles a denied one."""

    NO = 0
    MAYBE = 1
    YES = 2


def begins(argv: Sequence[Word], prefix: Sequence[str]) -> bool:
    """Tell whether the first words are known and are exactly these."""
    if len(argv) < len(prefix):
        return False
    for word, wanted in zip(argv, prefix, strict=False):
        if word.text != wanted or not word.static:
            return False
    return True


def resembles(argv: Sequence[Word], prefix: Sequence[str]) -> Likeness:
    """Tell whether a command is this one in any spelling.

    The program may be named by its path or in another case; options may stand between, before or
    after the words, apart or together, short or long. MAYBE means that it depends on words which
    are only known at run time.
    """
    if not argv or not _same_program(argv[0], prefix[0]):
        return Likeness.NO
    rest = argv[1:]
    flags = [each for each in prefix[1:] if is_flag(each)]
    words = [each for each in prefix[1:] if not is_flag(each)]
    return min(_has_words(rest, words), _has_flags(rest, flags))


def is_flag(word: str) -> bool:
    """Tell whether a word is an option."""
    return len(word) > 1 and word.startswith("-")


def _same_program(word: Word, wanted: str) -> bool:
    if not word.static:
        return False
    if word.text == wanted:
        return True
    # A rule may name a program by its path; a command may name it by another.
    return program_name(word.text) == program_name(wanted)


def program_name(program: str) -> str:
    """Name a program as every spelling of it is named: without its folder and without case."""
    return basename(program).casefold()


def _has_words(argv: Sequence[Word], words: Sequence[str]) -> Likeness:
    """Look for the words in order, stepping over options and over one value of each."""
    places = {0: Likeness.YES}
    for wanted in words:
        places = _steps(argv, places, wanted)
    return max(places.values(), default=Likeness.NO)


def _steps(argv: Sequence[Word], places: dict[int, Likeness], wanted: str) -> dict[int, Likeness]:
    found: dict[int, Likeness] = {}
    open_places = dict(places)
    for at in range(min(places, default=len(argv)), len(argv)):
        if at not in open_places:
            continue
        likeness, word = open_places[at], argv[at]
        equal = _equal(word, wanted)
        if equal:
            found[at + 1] = max(found.get(at + 1, Likeness.NO), min(likeness, equal))
        if word.text.startswith(("-", "+")) or word.dynamic:
            open_places.setdefault(at + 1, likeness)
            if "=" not in word.text and is_flag(word.text):
                open_places.setdefault(at + 2, likeness)
    return found


def _equal(word: Word, wanted: str) -> Likeness:
    if word.static:
        return Likeness.YES if word.text == wanted else Likeness.NO
    if word.dynamic:
        return Likeness.MAYBE
    return Likeness.MAYBE if read_glob(word.text).fits(wanted) else Likeness.NO


def _has_flags(argv: Sequence[Word], flags: Sequence[str]) -> Likeness:
    wanted = [option for flag in flags for option in single_flags(flag)]
    if not wanted:
        return Likeness.YES
    ends = next((at for at, word in enumerate(argv) if word.text == "--"), len(argv))
    given = argv[:ends]
    if all(any(gives(word.text, option) for word in given) for option in wanted):
        return Likeness.YES
    unsure = any(word.dynamic or (word.pattern and word.text[:1] in "-*?[") for word in given)
    return Likeness.MAYBE if unsure else Likeness.NO


def single_flags(flag: str) -> list[str]:
    """Take a cluster such as -rf apart; a word such as -exec stays whole for `gives` as well."""
    if flag.startswith("--") or len(flag) == 2 or len(flag) > 4 or not flag[1:].isalpha():
        return [flag]
    return [f"-{letter}" for letter in flag[1:]]


def gives(word: str, option: str) -> bool:
    """Tell whether a word turns an option on: alone, in a cluster, abbreviated, with a value."""
    if word == option or word.startswith(f"{option}="):
        return True
    if option.startswith("--"):
        short = {long: letter for letter, long in _LONG.items()}.get(option)
        return _abbreviates(word, option) or bool(short and gives(word, f"-{short}"))
    if len(option) != 2:
        return False
    letter = option[1]
    if word.startswith("--"):
        return letter in _LONG and _abbreviates(word, _LONG[letter])
    same = {letter, letter.swapcase()} if letter in "rR" else {letter}
    return word.startswith("-") and bool(same & set(word[1:]))


def _abbreviates(word: str, option: str) -> bool:
    name = word.partition("=")[0]
    return len(name) > 3 and option.startswith(name)
