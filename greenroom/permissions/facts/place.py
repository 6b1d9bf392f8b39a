"""Where the paths of a call begin, and what they mean on this disk."""

import os
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from greenroom.permissions.facts.fact import Command, PathUse, Stars, Unknown
from greenroom.permissions.facts.folders import Fitting, Folders
from greenroom.permissions.facts.links import Links
from greenroom.permissions.facts.pattern import Anchors
from greenroom.permissions.facts.process_path import MAY_BE_OWN, as_its_own

__all__ = ["Place"]

MAX_FOLDERS = 8
MAX_LENGTH = 512  # of a folder that is followed


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
        crowded: whether that is so because there were too many folders to follow.
        links: the symbolic links that were looked up for this check.
        listed: the folders that were.
    """

    root: str
    folder: str
    others: tuple[str, ...] = ()
    lost: bool = False
    crowded: bool = False
    links: Links = field(default_factory=Links, compare=False, repr=False)
    listed: Folders = field(default_factory=Folders, compare=False, repr=False)

    @property
    def anchors(self) -> tuple[Anchors, Anchors]:
        """Where patterns begin: for paths as they are written, and with links followed."""
        home = os.path.expanduser("~")
        real = self.links.real
        return Anchors.of(self.root, home), Anchors.of(real(self.root), real(home))

    @property
    def is_plain(self) -> bool:
        """Whether the folder is one word to the shell."""
        return not re.search(r"[\s*?\[]", self.folder)

    def moved(self, path: str) -> "Place":
        """Return the place after a change of folder that may or may not take effect."""
        if self.lost:
            return self
        steps = [_join(folder, path) for folder in (self.folder, *self.others)]
        others = tuple(dict.fromkeys((*self.others, *steps)))
        long = any(len(each) > MAX_LENGTH for each in steps)
        if len(others) > MAX_FOLDERS or long or "\0" in path:
            return replace(self, lost=True, crowded=True)
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
        stars: Stars = "none",
    ) -> PathUse | Unknown:
        """Say which files a path means; one that no disk can hold is unknown.

        With `stars` it is a pattern, which stands for the files that fit.
        """
        if not path or "\0" in path or not _encodable(path):
            return Unknown(reason=f"no usable path: {path!r}")
        name = os.path.expanduser(path) if tilde and path.startswith("~") else path
        if tilde and (path == "~+" or path.startswith("~+/")):
            name = f".{path[2:]}"
        if self.lost and not name.startswith("/") and not guard:
            return Unknown(reason=f"{kind}s {path!r}, in a folder that can't be told")
        folders = (self.folder, *self.others)
        begins = ("/",) if name.startswith("/") else folders
        joined = [posixpath.join(folder, name) for folder in begins]
        own = [each for each in joined if each.startswith(MAY_BE_OWN)]
        joined += [its for each in own for its in as_its_own(each, folders)]
        lexical = tuple(dict.fromkeys(map(_normal, joined)))
        try:
            # A program follows links before it goes up; a tool may go up first. Judge both.
            different = dict.fromkeys((*joined, *lexical))
            real = tuple(dict.fromkeys(map(self.links.real, different)))
            ends = "/" if path.endswith("/") else ""
            globs = [f"{each}{ends}" for each in {*lexical, *real}] if stars == "files" else []
            if globs and _UP_AGAIN.search(name):  # from wherever the links lead that fit
                self.doubt_patterns()
            fitting = self._fitting(globs) if globs else _NO_FILES[not self.lost]
            real += tuple(self.links.real(each) for each in fitting.linked)
        except (OSError, ValueError) as error:
            return Unknown(reason=f"no usable path: {path!r}: {error}")
        return PathUse(
            kind=kind,
            text=path,
            lexical=lexical,
            real=real,
            guard=guard,
            stars=stars,
            fitting=fitting,
            command=command,
        )

    def _fitting(self, patterns: Sequence[str]) -> Fitting:
        """Say what patterns of the shell's stand for on this disk; it may be in another folder."""
        found = Fitting.of_all([self.listed.fitting(each) for each in patterns], told=not self.lost)
        self.links.full |= found.crowded
        return found

    def doubt_patterns(self) -> None:
        """Note that the patterns of this check may stand for more than they seem to."""
        self.links.full = True


# By whether that is told.
_NO_FILES = {told: Fitting(told=told) for told in (False, True)}
# A pattern with `..` behind a star.
_UP_AGAIN = re.compile(r"[*?\[].*/\.\.(?:/|\Z)", re.DOTALL)
# A path with empty names, or with `.` or `..` among them.
_UNUSUAL = re.compile(r"/\.{0,2}(?:/|\Z)|\A[^/]")


def _normal(path: str) -> str:
    if not _UNUSUAL.search(path):
        return path
    normal = posixpath.normpath(path)
    return normal[1:] if normal.startswith("//") else normal


def _join(folder: str, path: str) -> str:
    return _normal(posixpath.join(folder, os.path.expanduser(path)))


def _encodable(path: str) -> bool:
    if path.isascii():
        return True
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return not any("\ud800" <= ch <= "\udfff" for ch in path)
