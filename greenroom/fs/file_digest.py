"""Digests of files, which are equal as long as the files are the same; what is read is bounded."""

import hashlib
import os
import stat
from collections.abc import Collection, Iterable
from contextlib import suppress

from greenroom.fs.real_file import read_beginning

MAX_NAMES = 10_000  # files that are looked up
MAX_FILES = 100  # files that are read
MAX_BYTES = 16 << 20  # bytes that are read of all files together
MAX_READ = 1 << 20  # bytes that are read of one file
_DATED = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)


def digest_files(
    files: Iterable[str], *, listed: Collection[str] = (), unlisted: Collection[str] = ()
) -> tuple[str, str]:
    """Digest files, as they are now.

    A file counts with its inode, size, time and first 1 MiB, a folder or link with its inode and
    time. Only regular files are ever opened.

    Args:
        files: their paths.
        listed: folders that count with the names in them, and not with their times.
        unlisted: names in these that don't count.

    Returns:
        A digest, and what there was too much of to read, such as "more than 100 files", or "".
    """
    paths = list(dict.fromkeys(files))
    excess = f"more than {MAX_NAMES:,} names" if len(paths) > MAX_NAMES else ""
    digest, seen, left = hashlib.sha256(), set[tuple[int, int]](), MAX_BYTES
    for path in paths[:MAX_NAMES]:
        try:
            status = os.lstat(path)
            names = sorted(set(os.listdir(path)) - set(unlisted)) if path in listed else []
        except OSError:
            continue
        identity = _identify(status, dated=path not in listed)
        digest.update(repr((path, *identity, *names)).encode())
        if stat.S_ISLNK(status.st_mode) or (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        if stat.S_ISREG(status.st_mode):
            left -= min(status.st_size, MAX_READ)
            # A file that can't be read, or has been replaced, counts with its status alone.
            with suppress(OSError):
                beginning = read_beginning(path, MAX_READ, follow=False) if left >= 0 else b""
                digest.update(hashlib.sha256(beginning).digest())
        if len(seen) > MAX_FILES:
            return digest.hexdigest(), f"more than {MAX_FILES} files"
    too_long = f"more than {MAX_BYTES >> 20} MiB of files" if left < 0 else ""
    return digest.hexdigest(), excess or too_long


def _identify(status: os.stat_result, *, dated: bool) -> tuple[int, ...]:
    """Return what changes if another file takes the place of this one."""
    identity = (status.st_mode, status.st_dev, status.st_ino)
    if not dated or stat.S_IFMT(status.st_mode) not in _DATED:
        return identity
    # If only its beginning is read, the one time counts that no program can set.
    unread = status.st_ctime_ns if status.st_size > MAX_READ else 0
    return (*identity, status.st_size, status.st_mtime_ns, unread)
