"""Programs that read whole folders, such as `grep -r`, and the files there that rules are about.

A folder is walked through to see whether a file that a rule is about lies in it. If one does, or
there is too much in it to tell, the command may read that file without naming it.
"""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from greenroom.fs._internal import fold, fold_path, read_pattern
from greenroom.permissions.patterns import END, Anchors, Care, find_anchors
from greenroom.programs._internal import FileChoice
from greenroom.shell._internal import Command, PathUse, Place

MAX_NAMES = 10_000  # that are looked at for one check


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
    choice = FileChoice.of(command.invocation)
    narrowed = search._replace(care=search.care.shown)
    folders = dict.fromkeys(path for use in uses for path in (*use.lexical, *use.real))
    for folder in filter(os.path.isdir, folders):
        chosen = search if choice.shows_hidden or "/." in folder else narrowed
        for path in chosen.list_below(folder, linked=choice.follows_links):
            names = path.removeprefix(folder).strip("/").split("/")
            if not path or not _is_left_out(names, choice):
                yield path


def _is_left_out(names: Sequence[str], choice: FileChoice) -> bool:
    """Return whether a file surely is not read, by its path below a folder."""
    if not choice.shows_hidden and any(name.startswith(".") for name in names):
        return True
    only = list(map(fold, choice.only))
    if any("/" in each or read_pattern(each).fits(fold(names[-1])) for each in only):
        return False
    given = [(each, names[-1:]) for each in choice.files]
    given += [(each, names[:-1]) for each in choice.folders]
    is_named = any(read_pattern(each).fits(name) for each, some in given for name in some)
    return is_named or (bool(only) and not choice.files)
