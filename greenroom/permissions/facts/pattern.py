"""Patterns for paths: `*` within a name, `**` over any depth, `{a,b}`, and three anchors."""

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, TypeAlias

from greenroom.core import RuleFileError

__all__ = ["Anchors", "PathPattern", "expand_braces", "fold", "segments"]

Segments: TypeAlias = tuple[str, ...]
MAX_LENGTH = 1024
_WILD = re.compile(r"\*+|\?|\[[!^]?\]?[^\]]+\]")
MAX_ALTERNATIVES = 64
_EXAMPLE = "write src/** or *.md (from the workspace), /etc/** (absolute) or ~/.ssh/** (home)"


def segments(path: str) -> Segments:
    """Split an absolute path into its names; empty and `.` names are dropped."""
    return tuple(name for name in path.split("/") if name not in ("", "."))


@lru_cache(maxsize=1024)
def folded_segments(path: str) -> Segments:
    """Split an absolute path into its names, folded."""
    return segments(fold(path))


@lru_cache(maxsize=4096)
def fold(text: str) -> str:
    """Fold text as a case-insensitive disk would: composed, and without case."""
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
    def of(cls, root: str, home: str) -> "Anchors":
        """Split two absolute paths."""
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
        return self._matches(segments(path), anchors, folded=False, folder=folder)

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
        if self.text.startswith("**"):
            anchors = Anchors((), anchors.home)
        return self._matches(folded_segments(path), anchors.folded, folded=True, folder=True)

    def overlaps(self, path: str, anchors: Anchors) -> bool:
        """Tell whether a pattern of the shell's, absolute, may stand for a path that this one touches."""
        if self.text.startswith("**"):
            anchors = Anchors((), anchors.home)
        start = self._start(anchors.folded)
        names = folded_segments(path)
        if not all(map(_meet, start, names)) or len(names) <= len(start):
            return False
        return any(_overlap(each, names[len(start) :]) for each in self._folded)

    @property
    def _folded(self) -> list[Segments]:
        return [tuple(fold(name) for name in each) for each in self.alternatives]

    def _start(self, anchors: Anchors) -> Segments:
        if self.anchor == "absolute":
            return ()
        return anchors.root if self.anchor == "root" else anchors.home

    def _matches(self, names: Segments, anchors: Anchors, *, folded: bool, folder: bool) -> bool:
        start = self._start(anchors)
        if names[: len(start)] != start:
            return False
        rest = names[len(start) :]
        return any(
            _match(each, rest, folded=folded)
            or (folder and each[-1:] == ("**",) and _match(each[:-1], rest, folded=folded))
            for each in self.alternatives
        )


def _anchor(text: str) -> Literal["root", "home", "absolute"]:
    if text.startswith("~/"):
        return "home"
    return "absolute" if text.startswith("/") else "root"


def _match(pattern: Segments, names: Segments, *, folded: bool) -> bool:
    """Match with two fingers: only the last `**` ever needs to be taken back."""
    at = seen = 0
    star, resume = -1, 0
    while seen < len(names):
        if at < len(pattern) and pattern[at] == "**":
            star, resume, at = at, seen, at + 1
        elif at < len(pattern) and _name(pattern[at], folded).fullmatch(names[seen]):
            at, seen = at + 1, seen + 1
        elif star >= 0:
            resume += 1
            at, seen = star + 1, resume
        else:
            return False
    # A final `**` is taken only by a name: `src/**` is what lies in src, not src itself.
    return at == len(pattern)


def _overlap(pattern: Segments, names: Segments) -> bool:
    """Walk through both at once; `**` of either stands for any number of names."""
    places = {0}
    for name in names:
        places |= {at + 1 for at in places if pattern[at : at + 1] == ("**",)}
        kept = {at for at in places if pattern[at : at + 1] == ("**",)}
        taken = {at + 1 for at in places if at < len(pattern) and _meet(pattern[at], name)}
        places = kept | taken | (places if name == "**" else set())
    return any(set(pattern[at:]) <= {"**"} for at in places)


def _meet(pattern: str, glob: str) -> bool:
    """Tell whether a name may fit both: at least what stands before and behind their stars agrees."""
    if glob[:1] in ("*", "?", "[") and pattern[:1] == ".":
        return False  # the shell's stars don't stand for the first dot
    if not _WILD.search(pattern):
        return _name(glob, True).fullmatch(pattern) is not None
    if not _WILD.search(glob):
        return _name(pattern, True).fullmatch(glob) is not None
    first, last = _WILD.split(pattern), _WILD.split(glob)
    begins = first[0].startswith(last[0]) or last[0].startswith(first[0])
    return begins and (first[-1].endswith(last[-1]) or last[-1].endswith(first[-1]))


@lru_cache(maxsize=4096)
def _name(pattern: str, folded: bool) -> re.Pattern[str]:
    text = fold(pattern) if folded else pattern
    parts = re.split(f"({_WILD.pattern})", text)
    return re.compile("".join(_part(part) for part in parts), re.DOTALL)


def _part(part: str) -> str:
    if part and not part.strip("*"):
        return ".*"
    if part == "?":
        return "."
    if len(part) > 2 and part[0] == "[" and part[-1] == "]":
        negated = part[1] in "!^"
        inside = part[2 if negated else 1 : -1]
        kept = re.sub(r"([\\\[\]^&~|])", r"\\\1", inside)
        return f"[{'^' if negated else ''}{kept}]"
    return re.escape(part)


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
