"""The names that a repository tracks, read from its index without starting git."""

import os
from collections.abc import Iterable, Iterator, Sequence

from greenroom.fs._internal import fold, read_beginning

MAX_INDEX = 16 << 20  # bytes; a longer one may track anything
MAX_LINK = 4096  # bytes of a file that says where the repository is
_PLAIN_INDEXES = (b"DIRC\0\0\0\2", b"DIRC\0\0\0\3")


def find_root(folder: str, names: Sequence[str] = (".git",)) -> str:
    """Find the folder of the repository that a folder is in; empty if it is in none.

    Args:
        folder: its absolute path.
        names: what lies in the folder of a repository.
    """
    while not any(os.path.lexists(os.path.join(folder, name)) for name in names):
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above
    return folder


def list_tracked(root: str, marks: Iterable[str]) -> Iterator[str]:
    """List the files that a repository tracks, if one of these marks occurs in their names at all.

    It ends with an empty name if they can't be read.

    Args:
        root: the folder of the repository.
        marks: texts in small letters with slashes around names; see `PathPattern.marks`.
    """
    try:
        index = _read_index(root)
    except FileNotFoundError:
        return  # nothing is tracked yet
    except (OSError, ValueError):
        index = b""
    if index[:8] not in _PLAIN_INDEXES or len(index) >= MAX_INDEX:
        yield ""
        return
    names = fold(root) + index.decode("utf-8", "replace").lower()
    is_marked = any(mark.strip("/") in names or not mark.isascii() for mark in marks)
    at, count = 12, int.from_bytes(index[8:12]) if is_marked else 0
    for _ in range(count):
        is_extended = index[at + 60 : at + 61] >= b"\x40" and index[at + 60] & 0x40
        begin = at + (64 if is_extended else 62)
        end = index.find(b"\0", begin)
        if end < 0:  # the names of another hash
            yield ""
            return
        yield f"{root}/{os.fsdecode(index[begin:end])}"
        at += (end - at) // 8 * 8 + 8


def _read_index(root: str) -> bytes:
    folder = f"{root}/.git"
    if not os.path.isdir(folder):  # another working tree, or a submodule
        text = read_beginning(folder, MAX_LINK).decode()
        folder = os.path.join(root, text.removeprefix("gitdir:").strip())
    return read_beginning(f"{folder}/index", MAX_INDEX)
