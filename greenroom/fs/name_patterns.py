"""Patterns of names, such as `*.py`, and of paths, where `**` is any depth and `{a,b}` is either.

Matching takes a bounded time, whatever the pattern and the name.
"""

import fnmatch
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

from greenroom.core._internal import cache_short, compile_later

_WILD = compile_later(r"[*?\[\]]")
_NEGATED = compile_later(r"\[\^((?:\][^\]]*|[^\]]+)\])|(\[\]?[^\]]*\])")
_BRACE = compile_later("[{,}]")
MAX_NAME = 1024  # characters; no disk holds a longer name


class NamePattern:
    """A pattern with `*`, `?` and `[…]`.

    Brackets are a set of characters, or stand for themselves: `[id]` matches `i` and `[id]`, since
    folders are called so, and few people mean a set. With `only_sets`, only unmatched ones do.

    Attributes:
        text: the pattern as it is written.
        plain: whether it matches only itself.
        head: what every matching name begins with.
        tail: what every matching name ends with.

    Example:
        >>> NamePattern("*.[ch]").fits("main.c"), NamePattern("*.[^ch]").fits("main.c")
        (True, False)
    """

    def __init__(self, text: str, *, only_sets: bool = False) -> None:
        self.text = text
        self._only_sets = only_sets
        literals = _WILD.split(text)
        self.plain = len(literals) == 1
        self.head, self.tail = literals[0], literals[-1]

    def fits(self, name: str) -> bool:
        """Return whether the pattern matches a name, without backtracking."""
        if self.plain:
            return name == self.text
        literal = name.startswith(self.head) and name.endswith(self.tail)
        return literal and self._expression.match(name) is not None

    def meets(self, other: "NamePattern") -> bool:
        """Return whether some name may match both, by what comes before and after their stars."""
        if self.plain or other.plain:
            return self.fits(other.head) if other.plain else other.fits(self.head)
        begins = self.head.startswith(other.head) or other.head.startswith(self.head)
        return begins and (self.tail.endswith(other.tail) or other.tail.endswith(self.tail))

    def is_sought_by(self, name: str) -> bool:
        """Return whether a name is one of these, or a pattern that looks for them.

        It looks for them if it spells out at least half of the pattern: `.e*` looks for `.env`.
        """
        given = read_pattern(name)
        spelled = 2 * (len(given.head) + len(given.tail) + name.count("?")) >= len(self.text)
        return self.fits(name) or (spelled and self.meets(given))

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        sets, bracket, rest = self.text.rpartition("]")
        given = _NEGATED.sub(lambda each: each[2] or f"[!{each[1]}", sets + bracket)
        # A bracket after the last set opens none, so no search for its end is needed.
        sets_only = fnmatch.translate(given + rest.replace("[", "[[]"))
        if self._only_sets or "[" not in self.text:
            return re.compile(sets_only)
        return re.compile(f"{sets_only}|{fnmatch.translate(self.text.replace('[', '[[]'))}")


@cache_short(1_024)
def read_pattern(text: str, *, only_sets: bool = False) -> NamePattern:
    """Parse a pattern, and cache it."""
    return NamePattern(text, only_sets=only_sets)


Steps: TypeAlias = tuple[tuple[NamePattern, bool], ...]
"""The names in a path pattern, each with whether it may come at any depth."""

Fits: TypeAlias = Callable[[NamePattern, str], bool]
"""Tells whether a name matches a pattern."""

_ANYTHING = NamePattern("*")


@cache_short(1_024)
def read_names(names: tuple[str, ...]) -> Steps:
    """Parse the names in a path pattern, joining each `**` with the name after it, if any."""
    pairs = [(before, name) for before, name in pairwise(("", *names)) if name != "**"]
    steps = [(read_pattern(name), before == "**") for before, name in pairs]
    return (*steps, (_ANYTHING, True)) if names[-1:] == ("**",) else tuple(steps)


