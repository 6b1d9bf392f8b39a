"""Programs that read whole folders, such as `grep -r`, and the files there that rules are about.

A folder is walked through to see whether a file that a rule is about lies in it. If one does, or
there is too much in it to tell, the command may read that file without naming it.
"""

import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from greenroom.fs._internal import fold, fold_path, read_pattern
from greenroom.permissions.patterns import END, Anchors, Care, find_anchors
from greenroom.permissions.tables import TABLE
from greenroom.programs._internal import basename
from greenroom.shell._internal import Command, PathUse, Place

MAX_NAMES = 10_000  # that are looked at for one check
_PYTHON = re.compile(r"python[0-9.]*")
_RECURSIVE = re.compile(r"-[A-Za-z0-9]*[rRd]|--(?:deref|rec|dir)")
_INTO = re.compile(r"-[A-Za-z]*t|--t")
_FOLLOWS = re.compile(r"-[A-Za-z0-9]*[RLhH]|--(?:deref|follow|copy-)")
_SKIPS_HIDDEN = frozenset({"rg", "ag"})
_SHOWS_HIDDEN = re.compile(r"-[A-Za-z0-9]*[u.]|--(?:hid|unr)")
# Programs whose options that leave files out mean what is read from them here.
_CHOOSY = re.compile(r"(rg|[a-z]*grep)|ag|rsync|diff|[a-z]*tar")
_CHOICE = re.compile(
    r"--(include|exclude-dir|exclude|ignore-dir|ignore|i?glob)(?:=(.*))?|-g(.*)", re.DOTALL
)


def list_searched(command: Command, place: Place) -> Sequence[str]:
    """List the words that name folders whose files a command reads.

    Example:
        >>> from greenroom.shell._internal import analyse
        >>> place = Place("/", "/")
        >>> [list_searched(analyse(text, place).effects[0], place) for text in (
        ...     "grep -r x", "grep -rn x tmp", "cp -r etc tmp", "ls")]
        [['.'], ['tmp'], ['etc'], ()]
    """
    argv, name = command.argv, basename(command.argv[0])
    if name in TABLE["folders"]:
        reads_here = name == "zip" and any(re.match("-[A-Za-z]*R", word) for word in argv)
        return (*argv[1:], ".") if reads_here else argv[1:]
    if _PYTHON.fullmatch(name) and "-m" in argv and TABLE["folders python"].intersection(argv):
        return (*argv[1:], ".")
    operands = [argv[part.at] for part in command.invocation.parts if not part.option]
    if not command.invocation.parts:
        operands = [word for word in argv[1:] if not word.startswith("-")]
    if name in TABLE["folders first"]:
        is_into = len(operands) < 2 or any(map(_INTO.match, argv[1:]))
        return argv[1:] if is_into else operands[:-1]
    reads_here = name in TABLE["folders here"]
    if not reads_here and name not in TABLE["folders recursive"]:
        return ()
    there = [each for each in operands if exists(each, place)]
    is_pattern = there == operands[:1] and not any(
        "$" in part.marks for part in command.invocation.parts
    )
    if (there and not is_pattern) or not (reads_here or any(map(_RECURSIVE.match, argv[1:]))):
        return there
    return [*there, "."]


def exists(name: str, place: Place) -> bool:
    """Return whether there is a file of this name."""
    return any(os.path.lexists(path) for use in place.guard(name) for path in use.lexical)


class Search(NamedTuple):
    """A search for files that rules are about.

    Attributes:
        place: where patterns begin; its lookup counts the names that are looked at.
        care: what the rules are about.
        anchors: where the patterns begin, as written and with links followed.
    """

    place: Place
    care: Care
    anchors: Sequence[Anchors]

    @classmethod
    def of(cls, place: Place, care: Care) -> "Search":
        """Prepare a search."""
        return cls(place, care, list(dict.fromkeys(find_anchors(place))))

    def touches(self, *paths: str) -> bool:
        """Return whether some rule is about one of these files."""
        return any(
            pattern.touches(path, *self.anchors)
            for path in paths
            if self.care.mark.search(fold_path(path) + END)
            for pattern in self.care.paths
        )

    def may_meet(self, pattern: str) -> bool:
        """Return whether a file may match an absolute pattern and be one that a rule is about."""
        return any(each.may_meet(pattern, a) for each in self.care.paths for a in self.anchors)

    def list_below(self, folder: str, *, linked: bool = False) -> Iterator[str]:
        """List the files below a folder that some rule is about; links count if they are followed.

        An empty name at the end stands for more files than can be looked at.
        """
        lookup, real = self.place.lookup, self.place.lookup.resolve(folder)
        waiting, seen = deque([(folder.rstrip("/"), real.rstrip("/"))]), {real}
        while waiting:
            at, real_at = waiting.popleft()
            for name, is_folder, is_link in _list_folder(at or "/"):
                lookup.searched += 1
                if lookup.searched > MAX_NAMES:
                    yield ""
                    return
                if is_link and not linked:
                    continue
                path, real = f"{at}/{name}", f"{real_at}/{name}"
                real = lookup.resolve(real) if is_link else real
                both = (path,) if real == path else (path, real)
                if not is_folder and self.touches(*both):
                    yield path
                if is_folder and real not in seen and self._may_lie_below(both):
                    seen.add(real)
                    waiting.append((path, real))

    def _may_lie_below(self, folders: Sequence[str]) -> bool:
        return not folders[0].endswith("/.git/objects") and any(
            pattern.may_lie_below(folder, anchors)
            for pattern in self.care.paths
            for anchors in self.anchors
            for folder in folders
        )


