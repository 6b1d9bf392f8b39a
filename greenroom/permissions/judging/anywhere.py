"""A denied command anywhere in a row of words, where it can't be told which ones begin a command."""

from collections.abc import Sequence

from greenroom.permissions.judging.prefix import gives, is_flag, program_name, single_flags

__all__ = ["stands_in"]


def stands_in(words: Sequence[str], prefix: Sequence[str]) -> bool:
    """Tell whether a command of this prefix stands among the words, in any spelling.

    It goes from the last word to the first, so it takes one look at each.

    Example:
        >>> stands_in("a b git -C x push c".split(), ["git", "push"])
        True
    """
    program = program_name(prefix[0])
    flags = {option for each in prefix[1:] if is_flag(each) for option in single_flags(each)}
    plain = [each for each in prefix[1:] if not is_flag(each)]
    missing = set(flags)
    # For each beginning of `plain`: whether the rest of it follows here, or one word further on.
    here = [not plain[at:] for at in range(len(plain) + 1)]
    behind = list(here)
    for word in reversed(words):
        if program_name(word) == program and here[0] and not missing:
            return True
        here, behind = _before(word, plain, here, behind), here
        missing = (
            set(flags) if word == "--" else {each for each in missing if not gives(word, each)}
        )
    return False


def _before(word: str, plain: Sequence[str], here: list[bool], behind: list[bool]) -> list[bool]:
    """Say which rests of `plain` follow if this word comes before; options may stand between."""
    option = word.startswith(("-", "+"))
    valued = is_flag(word) and "=" not in word
    return [
        at == len(plain)
        or (word == plain[at] and here[at + 1])
        or (option and here[at])
        or (valued and behind[at])
        for at in range(len(plain) + 1)
    ]
