"""Effects: what a command does, in parts small enough to be judged one by one.

A `Command` runs a program, a `PathUse` reads or writes a file, a `Change` sets a variable or
defines a function, and an `Unknown` is anything that can't be determined. A `Place` says which
files a path may mean: where relative paths may begin, and where symbolic links lead on this disk.
"""

import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Literal, TypeAlias

from greenroom.core import visible
from greenroom.shell.file_lookup import MAX_LENGTH, FileLookup
from greenroom.shell.name_patterns import loosen
from greenroom.shell.words import Part, Redirection, Word

Extent: TypeAlias = Literal["prints", "reads", "stores", "any"]
"""What a command without risks does with the things that its words name.

- prints: nothing; the words are only text.
- reads: it reads them.
- stores: it writes, but not to a file that they name, like `git add`.
- any: anything that its program can do.
"""

Stars: TypeAlias = Literal["none", "files", "search"]
"""What the wildcards in a path mean.

- none: there are none, or they are literal.
- files: the shell replaces them by the files that match.
- search: a program searches folders for them, like `find -name`.
"""


@dataclass(frozen=True, kw_only=True)
class Command:
    """One program with its words.

    Attributes:
        argv: its words.
        guard: only denials and questions apply to it; something else must allow it.
        outer: the command that runs this one, such as `timeout`, or None.
        start: where in the outer command's words this one begins.
        risks: the positions of words that make the program do more than its name says, and why.
        loose: the program is unknown or has risks, so it may run what its words say.
        place: where the relative paths among its words begin, or None.
        settings: the variables that are set for it, such as "CI=1"; see `Change.setting`.
        extent: what it does with the things that its words name; "any" if it has risks.
        parts: its options and operands; empty for an unknown program.
        inner: the position of the command that it runs, as `timeout` does, or None.
    """

    argv: tuple[Word, ...]
    guard: bool = False
    outer: "Command | None" = field(default=None, hash=False)
    start: int = 0
    risks: tuple[tuple[int, str], ...] = ()
    loose: bool = False
    place: "Place | None" = field(default=None, repr=False)
    settings: tuple[str, ...] = ()
    extent: Extent = "any"
    parts: tuple[Part, ...] = field(default=(), repr=False, compare=False)
    inner: int | None = None

    @cached_property
    def text(self) -> str:
        """The words joined by spaces, as regular expressions see them."""
        return " ".join([word.text for word in self.argv])

    @cached_property
    def spellings(self) -> tuple[str, ...]:
        """The text, and if the program is named by its path, also the text without its folder."""
        folder = self.argv[0].text.rpartition("/")[0] if self.argv else ""
        base = self.text.removeprefix(f"{folder}/")
        return (self.text,) if base == self.text else (self.text, base)

    @cached_property
    def is_plain(self) -> bool:
        """Whether `text` is unambiguous: all words are known, and the program's has no spaces."""
        program = self.argv[0].text if self.argv else " "
        return self.known and not any(char.isspace() for char in program)

    @property
    def known(self) -> bool:
        """Whether every word is known before the command runs."""
        return all(word.static for word in self.argv)

    def __str__(self) -> str:
        return visible(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathUse:
    """A file or folder that is read or written.

    Attributes:
        kind: whether it is read or written.
        text: how it was named.
        lexical: the absolute paths that the name may mean, with `..` resolved as text; for a
            pattern, also the files that match now.
        real: the same paths with symbolic links followed.
        guard: only denials and questions apply to it.
        stars: what the wildcards in the name mean.
        patterns: the paths that are patterns and may match other files than those found.
        command: the command whose output is redirected there, or None.
    """

    kind: Literal["read", "write"]
    text: str
    lexical: tuple[str, ...]
    real: tuple[str, ...]
    guard: bool = False
    stars: Stars = "none"
    patterns: tuple[str, ...] = ()
    command: Command | None = None

    def __str__(self) -> str:
        return f"{self.kind} {visible(self.text)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A variable set or a function defined.

    Attributes:
        reason: what is set or defined, in words.
        command: the command that the variable is set for, or None if it is set for all.
        setting: "NAME=value" if the value is known; of the rules about commands, only one that
            names this setting covers it.
    """

    reason: str
    command: Command | None = field(default=None, hash=False, repr=False)
    setting: str = ""
    guard: bool = field(default=False, init=False)

    def __str__(self) -> str:
        return visible(self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Something that can't be determined beforehand; only a person can allow it.

    Attributes:
        reason: what is unknown, in words.
        too_large: whether it is so large that it is denied rather than asked about.
    """

    reason: str
    too_large: bool = False
    guard: bool = field(default=False, init=False)

    def __str__(self) -> str:
        return visible(self.reason)


ShellEffect: TypeAlias = Command | PathUse | Change | Unknown
"""Any effect."""


MAX_FOLDERS = 8
MAX_FOLLOWED = 512  # characters of a folder
MAX_LINKS = 8
# A path with names that are empty, `.` or `..`.
_UNUSUAL = re.compile(r"/\.{0,2}(?:/|\Z)|\A[^/]")
# A pattern with `..` after a wildcard.
_UP_AGAIN = re.compile(r"[*?\[].*/\.\.(?:/|\Z)", re.DOTALL)
_LINK_NAMES = re.compile("cwd|root")
# The links of a process to its folder and its root.
_PROCESS_LINK = re.compile(r"/+(?:proc|dev)(?:/+[^/]+)*?/+(cwd|root)(?=/|\Z)")


@dataclass(frozen=True, eq=False)
class Place:
    """The workspace root, and the folders that may be the current one.

    A command may change its folder on the way, and it isn't always known whether it does. Then a
    path means several files, and all of them are judged.

    Attributes:
        root: the workspace root, where relative patterns begin.
        folder: the folder that the call starts in.
        others: folders that it may have changed to.
        is_lost: whether the current folder may be any folder.
        lookup: a cache of what was looked up on disk for this check.
        home: the user's home folder.
    """

    root: str
    folder: str
    others: tuple[str, ...] = ()
    is_lost: bool = False
    lookup: FileLookup = field(default_factory=FileLookup, repr=False)
    home: str = field(default_factory=partial(os.path.expanduser, "~"))

    def move(self, path: str) -> "Place":
        """Return the place after a change of folder that may or may not succeed."""
        path = os.path.expanduser(path)
        folders = [""] if path.startswith("/") else (self.folder, *self.others)
        steps = [_normalize(f"{folder}/{path}") for folder in folders]
        others = tuple(dict.fromkeys((*self.others, *steps)))
        is_long = any(len(each) > MAX_FOLLOWED for each in steps)
        if self.is_lost or is_long or len(others) > MAX_FOLDERS or "\0" in path:
            return self.lose()
        return self if others == self.others else replace(self, others=others)

    def lose(self) -> "Place":
        """Return the place after a change to an unknown folder."""
        return self if self.is_lost else replace(self, is_lost=True)

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
        """Find the files that a path means, or that match it as a pattern if it has `stars`.

        A path that no disk can hold is an `Unknown`.
        """
        name = path
        if stars == "files":  # a long character set may match a short name
            name = loosen(path, quoted=not tilde or len(path) > MAX_LENGTH)
        if not name or len(name) > MAX_LENGTH or "\0" in name:
            return Unknown(reason=f"not a usable path: {path[:60]!r}")
        if tilde and name.startswith("~"):
            name = os.path.expanduser(re.sub(r"\A~\+(?=/|\Z)", ".", name))
        if self.is_lost and not name.startswith("/") and not guard:
            return Unknown(reason=f"{kind}s {path!r} in an unknown folder")
        try:
            lexical, real, patterns = self._resolve(name, stars)
        except (OSError, ValueError) as error:
            return Unknown(reason=f"not a usable path: {path!r}: {error}")
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

    def _resolve(self, name: str, stars: Stars) -> tuple[list[str], list[str], list[str]]:
        """Find the paths a name may mean: as written, with links followed, and those left patterns.

        Raises:
            OSError, ValueError: no disk can hold it.
        """
        os.fsencode(name)  # it raises for a name that no disk can hold
        meant = self._list_meanings(name)
        lexical = [_normalize(each) for each in meant]
        # A program follows links before it goes up; a tool may go up first. Judge both.
        spelled = meant if meant == lexical else (*meant, *lexical)
        real = [self.lookup.resolve(each) for each in spelled]
        patterns = lexical if stars == "search" else []
        if stars == "files":
            found, patterns = self._find_matches(name, dict.fromkeys((*lexical, *real)))
            if not patterns:
                lexical += found
            # What a pattern may still match is asked about, unless only links lead there.
            seen = set(found) if patterns else set()
            real += [each for each in map(self.lookup.resolve, found) if each not in seen]
        return lexical, real, patterns

    def _list_meanings(self, name: str) -> list[str]:
        """List the paths that a name may mean from each folder, and by the links of a process.

        Any process counts as the command's own, which is enough to find denied files.
        """
        folders = (self.folder, *self.others)
        joined = [name] if name.startswith("/") else [f"{folder}/{name}" for folder in folders]
        if any(map(_LINK_NAMES.search, joined)):
            spelled = sorted({*joined, *map(_normalize, joined)})
            joined += [_follow_process_links(p, folder) for p in spelled for folder in folders]
        return joined

    def _find_matches(self, name: str, paths: Iterable[str]) -> tuple[list[str], list[str]]:
        """Find the files that match a pattern, and the paths where it may match others as well."""
        end = "/" if name.endswith("/") else ""
        found: list[str] = []
        unsure: list[str] = []
        for path in paths:
            fitting, sure = self.lookup.find_matches(f"{path}{end}")
            found += fitting
            unsure += [] if sure and not self.is_lost else [path]
        # `..` goes up from wherever a matching link leads.
        self.lookup.is_exhausted |= _UP_AGAIN.search(name) is not None
        return found, unsure


def _normalize(path: str) -> str:
    return f"/{posixpath.normpath(path).lstrip('/')}" if _UNUSUAL.search(path) else path


def _follow_process_links(path: str, folder: str) -> str:
    for _ in range(MAX_LINKS):
        if link := _PROCESS_LINK.match(path):
            path = f"{folder if link[1] == 'cwd' else ''}{path[link.end() :]}" or "/"
    return path


_DESCRIPTOR = re.compile(r"\d+-?|-")
_SOCKET = re.compile(r"/dev/(?:tcp|udp)/")


def list_redirection_effects(
    redirection: Redirection, command: Command | None, place: Place
) -> Iterator[ShellEffect]:
    """Say which file a redirection opens: `ls > out` writes out, `sort < names` reads names.

    The shell opens it, so no rule about `ls` covers what `ls > out` writes. Copies of descriptors
    (`2>&1`), here-documents and /dev/null open nothing that matters.
    """
    operator, target = redirection.operator, redirection.target
    if operator in ("<<", "<<-", "<<<"):
        return
    if operator in ("<&", ">&") and target.static and _DESCRIPTOR.fullmatch(target.text):
        return
    if target.static and target.text == "/dev/null":
        return
    reads = operator in ("<", "<&")
    kind: Literal["read", "write"] = "read" if reads else "write"
    if _SOCKET.match(target.text):
        yield Unknown(reason=f"opens a network connection through {target.text}")
    elif target.static and (target.quoted or not re.match(r"~(?![/+])", target.text)):
        tilde = not target.quoted
        yield place.use(kind, target.text, tilde=tilde, guard=reads, command=command)
    else:
        yield from _list_target_effects(target, kind, place)


def _list_target_effects(
    target: Word, kind: Literal["read", "write"], place: Place
) -> Iterator[ShellEffect]:
    """List the files that a redirection to an unknown name may open, so that they can be denied."""
    if target.number and target.text.startswith("<("):
        return
    if target.pattern and not target.dynamic:
        yield place.use(kind, target.text, tilde=not target.quoted, guard=True, stars="files")
    if kind == "write" or target.dynamic:
        yield Unknown(reason=f"{kind}s a file only known at run time: {target.text}")
