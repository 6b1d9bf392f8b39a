"""Repositories below a workspace: what their hooks and settings name runs just as its own does."""

import os
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

_NAMES = frozenset({".git", ".hg", ".svn"})
_DEPTH = 2
_MAX_NAMES = 20_000
_MAX_FOUND = 100
"""Each is mounted for every command, with the folders above it."""


@dataclass(frozen=True)
class Nested:
    """What was found below a folder, at the first look of this process.

    A repository that a command makes later is its own to work with.

    Attributes:
        names: the `.git` and the like of each.
        is_complete: whether there was no more to look at, as far down as is looked.
    """

    names: tuple[str, ...]
    is_complete: bool

    @classmethod
    @lru_cache(maxsize=256)
    def of(cls, folder: str) -> "Nested":
        """Look two folders deep, at so many names. Reads the disk: call it in a thread."""
        found: list[str] = []
        looked, left = 0, deque([(folder, 0)])
        while left:
            place, depth = left.popleft()
            for name, is_folder in _names(place):
                looked += 1
                if looked > _MAX_NAMES or len(found) == _MAX_FOUND:
                    return cls(tuple(found), False)
                path = os.path.join(place, name)
                if name in _NAMES:
                    found += [path] if depth else []
                elif is_folder and depth < _DEPTH:
                    left.append((path, depth + 1))
        return cls(tuple(found), True)


def _names(folder: str) -> Iterator[tuple[str, bool]]:
    """Name what a folder holds, and whether that is a folder; nothing where it is closed to us."""
    with suppress(OSError), os.scandir(folder) as found:
        for each in found:
            yield each.name, each.is_dir(follow_symlinks=False)
