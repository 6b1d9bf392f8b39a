"""What lies on the disk of the files that a call's commands name, so that another one is noticed."""

import hashlib
import os
import posixpath
import shutil
import stat
from collections.abc import Iterator, Sequence

from greenroom.core import CONFIGURATION_FOLDERS
from greenroom.permissions.facts.fact import Command, PathUse
from greenroom.permissions.judging.call import Call
from greenroom.permissions.judging.operands import named_files

__all__ = ["fingerprint", "outermost"]

MAX_NAMES = 10_000  # that are looked up
MAX_FILES = 100
MAX_BYTES = 16 << 20  # that are read of all together
MAX_READ = 1 << 20  # of one file
_MADE_UP = ("/proc/", "/sys/")  # what is in there differs at each look
_DATED = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)


def fingerprint(call: Call) -> tuple[str, str]:
    """Look at the files that the commands of a call name, and at the programs that they run.

    Of each file the inode, the size, the time and the first 1 MiB count, of a folder and of a link
    the inode and the time, of the workspace itself the names in it. Nothing but a regular file is
    ever opened.

    Returns:
        A digest, and what there is too much of to look at all of it: empty if there is nothing.
    """
    paths = [path for path in dict.fromkeys(_paths(call)) if not path.startswith(_MADE_UP)]
    excess = f"more than {MAX_NAMES:,} names" if len(paths) > MAX_NAMES else ""
    roots = (call.place.root, os.path.realpath(call.place.root))
    digest, seen, left = hashlib.sha256(), set[tuple[int, int]](), MAX_BYTES
    for path in paths[:MAX_NAMES]:
        try:
            status = os.lstat(path)
            # In the workspace itself we make names: a folder of rules, placeholders of a sandbox.
            names = sorted(set(os.listdir(path)) - CONFIGURATION_FOLDERS) if path in roots else []
        except OSError:
            continue
        identity = _identity(status, dated=path not in roots)
        digest.update(repr((path, *identity, *names)).encode())
        if stat.S_ISLNK(status.st_mode) or (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        if stat.S_ISREG(status.st_mode):
            left -= min(status.st_size, MAX_READ)
            digest.update(_beginning(path) if left >= 0 else b"")
        if len(seen) > MAX_FILES:
            return digest.hexdigest(), f"more than {MAX_FILES} files"
    too_long = f"more than {MAX_BYTES >> 20} MiB of files" if left < 0 else ""
    return digest.hexdigest(), excess or too_long


def outermost(commands: Sequence[Command]) -> Iterator[Command]:
    """Leave out what other commands run, which have its words among their own."""
    known = set(map(id, commands))
    return (each for each in commands if id(each.outer) not in known)


def _paths(call: Call) -> Iterator[str]:
    """Name every place where something may lie that a command reads, writes or runs."""
    commands = [fact for fact in call.facts if isinstance(fact, Command)]
    programs = ((each.argv[0].text, each.place or call.place) for each in commands)
    for name, place in dict.fromkeys(programs):
        folders = (posixpath.join(place.folder, folder) for folder in os.get_exec_path())
        # One with a slash is named like any other file.
        found = "/" not in name and shutil.which(name, path=os.pathsep.join(folders))
        yield from (found, os.path.realpath(found)) if found else ()
    uses = [fact for fact in call.facts if isinstance(fact, PathUse)]
    for each in outermost(commands):
        uses += (use for word in each.argv for use in named_files(word, each.place, call))
    for use in uses:
        yield from (*use.lexical, *use.real)


def _identity(status: os.stat_result, *, dated: bool) -> tuple[int, ...]:
    """Say what tells a file from another one in its place."""
    identity = (status.st_mode, status.st_dev, status.st_ino)
    if not dated or stat.S_IFMT(status.st_mode) not in _DATED:
        return identity
    # Where not all of it is read, the time counts that no program can set.
    unread = status.st_ctime_ns if status.st_size > MAX_READ else 0
    return (*identity, status.st_size, status.st_mtime_ns, unread)


def _beginning(path: str) -> bytes:
    """Hash what a file begins with; nothing of one that can't be read, or is not there any more."""
    try:
        # Something else may have been put there meanwhile, which must not be waited for.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            is_file = stat.S_ISREG(os.fstat(fd).st_mode)
            return hashlib.sha256(file.read(MAX_READ) if is_file else b"").digest()
    except OSError:
        return b""
