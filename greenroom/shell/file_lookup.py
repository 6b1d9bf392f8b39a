"""Lookups on disk: where links lead and which files match a pattern, each looked up once."""

import os
from dataclasses import dataclass, field
from itertools import islice

from greenroom.shell.name_patterns import fold, read_pattern

MAX_LOOKUPS = 50_000  # times that a name is looked up or compared
MAX_LENGTH = 4096  # characters of a path that the system can look up


@dataclass(eq=False)
class FileLookup:
    """A cache of links and of the names in folders, for one check.

    A command may name thousands of files in one folder; each name is looked up once, and so is the
    folder.

    Attributes:
        is_exhausted: whether the limit of lookups was reached, so that only a denial may rely on
            where paths lead.
    """

    is_exhausted: bool = False
    _lookups: int = 0
    _targets: dict[str, str] = field(default_factory=dict)
    _missing: set[str] = field(default_factory=set)  # paths that don't exist
    _folders: dict[str, str] = field(default_factory=dict)
    _listings: dict[str, tuple[tuple[str, str], ...] | None] = field(default_factory=dict)

    def resolve(self, path: str) -> str:
        """Follow every link in an absolute path, as `os.path.realpath` does.

        Raises:
            ValueError: no disk can hold the path.
        """
        folder, _, name = path.rpartition("/")
        if folder not in self._folders:
            self._folders[folder] = self._walk("", folder)
        return self._walk(self._folders[folder], name) or "/"

    def _walk(self, at: str, path: str) -> str:
        """Follow a path, name by name; the root folder is the empty string."""
        for name in path.split("/"):
            if name == "..":
                at = at.rpartition("/")[0]
            elif name not in ("", "."):
                at = f"{at}/{name}" if at in self._missing else self._follow(f"{at}/{name}")
        return at

    def _follow(self, path: str) -> str:
        """Follow the last name of a path without other links."""
        if path in self._targets:
            return self._targets[path]
        self._lookups += 1
        if self._lookups > MAX_LOOKUPS or len(path) > MAX_LENGTH:
            self.is_exhausted = True
            return path
        try:
            target = os.readlink(path)
        except FileNotFoundError:
            target = ""
            self._missing.add(path)
        except OSError:  # it is not a link
            target = ""
        self._targets[path] = path  # a link back to here is a cycle, and counts as no link
        if target:
            folder = "" if target.startswith("/") else path.rpartition("/")[0]
            self._targets[path] = self._walk(folder, target)
        return self._targets[path]

    def find_matches(self, pattern: str) -> tuple[list[str], bool]:
        """Find the files that match an absolute pattern, ignoring case.

        As in the shell, a star does not match a leading dot, and `**` matches one name. A pattern
        with a final slash matches only folders.

        Returns:
            The paths, and whether there are surely no others.
        """
        found, sure, is_open = [""], True, False
        for name in filter(None, pattern.split("/")):
            glob = read_pattern(fold(name))
            is_open = not glob.plain
            if not is_open:
                found = [f"{folder}/{name}" for folder in found]
                continue
            listed = [self._list_names(folder or "/") for folder in found]
            # The command itself may make a missing folder, or set `**` to mean any depth.
            sure = sure and listed != [None] and name != "**"
            self._lookups += sum(len(names or ()) for names in listed)
            if self._lookups > MAX_LOOKUPS:
                self.is_exhausted = True
                return [], False
            hidden = glob.head.startswith(".")
            found = [
                f"{folder}/{each}"
                for folder, names in zip(found, listed, strict=True)
                for each, folded in names or ()
                if hidden is folded.startswith(".") and glob.fits(folded)
            ]
        end = "/" if pattern.endswith("/") else ""
        if end or not is_open:
            found = [path for path in found if os.path.lexists(f"{path}{end}")]
        return found, sure

    def _list_names(self, folder: str) -> tuple[tuple[str, str], ...] | None:
        """List a folder: each name, and the same name case-folded; None if it can't be read."""
        if folder not in self._listings:
            at = self.resolve(folder).rstrip("/")
            try:
                with os.scandir(folder) as entries:
                    found = list(islice(entries, MAX_LOOKUPS + 1))
                plain = [f"{at}/{each.name}" for each in found if not each.is_symlink()]
            except OSError:
                self._listings[folder] = None
            else:
                self._targets.update(zip(plain, plain, strict=True))  # no link, so no further look
                self._listings[folder] = tuple((each.name, fold(each.name)) for each in found)
        return self._listings[folder]
