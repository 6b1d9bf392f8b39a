"""Patterns for paths: `*` within a name, `**` over any depth, `{a,b}`, and three anchors."""

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TypeAlias

from greenroom.core import RuleFileError
from greenroom.permissions.facts.glob import Glob, read_glob

Segments: TypeAlias = tuple[str, ...]
_Fits: TypeAlias = Callable[[Glob, str], bool]
MAX_LENGTH = 1024
MAX_ALTERNATIVES = 64
END = "/\0"
_EXAMPLE = "write src/** or *.md (from the workspace), /etc/** (absolute) or ~/.ssh/** (home)"


def segments(path: str) -> Segments:
    """Split an absolute path into its names; empty and `.` names are dropped."""
    return tuple([name for name in path.split("/") if name and name != "."])


def fold_path(path: str) -> str:
    """Fold each name of a path."""
    return path.lower() if path.isascii() else "/".join(map(fold, path.split("/")))


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
        return Anchors(_folded(self.root), _folded(self.home))

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
        return cls(text, alternatives)

    def matches(self, path: str, anchors: Anchors, *, folder: bool = False) -> bool:
        """Match an absolute path exactly, as an allow rule does.

        With `folder` the folder before a final `/**` belongs to it, as for a search in it.
        """
        start = self._start(anchors)
        return _begin(self.alternatives, segments(path), start, folder=folder)

    def touches(self, path: str, anchors: Anchors) -> bool:
        """Match generously, as a deny rule does.

        Case does not matter, the folder before a final `/**` belongs to it, and a pattern that
        begins with `**` holds outside the workspace as well.
        """
        folded = map(_folded, self.alternatives)
        start = self._generous_start(anchors)
        return _begin(folded, segments(fold_path(path)), start, folder=True)

    def overlaps(self, path: str, anchors: Anchors) -> bool:
        """Tell whether a pattern of the shell's, absolute, may stand for a path that this one touches."""
        return self._meets(path, anchors, _meet)

    def is_sought(self, path: str, anchors: Anchors) -> bool:
        """Tell whether a program that looks for this pattern at any depth looks for such a path.

        It does if it spells at least half of a name: `.e*` looks for `.env`, and `*.py` does not
        look for `secrets.py`, though it may find it.
        """
        return self._meets(path, anchors, _seek)

    def names(self, wanted: Segments) -> bool:
        """Tell whether these folded names stand in the pattern one after the other, as such."""
        return any(
            _folded(each)[at : at + len(wanted)] == wanted
            for each in self.alternatives
            for at in range(len(each))
        )

    @property
    def marks(self) -> tuple[str, ...]:
        """For each alternative a text that stands in every path which it touches; it may be empty.

        The path is folded, with `END` behind it.
        """
        return tuple(_mark(_folded(each)) for each in self.alternatives)

    def _meets(self, path: str, anchors: Anchors, fits: _Fits) -> bool:
        start, names = self._generous_start(anchors), segments(fold_path(path))
        begins = [read_glob(name).fits(each) for each, name in zip(start, names, strict=False)]
        return begins.count(True) == len(start) and any(
            _walk(_steps(_folded(each)), names[len(start) :], fits, folder=True, deep="**")
            for each in self.alternatives
        )

    def _generous_start(self, anchors: Anchors) -> Segments:
        return () if self.text.startswith("**") else self._start(anchors.folded)

    def _start(self, anchors: Anchors) -> Segments:
        if self.text.startswith("/"):
            return ()
        return anchors.home if self.text.startswith("~") else anchors.root


# A name, and whether it comes at any depth.
_Steps: TypeAlias = tuple[tuple[Glob, bool], ...]
_ANYTHING = Glob("*")


@lru_cache(maxsize=1024)
def _steps(names: Segments) -> _Steps:
    """Join each `**` with the name behind it; a final one is any name at any depth."""
    steps = [
        (read_glob(name), before == "**") for before, name in pairwise(("", *names)) if name != "**"
    ]
    return (*steps, (_ANYTHING, True)) if names[-1:] == ("**",) else tuple(steps)


def _begin(
    alternatives: Iterable[Segments], names: Segments, start: Segments, *, folder: bool
) -> bool:
    """Match names that begin in a folder."""
    rest = names[len(start) :]
    return names[: len(start)] == start and any(
        _walk(_steps(each), rest, Glob.fits, folder=folder) for each in alternatives
    )


def _walk(
    steps: _Steps, names: Segments, fits: _Fits, *, folder: bool, deep: str | None = None
) -> bool:
    """Take the steps along the names, in every way at once; `deep` is any number of names.

    With `folder` the folder before a final `**` belongs to it.
    """
    places = {0}
    for name in names:
        if name == deep:
            for at, (glob, _) in enumerate(steps):
                if at in places and fits(glob, name):
                    places.add(at + 1)
            continue
        before, places = places, set()
        for at in before - {len(steps)}:
            glob, any_depth = steps[at]
            if any_depth:
                places.add(at)
            if fits(glob, name):
                places.add(at + 1)
        if not places:
            return False
    final = folder and steps[-1:] == ((_ANYTHING, True),)
    return len(steps) in places or (final and len(steps) - 1 in places)


def _meet(wanted: Glob, name: str) -> bool:
    """Tell whether a name may fit both; the shell's stars don't stand for the first dot."""
    hidden = wanted.head.startswith(".") and name[:1] in ("*", "?", "[")
    return not hidden and wanted.meets(read_glob(name))


def _seek(wanted: Glob, name: str) -> bool:
    given = read_glob(name)
    spelled = 2 * (len(given.head) + len(given.tail) + name.count("?")) >= len(wanted.text)
    return wanted.fits(name) or (spelled and wanted.meets(given))


@lru_cache(maxsize=1024)
def _mark(alternative: Segments) -> str:
    """Take the longest text that is written out: a name, the beginning of one, or its end."""
    globs = [read_glob(name) for name in alternative if name != "**"]
    texts = [f"/{each.head}/" if each.plain else f"/{each.head}" for each in globs]
    texts += [f"{each.tail}/" for each in globs]
    return max(texts, key=len, default="")


@lru_cache(maxsize=1024)
def _folded(alternative: Segments) -> Segments:
    return tuple(fold(name) for name in alternative)


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
