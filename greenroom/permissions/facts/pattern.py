"""Patterns for paths: `*` within a name, `**` over any depth, `{a,b}`, and three anchors."""

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, TypeAlias

from greenroom.core import RuleFileError
from greenroom.permissions.facts.glob import Glob

__all__ = ["END", "Anchors", "PathPattern", "expand_braces", "fold", "segments"]

Segments: TypeAlias = tuple[str, ...]
_Meet: TypeAlias = Callable[[str, str], bool]
MAX_LENGTH = 1024
MAX_ALTERNATIVES = 64
END = "/\0"
_EXAMPLE = "write src/** or *.md (from the workspace), /etc/** (absolute) or ~/.ssh/** (home)"


def segments(path: str) -> Segments:
    """Split an absolute path into its names; empty and `.` names are dropped."""
    return tuple([name for name in path.split("/") if name and name != "."])


def folded_segments(path: str) -> Segments:
    """Split an absolute path into its names, folded."""
    if path.isascii():
        return segments(path.lower())
    return tuple(fold(name) for name in segments(path))


def fold(text: str) -> str:
    """Fold a name as a case-insensitive disk would: composed, and without case."""
    if text.isascii():
        return text.lower()
    if len(text) > MAX_LENGTH:  # no disk can hold it, and composing may take the square of it
        return text.casefold()
    return unicodedata.normalize("NFC", text).casefold()


@dataclass(frozen=True)
class Anchors:
    """Where patterns begin: the workspace root and the home folder, split into names."""

    root: Segments
    home: Segments

    @cached_property
    def folded(self) -> "Anchors":
        """The same, folded."""
        return Anchors(
            tuple(fold(name) for name in self.root), tuple(fold(name) for name in self.home)
        )

    @cached_property
    def texts(self) -> tuple[str, str]:
        """The two as absolute paths."""
        return "/" + "/".join(self.root), "/" + "/".join(self.home)

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, root: str, home: str) -> "Anchors":
        """Split two absolute paths, which are mostly the same ones."""
        return cls(segments(root), segments(home))


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A pattern for paths, read once and matched name by name.

    Example:
        >>> pattern = PathPattern.parse("src/**/*.{py,pyi}")
        >>> pattern.matches("/w/src/a/b.py", Anchors(("w",), ("home",)))
        True
        >>> pattern.matches("/w/lib/a/b.py", Anchors(("w",), ("home",)))
        False
    """

    text: str
    anchor: Literal["root", "home", "absolute"]
    alternatives: tuple[Segments, ...]

    @classmethod
    def parse(cls, text: str) -> "PathPattern":
        """Read a pattern.

        Raises:
            RuleFileError: empty, too long, with `..`, a NUL, `~user`, or unbalanced braces.
        """
        if not text or len(text) > MAX_LENGTH or "\0" in text:
            raise RuleFileError(f"no path pattern: {text[:60]!r}", hint=_EXAMPLE)
        if text.startswith("~") and not text.startswith("~/"):
            raise RuleFileError(f"{text!r} names another user's home", hint=_EXAMPLE)
        alternatives = tuple(segments(each) for each in expand_braces(text.removeprefix("~")))
        if any(".." in each for each in alternatives):
            raise RuleFileError(f"a path pattern can't hold '..': {text!r}", hint=_EXAMPLE)
        return cls(text, _anchor(text), alternatives)

    def matches(self, path: str, anchors: Anchors, *, folder: bool = False) -> bool:
        """Match an absolute path exactly, as an allow rule does.

        With `folder` the folder before a final `/**` belongs to it, as for a search in it.
        """
        return _starts(self.alternatives, segments(path), self._start(anchors), folder=folder)

    def names(self, wanted: Segments) -> bool:
        """Tell whether these folded names stand in the pattern one after the other, as such."""
        return any(
            tuple(fold(name) for name in each[at : at + len(wanted)]) == wanted
            for each in self.alternatives
            for at in range(len(each))
        )

    def touches(self, path: str, anchors: Anchors) -> bool:
        """Match generously, as a deny rule does.

        Case does not matter, the folder before a final `/**` belongs to it, and a pattern that
        begins with `**` holds outside the workspace as well.
        """
        start = () if self.text.startswith("**") else self._start(anchors.folded)
        folded = map(_folded, self.alternatives)
        return _starts(folded, folded_segments(path), start, folder=True)

    @property
    def marks(self) -> tuple[str, ...]:
        """For each alternative a text that stands in every path which it touches; it may be empty.

        The path is folded, with `END` behind it.
        """
        return tuple(_mark(_folded(each)) for each in self.alternatives)

    def overlaps(self, path: str, anchors: Anchors) -> bool:
        """Tell whether a pattern of the shell's, absolute, may stand for a path that this one touches."""
        return self._walks_along(path, anchors, _meet)

    def is_sought(self, path: str, anchors: Anchors) -> bool:
        """Tell whether a program that looks for this pattern at any depth looks for such a path.

        It does if it spells at least half of a name: `.e*` looks for `.env`, and `*.py` does not
        look for `secrets.py`, though it may find it.
        """
        return self._walks_along(path, anchors, _seeks)

    def _walks_along(self, path: str, anchors: Anchors, meet: _Meet) -> bool:
        start = () if self.text.startswith("**") else self._start(anchors.folded)
        names = folded_segments(path)
        if not all(map(_meet, start, names)) or len(names) <= len(start):
            return False
        rest = names[len(start) :]
        return any(_overlap(_folded(each), rest, meet) for each in self.alternatives)

    def _start(self, anchors: Anchors) -> Segments:
        if self.anchor == "absolute":
            return ()
        return anchors.root if self.anchor == "root" else anchors.home


