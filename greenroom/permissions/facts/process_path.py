"""Paths through `/proc`, which mean to a command what they don't mean here."""

import posixpath
import re
from collections.abc import Sequence

__all__ = ["MAY_BE_OWN", "as_its_own"]

MAX_STEPS = 8
MAY_BE_OWN = ("/proc", "/dev", "//")  # what such paths begin with
_LINK = re.compile(r"/+(?:proc|dev/+fd)(?:/+[^/]+)*?/+(cwd|root)(?=/|$)")


def as_its_own(path: str, folders: Sequence[str]) -> list[str]:
    """Say where a command in one of these folders gets to by the links to its folder or its root.

    Which process is meant does not matter: taken for the command's own, a denied file is found.
    A path without such a link leads nowhere else.

    Example:
        >>> as_its_own("/proc/self/cwd/.env", ["/work"]), as_its_own("/proc/cpuinfo", ["/work"])
        (['/work/.env'], [])
    """
    found: list[str] = []
    for _ in range(MAX_STEPS):
        link = _LINK.match(path)
        if link is None:
            break
        rest = path[link.end() :].lstrip("/")
        if link[1] == "cwd":
            return [*found, *(posixpath.join(folder, rest) for folder in folders)]
        path = f"/{rest}"
        found = [path]
    return found
