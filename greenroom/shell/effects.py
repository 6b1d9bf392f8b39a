"""Effects: what a command does, in parts small enough to be judged one by one.

A `Command` runs a program, a `PathUse` reads or writes a file, a `Change` sets a variable, and an
`Unknown` is anything that can't be determined; a text that is not plain is an `Unknown` as well.
A `Place` says which files a path may mean: where relative paths may begin, where symbolic links
lead on this disk, and where programs are found.
"""

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from greenroom.core._internal import Reticent, visible
from greenroom.fs import file_lookup
from greenroom.programs._internal import Invocation, Reading, extract_words, find_reading
from greenroom.shell.script import Redirection

Extent: TypeAlias = Literal["prints", "reads", "stores", "any"]
"""What a command without risks does with the things that its words name.

- prints: nothing; the words are only text.
- reads: it reads them.
- stores: it writes, but not to a file that they name, like `git add`.
- any: anything that its program can do.
"""


_SHELL_WRAPPERS = frozenset({"builtin", "command", "exec"})


@dataclass(frozen=True, kw_only=True)
class Command:
    """One program with its words.

    Attributes:
        argv: its words.
        guard: only denials and questions apply to it; something else must allow it.
        perhaps: it is part of a text that is not plain, so this is only what it seems to be.
        outer: the command that runs this one, such as `timeout`, or None.
        start: where in the words of `outer` this one begins.
        number: which simple command of the text it belongs to; -1 without a text.
        file: the file of the program; "" for a builtin of the shell, None if none was found.
        risks: the positions of words that make the program do more than its name says, and why.
        loose: the program is unknown or has risks, so it may run what its words say.
        fed: the whole text, if a part of it may be what the program reads as commands.
        takes_input: it also gets words that come from its input, as from `xargs`.
        place: where the relative paths among its words begin.
        settings: the variables that are set for it, such as "CI=1"; see `Change.setting`.
        invocation: its words as its program understands them.
    """

    argv: tuple[str, ...]
    guard: bool = False
    perhaps: bool = False
    outer: "Command | None" = field(default=None, hash=False)
    start: int = 0
    number: int = -1
    file: str | None = ""
    risks: tuple[tuple[int, str], ...] = ()
    loose: bool = False
    fed: str = field(default="", repr=False)
    takes_input: bool = False
    place: "Place" = field(repr=False)
    settings: tuple[str, ...] = ()
    invocation: Invocation = field(repr=False, compare=False)

    @property
    def offset(self) -> int:
        """Where in the words of the simple command it begins."""
        return self.start + self.outer.offset if self.outer else 0

    @property
    def lets_shell_run(self) -> bool:
        """Whether the shell itself runs the command inside it, as with `command` and `exec`."""
        is_own = self.outer is None or self.outer.lets_shell_run
        return is_own and self.argv[0] in _SHELL_WRAPPERS

    @cached_property
    def reading(self) -> Reading | None:
        """What it reads, if it is known to do nothing else."""
        return None if self.risks else find_reading(self.invocation)

    @cached_property
    def extent(self) -> Extent:
        """What it does with the things that its words name."""
        if self.reading is not None:
            return "reads" if self.reading.files or self.reading.deep else "prints"
        return "stores" if self.invocation.program.is_kind("stores") and not self.risks else "any"

    @cached_property
    def text(self) -> str:
        """The words joined by spaces, as regular expressions see them."""
        return " ".join(self.argv)

    @cached_property
    def possible_words(self) -> tuple[str, ...]:
        """The words that a loose program may run: its own, and those of the text that it is fed."""
        return extract_words(f"{self.text}\n{self.fed}") if self.loose else ()

    @cached_property
    def spellings(self) -> tuple[str, ...]:
        """The text, and if the program is named by its path, also the text without its folder."""
        folder = self.argv[0].rpartition("/")[0] if self.argv else ""
        base = self.text.removeprefix(f"{folder}/")
        return (self.text,) if base == self.text else (self.text, base)

    def __str__(self) -> str:
        return f"{'perhaps ' * self.perhaps}{visible(self.text)}"