def _anchor(text: str) -> Literal["root", "home", "absolute"]:
    if text.startswith("~/"):
        return "home"
    return "absolute" if text.startswith("/") else "root"


def _starts(
    alternatives: Iterable[Segments], names: Segments, start: Segments, *, folder: bool
) -> bool:
    """Match names that begin in a folder; with `folder` that before a final `**` belongs to it."""
    if names[: len(start)] != start:
        return False
    rest = names[len(start) :]
    return any(
        _match(each, rest) or (folder and each[-1:] == ("**",) and _match(each[:-1], rest))
        for each in alternatives
    )


def _match(pattern: Segments, names: Segments) -> bool:
    """Match with two fingers: only the last `**` ever needs to be taken back."""
    at = seen = 0
    star, resume = -1, 0
    while seen < len(names):
        if at < len(pattern) and pattern[at] == "**":
            star, resume, at = at, seen, at + 1
        elif at < len(pattern) and _glob(pattern[at]).fits(names[seen]):
            at, seen = at + 1, seen + 1
        elif star >= 0:
            resume += 1
            at, seen = star + 1, resume
        else:
            return False
    # A final `**` is taken only by a name: `src/**` is what lies in src, not src itself.
    return at == len(pattern)


def _overlap(pattern: Segments, names: Segments, meet: _Meet) -> bool:
    """Walk through both at once; `**` of either stands for any number of names."""
    places = {0}
    for name in names:
        places |= {at + 1 for at in places if pattern[at : at + 1] == ("**",)}
        kept = {at for at in places if pattern[at : at + 1] == ("**",)}
        taken = {at + 1 for at in places if at < len(pattern) and meet(pattern[at], name)}
        places = kept | taken | (places if name == "**" else set())
    return any(set(pattern[at:]) <= {"**"} for at in places)


def _meet(pattern: str, glob: str) -> bool:
    """Tell whether a name may fit both: at least what stands before and behind their stars agrees."""
    if glob[:1] in ("*", "?", "[") and pattern[:1] == ".":
        return False  # the shell's stars don't stand for the first dot
    return _agree(_glob(pattern), _glob(glob) if len(glob) < MAX_LENGTH else Glob(glob))


def _agree(first: Glob, last: Glob) -> bool:
    if not last.simple:
        return True
    if first.plain:
        return last.fits(first.head)
    if last.plain:
        return first.fits(last.head)
    begins = first.head.startswith(last.head) or last.head.startswith(first.head)
    return begins and (first.tail.endswith(last.tail) or last.tail.endswith(first.tail))


def _seeks(pattern: str, glob: str) -> bool:
    wanted, given = _glob(pattern), _glob(glob) if len(glob) < MAX_LENGTH else Glob(glob)
    spelled = 2 * (len(given.head) + len(given.tail)) >= len(pattern)
    return wanted.fits(glob) or (spelled and _agree(wanted, given))


@lru_cache(maxsize=1024)
def _mark(alternative: Segments) -> str:
    """Take the longest text that is written out: a name, the beginning of one, or its end."""
    globs = [_glob(name) for name in alternative if name != "**"]
    texts = [f"/{each.head}/" if each.plain else f"/{each.head}" for each in globs]
    texts += [f"{each.tail}/" for each in globs]
    return max(texts, key=len, default="")


@lru_cache(maxsize=1024)
def _folded(alternative: Segments) -> Segments:
    return tuple(fold(name) for name in alternative)


@lru_cache(maxsize=1024)
def _glob(text: str) -> Glob:
    """Read a pattern of a bounded length once."""
    return Glob(text)


def expand_braces(text: str) -> list[str]:
    """Write out `{a,b}` groups, which may be nested.

    Raises:
        RuleFileError: a brace without its partner, or more than 64 alternatives.

    Example:
        >>> expand_braces("a/{b,c{d,e}}")
        ['a/b', 'a/cd', 'a/ce']
    """
    done: list[str] = []
    waiting = [text]
    while waiting:
        current = waiting.pop()
        closed = current.find("}")
        opened = current.rfind("{", 0, closed if closed >= 0 else len(current))
        if opened < 0 and closed < 0:
            done.append(current)
            continue
        if opened < 0 or closed < 0:
            raise RuleFileError(f"a brace without its partner in {text!r}", hint=_EXAMPLE)
        choices = current[opened + 1 : closed].split(",")
        waiting += [current[:opened] + each + current[closed + 1 :] for each in reversed(choices)]
        if len(done) + len(waiting) > MAX_ALTERNATIVES:
            raise RuleFileError(f"too many alternatives in {text!r}", hint=_EXAMPLE)
    return list(dict.fromkeys(done))