def match_names(
    wanted: Steps,
    names: Sequence[str],
    fits: Fits = NamePattern.fits,
    *,
    folder: bool,
    deep: str | None = None,
) -> bool:
    """Match the names of a path with those of a pattern, trying all ways at once.

    Args:
        wanted: the names in the pattern, from `read_names`.
        names: the names in the path.
        fits: tells whether a name matches one of the pattern.
        folder: whether a pattern with a final `**` also matches the folder before it.
        deep: a name in the path that stands for any number of names, if there is one.

    Example:
        >>> wanted = read_names(("src", "**", "*.py"))
        >>> [match_names(wanted, path.split("/"), folder=False) for path in ("src/a/b.py", "a.py")]
        [True, False]
    """
    places = {0}
    for name in names:
        if name == deep:
            for at, (glob, _) in enumerate(wanted):
                if at in places and fits(glob, name):
                    places.add(at + 1)
            continue
        before, places = places, set()
        for at in before - {len(wanted)}:
            glob, any_depth = wanted[at]
            if any_depth:
                places.add(at)
            if fits(glob, name):
                places.add(at + 1)
        if not places:
            return False
    final = folder and wanted[-1:] == ((_ANYTHING, True),)
    return len(wanted) in places or (final and len(wanted) - 1 in places)


def may_go_on(wanted: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether names may be the beginning of a longer path that a pattern matches.

    Example:
        >>> may_go_on(("src", "**", "*.py"), ("src", "a")), may_go_on(("src", "*"), ("src", "a"))
        (True, False)
    """
    for part, name in zip(wanted, names, strict=False):
        if part == "**" or not read_pattern(part).fits(name):
            return part == "**"
    return len(names) < len(wanted)


@cache_short(1_024)
def find_longest_text(names: tuple[str, ...]) -> str:
    """Find the longest text in a path pattern: a name, or the beginning or end of one.

    It occurs in every path that matches, with a slash before and behind each name.

    Example:
        >>> find_longest_text(("**", "secrets", "*.pem"))
        '/secrets/'
    """
    globs = [read_pattern(name) for name in names if name != "**"]
    texts = [f"/{each.head}/" if each.plain else f"/{each.head}" for each in globs]
    texts += [f"{each.tail}/" for each in globs]
    return max(texts, key=len, default="")


def expand_braces(text: str, *, most: int) -> list[str]:
    """Expand `{a,b}`, also nested; braces without a comma or a partner are left alone.

    Raises:
        ValueError: there are more than `most` alternatives.

    Example:
        >>> expand_braces("{a,b{c,d}}.x{y}", most=3)
        ['a.x{y}', 'bc.x{y}', 'bd.x{y}']
    """
    waiting, done = [text], list[str]()
    while waiting:
        current = waiting.pop()
        edges = _find_braces(current)
        if not edges:
            done.append(current)
            continue
        choices = [current[left + 1 : right] for left, right in pairwise(edges)]
        start, end = current[: edges[0]], current[edges[-1] + 1 :]
        waiting += [f"{start}{choice}{end}" for choice in reversed(choices)]
        if len(waiting) + len(done) > most:
            raise ValueError(f"more than {most} alternatives")
    return done


def _find_braces(text: str) -> list[int]:
    """Find the first braces with a comma between them, and return the positions of all of these."""
    first, opened = list[int](), list[list[int]]()
    for found in _BRACE.finditer(text):
        if found[0] == "{":
            opened.append([found.start()])
        elif opened:
            opened[-1].append(found.start())
            if found[0] == "}":
                edges = opened.pop()
                first = min(first or edges, edges) if len(edges) > 2 else first
    return first


def split_path(path: str) -> tuple[str, ...]:
    """Split an absolute path into its names, dropping empty ones and `.`."""
    return tuple([name for name in path.split("/") if name and name != "."])


def fold_path(path: str) -> str:
    """Case-fold each name in a path."""
    return path.lower() if path.isascii() else "/".join(map(fold, path.split("/")))


@cache_short(1_024)
def fold_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Case-fold the names in a path or in a path pattern."""
    return tuple(map(fold, names))


def fold(text: str) -> str:
    """Case-fold and normalize a name, as a case-insensitive disk does."""
    if text.isascii():
        return text.lower()
    if len(text) > MAX_NAME:  # no disk can hold it, and to normalize it may take quadratic time
        return text.casefold()
    return unicodedata.normalize("NFC", text).casefold()
