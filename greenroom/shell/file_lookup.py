"""Files on this disk: where links lead, and what patterns match, each looked up once."""

import os
from dataclasses import dataclass, field
from itertools import islice

from greenroom.shell.name_patterns import fold, read_pattern

MAX_LOOKUPS = 50_000  # names that are looked up or compared, as often as they are
MAX_LENGTH = 4096  # of a path that the system can look up


@dataclass(eq=False)
class FileLookup:
    """The links and the names in folders, at the time of one check.

    A command may name thousands of files in one folder; each name is looked up once, and the
    folder as well.

    Attributes:
        is_exhausted: whether a check needed more lookups than are made, so that only a denial may
            rely on where paths lead.
    """

    is_exhausted: bool = False
    _lookups: int = 0
    _targets: dict[str, str] = field(default_factory=dict)
    _missing: set[str] = field(default_factory=set)  # nothing lies in these
    _folders: dict[str, str] = field(default_factory=dict)
    _listings: dict[str, tuple[tuple[str, str], ...] | None] = field(default_factory=dict)

    def resolve(self, path: str) -> str:
        """Follow every link of an absolute path, as `os.path.realpath` does.

        Raises:
            ValueError: no disk can hold the path.
        """
        folder, _, name = path.rpartition("/")
        if folder not in self._folders:
            self._folders[folder] = self._walk("", folder)
        return self._walk(self._folders[folder], name) or "/"

    def _walk(self, at: str, path: str) -> str:
        """Follow a path, name by name; the root folder comes out empty."""
        for name in path.split("/"):
            if name == "..":
                at = at.rpartition("/")[0]
            elif name not in ("", "."):
                at = f"{at}/{name}" if at in self._missing else self._follow(f"{at}/{name}")
        return at

    def _follow(self, path: str) -> str:
        """Follow the last name of a path whose other names are not links."""
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
        self._targets[path] = path  # what leads back here is a circle, and stands for itself
        if target:
            folder = "" if target.startswith("/") else path.rpartition("/")[0]
            self._targets[path] = self._walk(folder, target)
        return self._targets[path]

    def find_matches(self, pattern: str) -> tuple[list[str], bool]:
        """Find the files that an absolute pattern matches, ignoring case.

        As in the shell, a star does not match a dot at the beginning of a name, and `**` matches
        one name. A pattern with a final slash matches folders only.

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
            # The first one may be made by the command itself; `**` may be set to mean any depth.
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
        """List a folder: each name, also folded; None if it can't be."""
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
