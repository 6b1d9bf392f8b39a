"""Where the paths of a call begin, and what they mean on this disk."""

import os
import posixpath
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from greenroom.permissions.facts.fact import Command, PathUse, Unknown
from greenroom.permissions.facts.pattern import Anchors

__all__ = ["Place"]

MAX_FOLDERS = 8


@dataclass(frozen=True)
class Place:
    """The workspace root, and the folders that may be the current one.

    A command may change its folder on the way, and whether it does can't always be told; then a
    path means several files, and all of them are judged.

    Attributes:
        root: the workspace root, which relative patterns begin at.
        folder: the folder that the call begins in.
        others: folders that it may have changed to.
        lost: whether it may be anywhere.
    """

    root: str
    folder: str
    others: tuple[str, ...] = ()
    lost: bool = False

    @property
    def anchors(self) -> tuple[Anchors, Anchors]:
        """Where patterns begin: for paths as they are written, and with links followed."""
        home = os.path.expanduser("~")
        return _anchors(self.root, home), _anchors(
            os.path.realpath(self.root), os.path.realpath(home)
        )

    def moved(self, path: str) -> "Place":
        """Return the place after a change of folder that may or may not take effect."""
        if self.lost:
            return self
        steps = [_join(folder, path) for folder in (self.folder, *self.others)]
        others = tuple(dict.fromkeys((*self.others, *steps)))
        if len(others) > MAX_FOLDERS or "\0" in path:
            return self.lose()
        return replace(self, others=others)

    def lose(self) -> "Place":
        """Return the place after a change of folder that can't be told."""
        return replace(self, lost=True)

    def use(
        self,
        kind: Literal["read", "write"],
        path: str,
        *,
        tilde: bool = True,
        guard: bool = False,
        command: Command | None = None,
        follow: bool = True,
    ) -> PathUse | Unknown:
        """Say which files a path means; one that no disk can hold is unknown.

        Without `follow` symbolic links are not looked at; that is only good enough for a guard.
        """
        if not path or "\0" in path or not _encodable(path):
            return Unknown(reason=f"no usable path: {path!r}")
        name = os.path.expanduser(path) if tilde else path
        if self.lost and not name.startswith("/") and not guard:
            return Unknown(reason=f"{kind}s {path!r}, in a folder that can't be told")
        joined = [posixpath.join(folder, name) for folder in (self.folder, *self.others)]
        lexical = tuple(dict.fromkeys(_normal(each) for each in joined))
        if not follow:
            return PathUse(kind=kind, text=path, lexical=lexical, real=(), guard=True)
        try:
            # A program follows links before it goes up; a tool may go up first. Judge both.
            real = tuple(dict.fromkeys(os.path.realpath(each) for each in (*joined, *lexical)))
        except (OSError, ValueError) as error:
            return Unknown(reason=f"no usable path: {path!r}: {error}")
        return PathUse(
            kind=kind, text=path, lexical=lexical, real=real, guard=guard, command=command
        )


@lru_cache(maxsize=256)
def _anchors(root: str, home: str) -> Anchors:
    return Anchors.of(root, home)


def _normal(path: str) -> str:
    normal = posixpath.normpath(path)
    return normal[1:] if normal.startswith("//") else normal


def _join(folder: str, path: str) -> str:
    return _normal(posixpath.join(folder, os.path.expanduser(path)))


def _encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return not any("\ud800" <= ch <= "\udfff" for ch in path)
