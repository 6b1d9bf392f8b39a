"""What is known about programs, such as what they read and contact without a word that says so."""

import os
import posixpath
from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path

from greenroom.programs._internal import PROGRAMS, basename, read_rows

MAX_FOLDERS = 8  # above the current one


class _Table(dict[str, frozenset[str]]):
    def __missing__(self, title: str) -> frozenset[str]:
        return frozenset()


def _read_table() -> Mapping[str, frozenset[str]]:
    table = _Table()
    files = map(Path(__file__).with_name, ("operands.txt", "suggestions.txt"))
    for title, words in chain.from_iterable(map(read_rows, files)):
        kind, _, names = title.partition(" ")
        for name in names.split("|"):
            table[f"{kind} {name}".strip()] |= frozenset(words)
    return table


TABLE = _read_table()
"""Programs, verbs, options and files by the titles of their rows, which the two files explain."""


def find_default_files(argv: Sequence[str], folder: str) -> tuple[str, ...] | None:
    """List the files that a command reads without being told, whether they exist or not.

    Args:
        argv: its words.
        folder: the current folder, as an absolute path.

    Returns:
        Their paths; None if it is not known what the program reads.

    Example:
        >>> find_default_files(["go", "vet"], "/w")
        ('/go.mod', '/go.sum', '/go.work', '/w/go.mod', '/w/go.sum', '/w/go.work')
        >>> find_default_files(["ls"], "/w"), find_default_files(["python", "a.py"], "/w")
        ((), None)
    """
    # A program may run another one, as in `npx tsc` and `python -m pytest`.
    names = frozenset().union(*(TABLE.get(f"reads {basename(word)}", ()) for word in argv))
    program = basename(argv[0])
    if not names and (program in TABLE["more"] or program not in PROGRAMS):
        return None
    named = (posixpath.join(folder, word) for word in argv[1:])
    folders = {folder, *(each for each in named if os.path.isdir(each))} if names else set()
    for each in tuple(folders):
        parents = accumulate(range(MAX_FOLDERS), lambda at, _: posixpath.dirname(at), initial=each)
        folders.update(parents)
    return tuple(sorted(posixpath.join(each, name) for each in folders for name in names))