class PathUse(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder that is read or written.

    Attributes:
        kind: whether it is read or written.
        text: how it was named.
        lexical: the absolute paths that the name may mean, with `..` resolved as text.
        real: the same paths with symbolic links followed.
        guard: only denials and questions apply to it.
        searches: the name is a pattern of files that a program looks for, like `find -name`.
        command: the command whose output is redirected there, or None.
    """

    kind: Literal["read", "write"]
    text: str
    lexical: tuple[str, ...]
    real: tuple[str, ...]
    guard: bool = False
    searches: bool = False
    command: Command | None = None

    def __str__(self) -> str:
        return f"{self.kind} {visible(self.text)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A variable that is set.

    Attributes:
        reason: what is set, in words.
        command: the command that the variable is set for, or None if it is set for all.
        setting: "NAME=value"; of the rules about commands, only one that names this setting
            covers it. Empty if no rule may name it.
        guard: only denials and questions apply to it.
    """

    reason: str
    command: Command | None = field(default=None, hash=False, repr=False)
    setting: str = ""
    guard: bool = False

    def __str__(self) -> str:
        return visible(self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Something that can't be determined beforehand; only a person can allow it.

    Attributes:
        reason: what is unknown, in words.
        too_large: whether it is so large that it is denied rather than asked about.
        text: a text that may run anything, which a rule for the whole tool may allow as well.
    """

    reason: str
    too_large: bool = False
    text: str = ""
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
_OF_PROCESS = re.compile("/(?:proc|dev)/")


class Place(Reticent, frozen=True, eq=False):
    """The workspace root, the folders that may be the current one, and the environment.

    A command may change its folder on the way, and it isn't always known whether it does. Then a
    path means several files, and all of them are judged.

    Attributes:
        root: the workspace root, where relative patterns begin.
        folder: the current folder.
        others: folders that may be the current one as well.
        is_lost: whether the current folder may be any folder.
        lookup: a cache of what was looked up on disk for this check.
        environment: the variables of the commands; those of this process by default.
    """

    root: str
    folder: str
    others: tuple[str, ...] = ()
    is_lost: bool = False
    lookup: file_lookup.FileLookup = msgspec.field(default_factory=file_lookup.FileLookup)
    environment: Mapping[str, str] = msgspec.field(default_factory=lambda: os.environ)

    def __repr__(self) -> str:
        """Leave out the environment, which holds secrets, and what was looked up."""
        shown = (self.root, self.folder, self.others, self.is_lost)
        return f"Place{shown!r}"

    @property
    def folders(self) -> tuple[str, ...]:
        """All folders that may be the current one."""
        return (self.folder, *self.others)

    @property
    def home(self) -> str:
        """The user's home folder, which `~` stands for."""
        return self.environment.get("HOME") or os.path.expanduser("~")

    def move(self, path: str) -> "Place":
        """Return the place after a change of folder that succeeds."""
        folders = [""] if path.startswith("/") else self.folders
        steps = dict.fromkeys(_normalize(f"{folder}/{path}") for folder in folders)
        is_odd = any(len(each) > MAX_FOLLOWED or _OF_PROCESS.match(each) for each in steps)
        return self.lose() if self.is_lost or is_odd or "\0" in path else self._at(*steps)

    def join(self, other: "Place") -> "Place":
        """Return the place that is one of two."""
        if self is other or (self.folders == other.folders and self.is_lost == other.is_lost):
            return self
        folders = dict.fromkeys((*self.folders, *other.folders))
        is_lost = self.is_lost or other.is_lost or len(folders) > MAX_FOLDERS
        return self.lose() if is_lost else self._at(*folders)

    def lose(self) -> "Place":
        """Return the place after a change to an unknown folder."""
        return self if self.is_lost else replace(self, is_lost=True)

    def _at(self, folder: str, *others: str) -> "Place":
        return replace(self, folder=folder, others=others)

    def find_program(self, name: str) -> str | None:
        """Find the file that the shell runs under a name; None if there is none.

        Relative folders in the search path are left out.
        """
        return self.lookup.find_program(name, self.environment.get("PATH", os.defpath))

    def use(
        self,
        kind: Literal["read", "write"],
        path: str,
        *,
        tilde: bool = False,
        guard: bool = False,
        command: Command | None = None,
        searches: bool = False,
    ) -> PathUse | Unknown:
        """Find the files that a path means, or that a search for it finds.

        A path that no disk can hold is an `Unknown`.
        """
        name = os.path.expanduser(path) if tilde and path.startswith("~") else path
        if not name or len(name) > file_lookup.MAX_LENGTH or "\0" in name:
            return Unknown(reason=f"not a usable path: {path[:60]!r}")
        if self.is_lost and not name.startswith("/") and not guard:
            return Unknown(reason=f"{kind}s {path!r} in an unknown folder")
        try:
            lexical, real = self._resolve(name)
        except (OSError, ValueError) as error:
            return Unknown(reason=f"not a usable path: {path!r}: {error}")
        return PathUse(
            kind=kind,
            text=path,
            lexical=tuple(dict.fromkeys(lexical)),
            real=tuple(dict.fromkeys(real)),
            guard=guard,
            searches=searches,
            command=command,
        )

    def guard(
        self,
        path: str,
        *,
        kind: Literal["read", "write"] = "read",
        tilde: bool = False,
        searches: bool = False,
    ) -> tuple[PathUse, ...]:
        """Find the files that a path may mean, for denials; none if no disk can hold it."""
        use = self.use(kind, path, tilde=tilde, guard=True, searches=searches)
        return (use,) if isinstance(use, PathUse) else ()

    def _resolve(self, name: str) -> tuple[list[str], list[str]]:
        """Find the paths a name may mean: as written, and with links followed.

        Raises:
            OSError, ValueError: no disk can hold it.
        """
        os.fsencode(name)  # it raises for a name that no disk can hold
        is_absolute = name.startswith("/")
        meant = [(name if is_absolute else f"{each}/{name}", each) for each in self.folders]
        lexical = [_normalize(path) for path, _ in meant]
        # A program follows links before it goes up; a tool may go up first. Judge both.
        spelled = dict.fromkeys((*meant, *zip(lexical, self.folders, strict=True)))
        real = [each for path, folder in spelled for each in self._follow(path, folder)]
        return lexical, real

    def _follow(self, path: str, folder: str) -> Iterator[str]:
        """Follow the links in a path, also those by which /proc leads to a process's own folder.

        Any process counts as the command's own, which is enough to find denied files.
        """
        for _ in range(MAX_LINKS):
            path = self.lookup.resolve(path)
            yield path
            link = file_lookup.PROCESS_LINK.match(path)
            if link is None or link["name"] not in ("cwd", "root"):
                break
            path = f"{folder if link['name'] == 'cwd' else ''}{path[link.end() :]}" or "/"


def _normalize(path: str) -> str:
    return f"/{posixpath.normpath(path).lstrip('/')}" if _UNUSUAL.search(path) else path


_SOCKET = re.compile(r"/dev/(?:tcp|udp)/")


def list_redirection_effects(
    redirections: Iterable[Redirection], command: Command | None, place: Place
) -> Iterator[ShellEffect]:
    """Say which files redirections open: `ls > out` writes out, `sort < names` reads names.

    The shell opens them, so no rule about `ls` covers what `ls > out` writes. Copies of descriptors
    (`2>&1`), texts and /dev/null open nothing that matters.
    """
    for _, operator, target in redirections:
        if operator in ("<<<", ">&") or target == "/dev/null":
            continue
        if _SOCKET.match(target):  # to bash, even in quotes
            yield Unknown(reason=f"opens a network connection through {target}")
            continue
        reads = operator == "<"
        kind: Literal["read", "write"] = "read" if reads else "write"
        yield place.use(kind, target, guard=reads, command=command)
