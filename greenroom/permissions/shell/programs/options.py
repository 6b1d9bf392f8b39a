"""Options as programs read them: long ones abbreviated, short ones in clusters with their values."""

from collections.abc import Sequence
from dataclasses import dataclass

from greenroom.permissions.facts.word import Word

__all__ = ["Options", "abbreviates", "ends_options", "letter_of"]


@dataclass(frozen=True, slots=True)
class Options:
    """Short options to be careful with, those that take a value, and other careful words."""

    letters: str = ""
    values: str = ""
    words: tuple[str, ...] = ()

    def names(self, word: str) -> bool:
        """Tell whether a word is one of them, in any spelling, with its value or without."""
        name = word.partition("=")[0]
        return letter_of(word, self.letters, self.values) is not None or any(
            word.startswith(each) if each.endswith("=") else abbreviates(name, each)
            for each in self.words
        )


def abbreviates(name: str, wanted: str) -> bool:
    """Tell whether a name is this word, or a beginning of it if it is a long option."""
    return name == wanted or (len(name) > 2 and name.startswith("--") and wanted.startswith(name))


def ends_options(argv: Sequence[Word], at: int, careful: Sequence[Options]) -> bool:
    """Tell whether a `--` stands here that ends the options, and is not the value of one.

    Example:
        >>> sort = [Options(values="t")]
        >>> [ends_options([Word(each), Word("--")], 1, sort) for each in ("-r", "-rt", "--key")]
        [True, False, False]
    """
    if argv[at].text != "--" or argv[0].text.endswith("find"):
        return False  # behind it find still takes its actions
    before = argv[at - 1].text
    if before.startswith("--"):
        # The long options of git have their values in the same word, and so have these.
        return "=" in before or argv[0].text.endswith("git")
    return all(letter_of(before, each.values, each.letters) != len(before) - 1 for each in careful)


def letter_of(word: str, letters: str, values: str) -> int | None:
    """Find the first of these letters in a cluster of short options.

    What follows a letter that takes a value is that value.

    Example:
        >>> letter_of("-nrofile", "o", "k"), letter_of("-ko", "o", "k"), letter_of("--o", "o", "")
        (3, None, None)
    """
    if not letters or word[:1] != "-" or word[:2] == "--":
        return None
    for at, letter in enumerate(word[1:], 1):
        if letter in letters:
            return at
        if letter in values:
            return None
    return None
