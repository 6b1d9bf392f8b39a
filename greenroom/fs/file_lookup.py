"""Lookups on disk: where links lead and where programs are, each looked up once."""

import os
import re
from itertools import islice
from stat import S_ISREG

import msgspec

MAX_LOOKUPS = 50_000  # times that a name is looked up
MAX_LENGTH = 4096  # characters of a path that the system can look up
PROCESS_LINK = re.compile(
    r"/proc/(?P<process>[^/]+)(?:/task/[^/]+)?/(?P<name>cwd|root|(?:fd|map_files)/[^/]+)(?=/|\Z)"
)
"""Matches a link that leads elsewhere for each process: to its folder, root or open files."""


class TooManyNamesError(Exception):
    """More names were looked up than one check may; the message says how many that is."""


class FileLookup(msgspec.Struct, eq=False):
    """A cache of links, folders and programs, for one check.

    A command may name thousands of files in one folder; each name is looked up once, and so is the
    folder.

    Attributes:
        is_exhausted: whether the limit of lookups was reached, so that only a denial may rely on
            where paths lead.
        searched: how many names were looked at in searches of whole folders.
    """

    is_exhausted: bool = False
    searched: int = 0
    _lookups: int = 0
    _targets: dict[str, str] = msgspec.field(default_factory=dict)
    _missing: set[str] = msgspec.field(default_factory=set)  # paths that don't exist
    _folders: dict[str, str] = msgspec.field(default_factory=dict)
    _listings: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    _programs: dict[tuple[str, str], str | None] = msgspec.field(default_factory=dict)

    def resolve(self, path: str) -> str:
        """Follow every link in an absolute path, as `os.path.realpath` does.

        Links in /proc are left as they are, since they lead elsewhere for each process; so is what
        comes behind `PROCESS_LINK`.

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
            if at.startswith("/proc/") and PROCESS_LINK.match(at):
                at = f"{at}/{name}"
            elif name == "..":
                at = at.rpartition("/")[0]
            elif name not in ("", "."):
                at = f"{at}/{name}" if at in self._missing else self._follow(f"{at}/{name}")
        return at

    def _follow(self, path: str) -> str:
        """Follow the last name of a path without other links."""
        if path in self._targets:
            return self._targets[path]
        if path.startswith("/proc/"):
            return path
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

    def list_folder(self, folder: str) -> tuple[str, ...]:
        """List the names in a folder; nothing if it can't be read.

        Raises:
            TooManyNamesError: too much was looked up.
        """
        if folder not in self._listings:
            try:
                with os.scandir(folder) as entries:
                    names = tuple(each.name for each in islice(entries, MAX_LOOKUPS + 1))
            except OSError:
                names = ()
            self._listings[folder] = names
        self._lookups += len(self._listings[folder]) + 1
        if self._lookups > MAX_LOOKUPS:
            raise TooManyNamesError(f"more than {MAX_LOOKUPS:,} names")
        return self._listings[folder]

    def find_program(self, name: str, search_path: str) -> str | None:
        """Find the file of a program as a shell does, but only in absolute folders."""
        key = (name, search_path)
        if key not in self._programs:
            paths = (f"{folder}/{name}" for folder in search_path.split(os.pathsep))
            self._programs[key] = next(filter(_is_program, paths), None)
        return self._programs[key]


def _is_program(path: str) -> bool:
    try:
        return path[0] == "/" and S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)
    except (OSError, ValueError):
        return False
