"""A survey: the stamps of all files of a workspace, to see afterwards which of them changed."""

import os
import threading
from collections.abc import Collection, Iterator
from pathlib import Path

import trio

from greenroom.tools.builtin.file_tree import REPOSITORY_FOLDERS, rules_above
from greenroom.tools.builtin.gitignore import IgnoreRules
from greenroom.tools.workspace.file_state import Stamp, stamp_of

MAX_FILES = 50_000
"""A workspace of more files is not surveyed."""


_MOST_PASSED_OVER = 1_000  # paths; a gap names a few of them


class Coverage:
    """Which files of a workspace are looked at: by the rules as they were at the first survey.

    Left out is what git would ignore, the folders of version control, and folders that could not be
    read. A later survey keeps to that: what a command has uncovered was not made by it.
    """

    def __init__(self, root: Path, left_out: Collection[str] = ()) -> None:
        """Take the root's real path, and real paths of folders that are never looked into."""
        self._root = root
        self._left_out = frozenset(left_out)
        self._rules: dict[str, IgnoreRules] = {}
        self._closed: set[str] = set()
        self.passed_over: set[str] = set()
        """Paths of files and folders that were not looked at, up to some number."""

    def survey(self, late: threading.Event) -> dict[str, Stamp]:
        """Return the stamps of files and symbolic links, by path from the root with `/`.

        Call it in a thread of trio's: a cancel ends it at the next folder. Once it is `late`, or
        has more than 50,000, it returns what it has.
        """
        top, above = rules_above(self._root, self._root)
        prefix = "" if self._root == top else f"{self._root.relative_to(top).as_posix()}/"
        found: dict[str, Stamp] = {}
        waiting = [("", above)]
        while waiting and not late.is_set():
            trio.from_thread.check_cancelled()
            folder, above = waiting.pop()
            rules = self._rules_of(folder, prefix, above)
            for entry in self._children(folder):
                path = folder + entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                is_kept_by_git = is_folder and entry.name in REPOSITORY_FOLDERS
                if is_kept_by_git or rules.ignores(prefix + path, is_folder):
                    self._pass_over(f"{path}/" if is_folder else path)
                    continue
                if entry.name in REPOSITORY_FOLDERS:
                    continue
                if is_folder:
                    waiting.append((f"{path}/", rules))
                elif stamp := _stamp(entry):
                    found[path] = stamp
            if len(found) > MAX_FILES:
                break
        return found

    def _rules_of(self, folder: str, prefix: str, above: IgnoreRules) -> IgnoreRules:
        if folder not in self._rules:
            self._rules[folder] = above.below(self._root / folder, prefix + folder)
        return self._rules[folder]

    def _children(self, folder: str) -> Iterator["os.DirEntry[str]"]:
        path = os.path.join(self._root, folder)
        if folder in self._closed or path.rstrip("/") in self._left_out:
            return
        try:
            entries = os.scandir(path)
        except OSError:
            self._closed.add(folder)
            return
        with entries:
            yield from entries

    def _pass_over(self, path: str) -> None:
        if len(self.passed_over) < _MOST_PASSED_OVER:
            self.passed_over.add(path)


def _stamp(entry: "os.DirEntry[str]") -> Stamp | None:
    try:
        return stamp_of(entry.stat(follow_symlinks=False))
    except OSError:  # gone this moment
        return None
