"""Where the paths of a call begin, and what they mean on this disk."""

import os
import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from greenroom.permissions.facts.disk import MAX_LENGTH, Disk
from greenroom.permissions.facts.fact import Command, PathUse, Stars, Unknown
from greenroom.permissions.facts.glob import loosened
from greenroom.permissions.facts.pattern import Anchors

MAX_FOLDERS = 8
MAX_FOLLOWED = 512  # characters of a folder
MAX_LINKS = 8
# A path with empty names, or with `.` or `..` among them.
_UNUSUAL = re.compile(r"/\.{0,2}(?:/|\Z)|\A[^/]")
# A pattern with `..` behind a star.
_UP_AGAIN = re.compile(r"[*?\[].*/\.\.(?:/|\Z)", re.DOTALL)
_LINKS = re.compile("cwd|root")
# The links of a process to its folder and its root.
_PROCESS = re.compile(r"/+(?:proc|dev)(?:/+[^/]+)*?/+(cwd|root)(?=/|\Z)")


@dataclass(frozen=True, eq=False)
class Place:
    """The workspace root, and the folders that may be the current one.

    A command may change its folder on the way, and whether it does can't always be told; then a
    path means several files, and all of them are judged.

    Attributes:
        root: the workspace root, which relative patterns begin at.
        folder: the folder that the call begins in.
        others: folders that it may have changed to.
        lost: whether it may be anywhere.
        disk: what was looked up for this check.
        home: the user's own folder.
    """

    root: str
    folder: str
    others: tuple[str, ...] = ()
    lost: bool = False
    disk: Disk = field(default_factory=Disk, repr=False)
    home: str = field(default_factory=partial(os.path.expanduser, "~"))

    @property
    def anchors(self) -> tuple[Anchors, Anchors]:
        """Where patterns begin: for paths as they are written, and with links followed."""
        real = self.disk.real
        return Anchors.of(self.root, self.home), Anchors.of(real(self.root), real(self.home))

    def moved(self, path: str) -> "Place":
        """Return the place after a change of folder that may or may not take effect."""
        path = os.path.expanduser(path)
        folders = [""] if path.startswith("/") else (self.folder, *self.others)
        steps = [_normal(f"{folder}/{path}") for folder in folders]
        others = tuple(dict.fromkeys((*self.others, *steps)))
        long = any(len(each) > MAX_FOLLOWED for each in steps)
        if self.lost or long or len(others) > MAX_FOLDERS or "\0" in path:
            return self.lose()
        return self if others == self.others else replace(self, others=others)

    def lose(self) -> "Place":
        """Return the place after a change of folder that can't be told."""
        return self if self.lost else replace(self, lost=True)

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
        name = path
        if stars == "files":  # a long set may stand for a short name
            name = loosened(path, quoted=not tilde or len(path) > MAX_LENGTH)
        if not name or len(name) > MAX_LENGTH or "\0" in name:
            return Unknown(reason=f"no usable path: {path[:60]!r}")
        if tilde and name.startswith("~"):
            name = os.path.expanduser(re.sub(r"\A~\+(?=/|\Z)", ".", name))
        if self.lost and not name.startswith("/") and not guard:
            return Unknown(reason=f"{kind}s {path!r}, in a folder that can't be told")
        try:
            os.fsencode(name)  # which fails for what no disk can hold
            meant = self._meant(name)
            lexical = [_normal(each) for each in meant]
            # A program follows links before it goes up; a tool may go up first. Judge both.
            spelled = meant if meant == lexical else (*meant, *lexical)
            real = [self.disk.real(each) for each in spelled]
            patterns = lexical if stars == "search" else []
            if stars == "files":
                found, patterns = self._fitting(name, dict.fromkeys((*lexical, *real)))
                if not patterns:
                    lexical += found
                # What else a pattern may name is asked about, except where only links lead.
                seen = set(found) if patterns else set()
                real += [each for each in map(self.disk.real, found) if each not in seen]
        except (OSError, ValueError) as error:
            return Unknown(reason=f"no usable path: {path!r}: {error}")
        return PathUse(
            kind=kind,
            text=path,
            lexical=tuple(dict.fromkeys(lexical)),
            real=tuple(dict.fromkeys(real)),
            guard=guard,
            stars=stars,
            patterns=tuple(patterns),
            command=command,
        )

    def _meant(self, name: str) -> list[str]:
        """Begin a path in each folder, also where it leads by the links of a process.

        Which process is meant does not matter: taken for the command's own, a denied file is found.
        """
        folders = (self.folder, *self.others)
        joined = [name] if name.startswith("/") else [f"{folder}/{name}" for folder in folders]
        if any(map(_LINKS.search, joined)):
            spelled = sorted({*joined, *map(_normal, joined)})
            joined += [_its_own(path, folder) for path in spelled for folder in folders]
        return joined

    def _fitting(self, name: str, paths: Iterable[str]) -> tuple[list[str], list[str]]:
        """Find what a pattern stands for; return with it where it may stand for something else."""
        end = "/" if name.endswith("/") else ""
        found: list[str] = []
        unsure: list[str] = []
        for path in paths:
            fitting, sure = self.disk.fitting(f"{path}{end}")
            found += fitting
            unsure += [] if sure and not self.lost else [path]
        # From wherever the links lead that fit.
        self.disk.full |= _UP_AGAIN.search(name) is not None
        return found, unsure


def _normal(path: str) -> str:
    return f"/{posixpath.normpath(path).lstrip('/')}" if _UNUSUAL.search(path) else path


def _its_own(path: str, folder: str) -> str:
    for _ in range(MAX_LINKS):
        if link := _PROCESS.match(path):
            path = f"{folder if link[1] == 'cwd' else ''}{path[link.end() :]}" or "/"
    return path
