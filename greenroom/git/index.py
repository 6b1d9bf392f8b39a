"""The names that a repository tracks, read from its index without starting git."""

import os
from collections.abc import Iterable, Iterator, Sequence

from greenroom.fs._internal import fold, read_beginning

MAX_INDEX = 16 << 20  # bytes; a longer one may track anything
MAX_LINK = 4096  # bytes of a file that says where the repository is
_PLAIN_INDEXES = (b"DIRC\0\0\0\2", b"DIRC\0\0\0\3")
_HASHES = (20, 32)  # bytes of SHA-1 and SHA-256
_EXTENDED, _LENGTH = 0x4000, 0xFFF  # of the flags of an entry
_PARTIAL = (b"link\0", b"sdir\0")
"""Extensions of a split index and of a sparse one, with the first byte of their lengths."""


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
    if not is_marked and not any(sign in index for sign in _PARTIAL):
        return
    for size in _HASHES:
        if (tracked := _read_names(index, size)) is not None:
            yield from (f"{root}/{each}" for each in tracked if is_marked)
            return
    yield ""


def _read_names(index: bytes, size: int) -> list[str] | None:
    """Read the names in an index whose hashes have this size; None if it is not such an index."""
    names, at = list[str](), 12
    for _ in range(int.from_bytes(index[8:12])):
        flags = int.from_bytes(index[at + 40 + size : at + 42 + size])
        begin = at + size + (44 if flags & _EXTENDED else 42)
        end = index.find(b"\0", begin)
        if end < 0 or min(end - begin, _LENGTH) != flags & _LENGTH:
            return None
        names.append(os.fsdecode(index[begin:end]))
        at += (end - at) // 8 * 8 + 8
    while at + 8 <= len(index) - size:
        if index[at : at + 1].islower():  # other files have a part of it, or it names folders alone
            return None
        at += 8 + int.from_bytes(index[at + 4 : at + 8])
    return names if at == len(index) - size else None


def _read_index(root: str) -> bytes:
    folder = f"{root}/.git"
    if not os.path.isdir(folder):  # another working tree, or a submodule
        text = read_beginning(folder, MAX_LINK).decode()
        folder = os.path.join(root, text.removeprefix("gitdir:").strip())
    return read_beginning(f"{folder}/index", MAX_INDEX)
