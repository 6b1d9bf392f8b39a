"""Spellings: whether some words are a command that was named in another way.

A program may be named by its path or in another case, and its options may stand anywhere among its
words, in clusters, abbreviated or spelled out. Doubts count as the same command.
"""

from collections.abc import Sequence

from greenroom.programs.words import basename

MAX_PLACES = 16  # where one program is looked for among the words
# Other spellings of the options that denials usually name.
_SPELLINGS = (
    *({"-r", "-R", "--recursive"}, {"-f", "--force"}, {"-i", "--in-place"}, {"-n", "--dry-run"}),
    *({"-o", "--output"}, {"-a", "--all"}, {"-d", "--delete"}, {"-D", "--delete"}),
)


def is_flag(word: str) -> bool:
    """Return whether a word is an option."""
    return len(word) > 1 and word.startswith("-")


def fold_program(program: str) -> str:
    """Name a program without its folder, in small letters."""
    return basename(program).casefold()


def resembles(argv: Sequence[str], prefix: Sequence[str]) -> bool:
    """Return whether a command begins with a prefix, in any spelling.

    The program may be named by its path or in another case; options may come before, between or
    after the words, apart or together, short or long.
    """
    if not argv or fold_program(argv[0]) != fold_program(prefix[0]):
        return False
    rest = argv[1:]
    flags = [each for each in prefix[1:] if is_flag(each)]
    words = [each for each in prefix[1:] if not is_flag(each)]
    return _has_words(rest, words) and _has_flags(rest, flags)


def _has_words(argv: Sequence[str], words: Sequence[str]) -> bool:
    """Look for the words in order, skipping options and one value of each."""
    places = {0}
    for wanted in words:
        reached, places = places, set()
        for at, word in enumerate(argv):
            if at in reached and word == wanted:
                places.add(at + 1)
            if at in reached and word.startswith(("-", "+")):
                reached.add(at + 1)
                if "=" not in word and is_flag(word):
                    reached.add(at + 2)
    return bool(places)


def _has_flags(argv: Sequence[str], flags: Sequence[str]) -> bool:
    ends = next((at for at, word in enumerate(argv) if word == "--"), len(argv))
    wanted = [option for flag in flags for option in _single_flags(flag)]
    return all(any(turns_on(word, option) for word in argv[:ends]) for option in wanted)


def _single_flags(flag: str) -> list[str]:
    """Split a cluster such as -rf; a longer word such as -exec stays whole."""
    if flag.startswith("--") or len(flag) == 2 or len(flag) > 4 or not flag[1:].isalpha():
        return [flag]
    return [f"-{letter}" for letter in flag[1:]]


def turns_on(word: str, option: str) -> bool:
    """Return whether a word turns on an option: alone, clustered, abbreviated or with a value."""
    name = word.partition("=")[0]
    letters = "" if word[:2] == "--" or word[:1] != "-" else word
    return any(
        each in (word, name)
        or (each.startswith("--") and len(name) > 3 and each.startswith(name))
        or (len(each) == 2 and each != "--" and each[1] in letters)
        for each in {option}.union(*(group for group in _SPELLINGS if option in group))
    )


def occurs_in(words: Sequence[str], prefix: Sequence[str]) -> bool:
    """Return whether a command with this prefix occurs anywhere among the words, in any spelling.

    If the program is named very often, the answer is yes without a closer look.

    Example:
        >>> occurs_in("a b git -C x push c".split(), ["git", "push"])
        True
    """
    program = fold_program(prefix[0])
    places = [at for at, word in enumerate(words) if fold_program(word) == program]
    if len(places) > MAX_PLACES:
        return True
    return any(resembles(words[at:], prefix) for at in places)
