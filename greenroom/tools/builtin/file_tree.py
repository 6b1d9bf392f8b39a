"""Listing the files of a folder as git would see them."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from greenroom.tools.builtin.gitignore import IgnoreRules

REPOSITORY_FOLDERS = (".git", ".hg", ".svn", ".jj")
"""Where version control keeps its own files; never listed nor searched."""


def walk_files(base: Path, root: Path, check: Callable[[], None]) -> Iterator[str]:
    """List the regular files below `base`, in the order of their names, folder by folder.

    What `.gitignore` files exclude is left out, those from the top of the repository on (or from
    `root`, where `base` is in no repository). Symbolic links are not followed nor listed, and a
    folder that can't be read counts as empty.

    Args:
        base: a real path.
        root: the workspace's real path.
        check: called once for each folder; it raises to stop.

    Yields:
        Paths relative to `base`, with `/`.
    """
    top, rules = rules_above(base, root)
    start = "" if base == top else f"{base.relative_to(top).as_posix()}/"
    stack: list[tuple[str, IgnoreRules]] = [(start, rules)]
    while stack:
        path, rules = stack.pop()
        if path and not path.endswith("/"):
            yield path[len(start) :]
            continue
        check()
        rules = rules.below(top / path, path)
        names = sorted(_children(top / path, path, rules), key=os.fsencode, reverse=True)
        stack.extend((path + name, rules) for name in names)


def rules_above(base: Path, root: Path) -> tuple[Path, IgnoreRules]:
    """Find where rules begin, and those that hold for `base`, its own file not included."""
    top = root if base.is_relative_to(root) else base
    for folder in (base, *base.parents):
        if (folder / ".git").exists():
            top = folder
            break
    rules = IgnoreRules.parse([])
    for folder in reversed(base.parents):
        if folder.is_relative_to(top):
            relative = folder.relative_to(top).as_posix()
            rules = rules.below(folder, "" if relative == "." else f"{relative}/")
    return top, rules


def _children(folder: Path, path: str, rules: IgnoreRules) -> Iterator[str]:
    """List the names in a folder; those of folders have a final slash."""
    try:
        entries = os.scandir(folder)
    except OSError:
        return
    with entries:
        for entry in entries:
            if entry.name in REPOSITORY_FOLDERS:
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if not is_folder and not entry.is_file(follow_symlinks=False):
                continue
            if not rules.ignores(path + entry.name, is_folder):
                yield f"{entry.name}/" if is_folder else entry.name
