"""Private temporary folders: gone with their command, or with the next process where we were killed."""

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from typing import Self

__all__ = ["TemporaryFolder", "remove_stale"]

_PREFIX = "greenroom-sandbox-"
_YOUNG_SECONDS = 60.0
"""Such a folder may have been made just now, and not be locked yet."""


class TemporaryFolder:
    """A folder of one command, from `make` to `remove`.

    As long as we live, a lock on it says that it is in use.

    Attributes:
        path: its real path.
    """

    def __init__(self, path: str, fd: int) -> None:
        """Take over a folder that is locked by this file descriptor."""
        self.path = path
        self._fd = fd

    @classmethod
    def make(cls) -> Self:
        """Make an empty one.

        Raises:
            OSError: it can't be made.
        """
        path = os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX))
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(fd, fcntl.LOCK_EX)
        return cls(path, fd)

    def remove(self) -> None:
        """Remove it, also where folders in it were closed; all processes in it have ended."""
        _remove(self.path)
        os.close(self._fd)


def remove_stale() -> None:
    """Remove the folders of processes that were killed before they could, as far as they are ours."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as found:
        for each in found:
            if each.name.startswith(_PREFIX):
                with suppress(OSError):  # another has removed it, or uses it
                    _remove_if_stale(each.path)


def _remove_if_stale(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        is_old = time.time() - status.st_mtime > _YOUNG_SECONDS
        if is_old and os.geteuid() in (0, status.st_uid):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)
    finally:
        os.close(fd)


def _remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if os.geteuid() == 0:
        return  # nothing is closed to root, who must not be led elsewhere by who owns it
    for parent, names, _ in os.walk(folder):
        for path in (os.path.join(parent, name) for name in names):
            if not os.path.islink(path):
                os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
