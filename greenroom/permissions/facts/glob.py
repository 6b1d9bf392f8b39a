"""Patterns of names, such as `*.py`, matched in time that no pattern and no name can blow up."""

import re
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

__all__ = ["Glob", "loosened"]

_MAY_BE_WILD = re.compile(r"[*?\[]")
_CLASSES = ("[:", "[=", "[.")


class _Set(NamedTuple):
    """One of these characters, or none of them."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool


# `*`, `?`, any other character for itself, or a set.
_Part: TypeAlias = str | _Set


class Glob:
    """A pattern with `*`, `?` and `[…]`; a bracket without its partner stands for itself.

    Attributes:
        plain: whether it stands for itself only.
        head: what every name begins with.
        tail: what every name ends with.
        simple: whether it is surely understood: it holds no class such as `[[:alpha:]]`.

    Example:
        >>> Glob("*.[ch]").fits("main.c"), Glob("*.[!ch]").fits("main.c")
        (True, False)
    """

    def __init__(self, text: str) -> None:
        """Read a pattern."""
        self._text = text
        self.simple = "[" not in text or not any(each in text for each in _CLASSES)
        if not _MAY_BE_WILD.search(text):
            self.plain, self.head, self.tail = True, text, text
            return
        self._parts = list(_parts(text))
        wild = [at for at, part in enumerate(self._parts) if _is_wild(part)]
        self._one_star = len(wild) == 1 and self._parts[wild[0]] == "*"
        self.plain = not wild
        self.head = text if self.plain else text[: wild[0]]
        self.tail = text if self.plain else text[len(text) - (len(self._parts) - 1 - wild[-1]) :]

    def fits(self, name: str) -> bool:
        """Match with two fingers: only the last star ever needs to be taken back."""
        if self.plain:
            return name == self._text
        if not (name.startswith(self.head) and name.endswith(self.tail)):
            return False
        if self._one_star:
            return len(name) >= len(self.head) + len(self.tail)
        at = seen = 0
        star, resume = -1, 0
        while seen < len(name):
            part = self._parts[at] if at < len(self._parts) else ""
            if part == "*":
                star, resume, at = at, seen, at + 1
            elif part and _accepts(part, name[seen]):
                at, seen = at + 1, seen + 1
            elif star >= 0:
                resume += 1
                at, seen = star + 1, resume
            else:
                return False
        return all(part == "*" for part in self._parts[at:])


def loosened(text: str, *, quoted: bool) -> str:
    """Write a star for the sets of a name whose characters can't be told: classes, or quoted ones.

    Example:
        >>> loosened("a/x[[:digit:]][ab].c", quoted=False), loosened("[a-c]x", quoted=True)
        ('a/x*.c', '*x')
    """
    if "[" not in text or not (quoted or any(each in text for each in _CLASSES)):
        return text
    return "/".join(map(_without_sets, text.split("/")))


def _without_sets(name: str) -> str:
    begin, end = name.find("["), name.rfind("]")
    return f"{name[:begin]}*{name[end + 1 :]}" if 0 <= begin < end else name


def _parts(text: str) -> Iterator[_Part]:
    at, last = 0, text.rfind("]")
    while at < len(text):
        if text[at] == "[" and at < last:
            found, at = _set(text, at)
            yield found
            continue
        if text[at : at + 2] != "**":  # two stars say no more than one
            yield text[at]
        at += 1


def _set(text: str, start: int) -> tuple[_Part, int]:
    """Read a set; return it, and where it ends."""
    begin = start + 1
    negated = text[begin : begin + 1] in ("!", "^")
    begin += negated
    end = text.find("]", begin + 1)  # one that comes first stands for itself
    if end < 0:
        return "[", start + 1
    ranges: list[tuple[str, str]] = []
    at = begin
    while at < end:
        wide = text[at + 1 : at + 2] == "-" and at + 2 < end
        ranges.append((text[at], text[at + 2] if wide else text[at]))
        at += 3 if wide else 1
    return _Set(tuple(ranges), negated), end + 1


def _is_wild(part: _Part) -> bool:
    return isinstance(part, _Set) or part in ("*", "?")


def _accepts(part: _Part, char: str) -> bool:
    if isinstance(part, str):
        return part in ("?", char)
    return any(low <= char <= high for low, high in part.ranges) is not part.negated
