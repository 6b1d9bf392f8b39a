"""Symbolic links, looked up once for each name within one check."""

import os
import posixpath
import stat

__all__ = ["Links"]

MAX_LOOKUPS = 50_000
MAX_LENGTH = 4096  # of a path that the system can look up


class Links:
    """Where paths lead on this disk, at the time of one check.

    A command may name thousands of files in one folder; each name is looked up once, and the
    folder as well.

    Attributes:
        full: there were more names than are looked up for one check, or a path longer than the
            system takes; links among them are not followed, so nothing but a denial may rely on
            where they lead.
    """

    def __init__(self) -> None:
        """Begin with nothing looked up."""
        self.full = False
        self._ends: dict[str, str] = {}
        self._folders: dict[str, str] = {}
        self._missing: set[str] = set()  # nothing lies in these

    def real(self, path: str) -> str:
        """Follow every link of an absolute path, as `os.path.realpath` does.

        Raises:
            ValueError: no disk can hold the path.
        """
        folder, _, name = path.rpartition("/")
        if name in ("", ".", ".."):
            return self._walked(path) or "/"
        if folder not in self._folders:
            self._folders[folder] = self._walked(folder)
        at = self._folders[folder]
        if at in self._missing:
            return f"{at}/{name}"
        return self._end(f"{at}/{name}") or "/"

    def _walked(self, path: str) -> str:
        """Follow every link, name by name; the root folder comes out empty."""
        at = ""
        for name in path.split("/"):
            if name == "..":
                at = at.rpartition("/")[0]
            elif at in self._missing:
                at = at if name in ("", ".") else f"{at}/{name}"
            elif name not in ("", "."):
                at = self._end(f"{at}/{name}")
            if len(at) > MAX_LENGTH:
                self.full = True
                return posixpath.normpath(path)
        return at

    def _end(self, path: str) -> str:
        """Follow the last name of a path whose other names are no links."""
        end = self._ends.get(path)
        if end is None:
            if len(self._ends) >= MAX_LOOKUPS:
                self.full = True
                return path
            # What leads back here is a circle, and stands for itself.
            self._ends[path] = path
            end = self._ends[path] = self._target(path)
        return end

    def _target(self, path: str) -> str:
        try:
            if not stat.S_ISLNK(os.lstat(path).st_mode):
                return path
            target = os.readlink(path)
        except FileNotFoundError:
            self._missing.add(path)
            return path
        except OSError:
            return path
        folder = "" if target.startswith("/") else path.rpartition("/")[0]
        return self._walked(f"{folder}/{target}")
