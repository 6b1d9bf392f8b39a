"""What patterns of the shell's stand for on this disk, each folder listed once within one check."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TypeAlias

from greenroom.permissions.facts.glob import Glob
from greenroom.permissions.facts.pattern import END, fold, folded_segments

__all__ = ["Fitting", "Folders"]

MAX_LOOKUPS = 50_000  # names that are compared within one check, as often as they are


@dataclass(frozen=True)
class Fitting:
    """The files that patterns stand for at present.

    Attributes:
        paths: where they lie.
        linked: those of them that a link leads to, or that are one.
        told: whether there are surely no others.
        crowded: whether there were more names than are compared.
    """

    paths: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()
    told: bool = False
    crowded: bool = False

    @cached_property
    def _folded(self) -> tuple[str, ...]:
        return tuple(f"/{'/'.join(folded_segments(path))}{END}" for path in self.paths)

    @cached_property
    def _text(self) -> str:
        return "".join(self._folded)

    def with_any(self, marks: Iterable[str]) -> list[str]:
        """Find the paths in which one of these texts stands, see `PathPattern.marks`."""
        here = [mark for mark in marks if mark in self._text]  # one look at all of them together
        if not here:
            return []
        folded = zip(self.paths, self._folded, strict=True)
        return [path for path, text in folded if any(mark in text for mark in here)]

    @classmethod
    def of_all(cls, each: Sequence["Fitting"], *, told: bool) -> "Fitting":
        """Put several together; they tell all only if every one of them does."""
        return cls(
            tuple({path: None for one in each for path in one.paths}),
            tuple({path: None for one in each for path in one.linked}),
            told=told and all(one.told for one in each),
            crowded=any(one.crowded for one in each),
        )


# A path, and whether a link leads to it or it is one.
_Place: TypeAlias = tuple[str, bool]


class Folders:
    """The names in folders, at the time of one check."""

    def __init__(self) -> None:
        """Begin with nothing listed."""
        self._listed: dict[str, tuple[tuple[str, str, bool], ...] | None] = {}
        self._left = MAX_LOOKUPS

    def fitting(self, path: str) -> Fitting:
        """Say what the absolute path of a pattern stands for, without regard to case.

        As in the shell, a star stands for no dot at the beginning of a name, and `**` for one name.
        Behind a final slash there are folders only.
        """
        if self._left < 0:
            return Fitting(crowded=True)
        names = [name for name in path.split("/") if name]
        globs = [Glob(fold(name)) for name in names]
        start = next((at for at, glob in enumerate(globs) if not glob.plain), len(names))
        if start == len(names):
            return Fitting(told=True)
        base = "/" + "/".join(names[:start])
        if self._names(base) is None:
            return Fitting()
        places = [(base.rstrip("/"), False)]
        for name, glob in zip(names[start:], globs[start:], strict=True):
            places = list(self._below(places, name, glob))
        if path.endswith("/"):
            places = [place for place in places if os.path.isdir(place[0])]
        return Fitting(
            tuple(each for each, _ in places),
            tuple(each for each, linked in places if linked),
            told="**" not in names,  # which stands for any depth if the shell is told so
            crowded=self._left < 0,
        )

    def _below(self, places: Iterable[_Place], name: str, glob: Glob) -> Iterator[_Place]:
        """Go one name further."""
        for folder, linked in places:
            if glob.plain:
                self._left -= 1
                path = f"{folder}/{name}"
                found = [(name, os.path.islink(path))] if os.path.lexists(path) else []
            else:
                found = list(self._fitting_names(folder or "/", glob))
            if self._left < 0:
                return
            for each, is_link in found:
                yield f"{folder}/{each}", linked or is_link

    def _fitting_names(self, folder: str, glob: Glob) -> Iterator[tuple[str, bool]]:
        hidden = glob.head.startswith(".")
        names = self._names(folder) or ()
        self._left -= len(names)
        if self._left < 0:
            return
        for name, folded, is_link in names:
            if hidden is folded.startswith(".") and glob.fits(folded):
                yield name, is_link

    def _names(self, folder: str) -> tuple[tuple[str, str, bool], ...] | None:
        """List a folder: each name, the same folded, and whether it is a link; None if it can't be."""
        if folder not in self._listed:
            try:
                with os.scandir(folder) as entries:
                    self._listed[folder] = tuple(
                        (each.name, fold(each.name), each.is_symlink())
                        for each in islice(entries, MAX_LOOKUPS + 1)
                    )
            except (OSError, ValueError):
                self._listed[folder] = None
        return self._listed[folder]
