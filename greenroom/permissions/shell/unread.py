"""Words of texts that are not taken apart: too deep, too long, or not understood.

They never allow anything; but what a rule denies is to be found in them all the same.
"""

import re

__all__ = ["words_of"]

_QUOTES = re.compile(r"[\"'\\]")
_BETWEEN = re.compile(r"[\s;&|()<>`$={},!]+")


def words_of(text: str) -> tuple[str, ...]:
    """Split a text into words, whatever stands between them.

    Example:
        >>> words_of("ls;$(r'm' -rf x)")
        ('ls', 'rm', '-rf', 'x')
    """
    return tuple(word for word in _BETWEEN.split(_QUOTES.sub("", text)) if word)
