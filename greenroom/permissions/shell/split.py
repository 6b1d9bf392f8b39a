"""A command prefix or an exact command, split into words as the shell would split it."""

import re
import shlex

from greenroom.core import RuleFileError

__all__ = ["split_words"]

_ACTIVE = re.compile(r"[;&|<>()$`\n*?\[\]{}#!\\]")


def split_words(text: str) -> tuple[str, ...]:
    """Split text into words.

    Raises:
        RuleFileError: no word at all, or something that is more than plain words.
    """
    try:
        words = tuple(shlex.split(text))
    except ValueError:
        words = ()
    if not words or _ACTIVE.search(text):
        raise RuleFileError(
            f"not a plain command: {text!r}",
            hint="write its first words alone, such as: git status",
        )
    return words
