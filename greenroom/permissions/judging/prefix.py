"""Prefixes of commands: exactly the first words for an allowance, every spelling for a denial."""

from collections.abc import Iterator, Sequence
from enum import IntEnum

from greenroom.permissions.facts.glob import read_glob
from greenroom.permissions.facts.word import Word, basename

MAX_PLACES = 16  # at which one program is looked for
# Spellings of the options that denials are usually written with.
_SPELLINGS = (
    *({"-r", "-R", "--recursive"}, {"-f", "--force"}, {"-i", "--in-place"}, {"-n", "--dry-run"}),
    *({"-o", "--output"}, {"-a", "--all"}, {"-d", "--delete"}, {"-D", "--delete"}),
)


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
    if not argv or not argv[0].static or program_name(argv[0].text) != program_name(prefix[0]):
        return Likeness.NO
    rest = argv[1:]
    flags = [each for each in prefix[1:] if is_flag(each)]
    words = [each for each in prefix[1:] if not is_flag(each)]
    if _has_words(rest, words, surely=True):
        return _has_flags(rest, flags)
    return min(Likeness(_has_words(rest, words, surely=False)), _has_flags(rest, flags))


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


def _has_flags(argv: Sequence[Word], flags: Sequence[str]) -> Likeness:
    ends = next((at for at, word in enumerate(argv) if word.text == "--"), len(argv))
    given = argv[:ends]
    wanted = [option for flag in flags for option in _single_flags(flag)]
    if all(any(gives(word.text, option) for word in given) for option in wanted):
        return Likeness.YES
    return Likeness(
        any(word.dynamic or (word.pattern and word.text[0] in "-*?[") for word in given)
    )


def _single_flags(flag: str) -> list[str]:
    """Take a cluster such as -rf apart; a word such as -exec stays whole for `gives` as well."""
    if flag.startswith("--") or len(flag) == 2 or len(flag) > 4 or not flag[1:].isalpha():
        return [flag]
    return [f"-{letter}" for letter in flag[1:]]


def gives(word: str, option: str) -> bool:
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


def stands_in(words: Sequence[str], prefix: Sequence[str]) -> bool:
    """Tell whether a command of this prefix stands anywhere among the words, in any spelling.

    A program that is named very often counts as one.

    Example:
        >>> stands_in("a b git -C x push c".split(), ["git", "push"])
        True
    """
    program = program_name(prefix[0])
    places = [at for at, word in enumerate(words) if program_name(word) == program]
    if len(places) > MAX_PLACES:
        return True
    argv = [Word(word) for word in words] if places else []
    return any(resembles(argv[at:], prefix) for at in places)