def _list_folder(folder: str) -> Iterator[tuple[str, bool, bool]]:
    with suppress(OSError), os.scandir(folder) as entries:  # or the command can't read it either
        for entry in entries:
            yield entry.name, entry.is_dir(), entry.is_symlink()


def find_unnamed(command: Command, uses: Sequence[PathUse], search: Search) -> Iterator[str]:
    """Find the files that some rule is about and that a command reads in the folders it names.

    Files that its options leave out don't count. An empty name stands for too many to tell.
    """
    choice, name = _Choice.of(command), basename(command.argv[0])
    options = (*command.argv[1:], *(part.option for part in command.invocation.parts))
    linked = name in TABLE["folders linked"] or any(map(_FOLLOWS.match, options))
    narrowed = search._replace(care=search.care.shown)
    folders = dict.fromkeys(path for use in uses for path in (*use.lexical, *use.real))
    for folder in filter(os.path.isdir, folders):
        chosen = search if choice.shows_hidden or "/." in folder else narrowed
        for path in chosen.list_below(folder, linked=linked):
            if not path or not choice.leaves_out(path.removeprefix(folder).strip("/").split("/")):
                yield path


class _Choice(NamedTuple):
    """Which of the files in a folder a program reads.

    Attributes:
        shows_hidden: whether hidden files are among them.
        only: if there are any, patterns that their names have to match.
        files: patterns of names of files that are left out.
        folders: patterns of names of folders that are left out.
    """

    shows_hidden: bool
    only: Sequence[str]
    files: Sequence[str]
    folders: Sequence[str]

    @classmethod
    def of(cls, command: Command) -> "_Choice":
        words, name = command.argv[1:], basename(command.argv[0])
        only, files, folders = list[str](), list[str](), list[str]()
        kind = _CHOOSY.fullmatch(name)
        if name.endswith("tar"):  # options are about the names behind them
            first = next((part.at for part in command.invocation.parts if not part.option), 0)
            words = command.argv[1:first]
        for at, word in enumerate(words if kind else ()):
            found = _CHOICE.fullmatch(word)
            if not found:
                continue
            option, value = found[1] or "glob", found[2] or found[3] or "".join(words[at + 1 :][:1])
            if option == "include" or ("glob" in option and value[:1] != "!"):
                only.append(fold(value))
                continue
            value = value.removeprefix("!").removeprefix("**/").removesuffix("/**").rstrip("/")
            if "/" not in value:
                files += [value] * (option != "exclude-dir")
                folders += [value] * (option != "exclude" or "grep" not in name)
        shows = name not in _SKIPS_HIDDEN or bool(only) or any(map(_SHOWS_HIDDEN.match, words))
        if only and kind and not kind[1]:  # what comes first counts
            return cls(shows, (), (), ())
        return cls(shows, only, files, folders)

    def leaves_out(self, names: Sequence[str]) -> bool:
        """Return whether a file surely is not read, by its path below a folder."""
        if not self.shows_hidden and any(name.startswith(".") for name in names):
            return True
        if self.only:
            fits = ("/" in each or read_pattern(each).fits(fold(names[-1])) for each in self.only)
            if any(fits):
                return False
        given = [(each, names[-1:]) for each in self.files]
        given += [(each, names[:-1]) for each in self.folders]
        return any(read_pattern(each).fits(name) for each, some in given for name in some) or (
            bool(self.only) and not self.files
        )
