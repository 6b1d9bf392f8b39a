"""Patterns of names, such as `*.py`, matched in time that no pattern and no name can blow up."""

import fnmatch
import re
import unicodedata
from functools import cached_property, lru_cache

_WILD = re.compile(r"[*?\[\]]")
_NEGATED = re.compile(r"\[\^(\]?[^\]]*\])|(\[\]?[^\]]*\])")
_CLASS = re.compile(r"\[[:=.]")
MAX_NAME = 1024  # characters of a name that a disk can hold, and more


class Glob:
    """A pattern with `*`, `?` and `[…]`; a bracket without its partner stands for itself.

    Attributes:
        text: as it is written.
        plain: whether it stands for itself only.
        head: what every name begins with.
        tail: what every name ends with.

    Example:
        >>> Glob("*.[ch]").fits("main.c"), Glob("*.[^ch]").fits("main.c")
        (True, False)
    """

    def __init__(self, text: str) -> None:
        """Read a pattern."""
        self.text = text
        literals = _WILD.split(text)
        self.plain = len(literals) == 1
        self.head, self.tail = literals[0], literals[-1]

    def fits(self, name: str) -> bool:
        """Match a name; stars give nothing back once what follows them was found."""
        if self.plain:
            return name == self.text
        literal = name.startswith(self.head) and name.endswith(self.tail)
        return literal and self._expression.match(name) is not None

    def meets(self, other: "Glob") -> bool:
        """Tell whether a name may fit both: at least what stands before and behind their stars agrees."""
        if self.plain or other.plain:
            return self.fits(other.head) if other.plain else other.fits(self.head)
        begins = self.head.startswith(other.head) or other.head.startswith(self.head)
        return begins and (self.tail.endswith(other.tail) or other.tail.endswith(self.tail))

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        sets, bracket, rest = self.text.rpartition("]")
        given = _NEGATED.sub(lambda each: each[2] or f"[!{each[1]}", sets + bracket)
        # Behind the last set a bracket opens none, and nothing needs to look for its end.
        return re.compile(fnmatch.translate(given + rest.replace("[", "[[]")))


@lru_cache(maxsize=1024)
def read_glob(text: str) -> Glob:
    """Read a pattern once."""
    return Glob(text)


def loosened(text: str, *, quoted: bool) -> str:
    """Write a star for the sets of a name whose characters can't be told: classes, or quoted ones.

    Example:
        >>> loosened("a/x[[:digit:]][ab].c", quoted=False), loosened("[a-c]x", quoted=True)
        ('a/x*.c', '*x')
    """
    if not (_CLASS.search(text) or (quoted and "[" in text)):
        return text
    return "/".join(re.sub(r"\[.*\]", "*", name, flags=re.DOTALL) for name in text.split("/"))


def fold_path(path: str) -> str:
    """Fold each name of a path."""
    return path.lower() if path.isascii() else "/".join(map(fold, path.split("/")))


def fold(text: str) -> str:
    """Fold a name as a case-insensitive disk would: composed, and without case."""
    if text.isascii():
        return text.lower()
    if len(text) > MAX_NAME:  # no disk can hold it, and composing may take the square of it
        return text.casefold()
    return unicodedata.normalize("NFC", text).casefold()
