"""Private temporary folders: gone with their command, or with the next process where we were killed."""

import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from typing import Self

_PREFIX = "greenroom-sandbox-"
_NAME = re.compile(_PREFIX + "[a-z0-9_]{8}")
"""What `mkdtemp` makes of it."""
_MODE = 0o700
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
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            os.rmdir(path)
            raise
        with suppress(OSError):  # where nothing can be locked, nothing is found stale either
            fcntl.flock(fd, fcntl.LOCK_EX)
        return cls(path, fd)

    def give(self, uid: int, gid: int) -> None:
        """Let it belong to another user, whatever stands at its path by now.

        Raises:
            OSError: it can't be given away.
        """
        os.fchown(self._fd, uid, gid)

    def remove(self) -> None:
        """Remove it, also where folders in it were closed; all processes in it have ended."""
        _remove(self.path)
        os.close(self._fd)


def remove_stale() -> None:
    """Remove the folders of processes that were killed before they could, as far as they are ours."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as found:
        for each in found:
            if _NAME.fullmatch(each.name):
                with suppress(OSError):  # another has removed it, or uses it
                    _remove_if_stale(each.path)


def _remove_if_stale(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        is_old = time.time() - status.st_mtime > _YOUNG_SECONDS
        # As we make them: anyone may put something of the name where all may write.
        is_ours = status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == _MODE
        if is_old and is_ours:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)
    finally:
        os.close(fd)


def _remove(folder: str) -> None:
    """Remove as much of it as can be removed."""
    # A command can make folders so deep that Python gives up; they stay, as what the disk refuses.
    with suppress(OSError, RecursionError):
        _remove_all(folder)


def _remove_all(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if os.geteuid() == 0:
        return  # nothing is closed to root, who must not be led elsewhere by who owns it
    for parent, names, _ in os.walk(folder):
        for path in (os.path.join(parent, name) for name in names):
            if not os.path.islink(path):
                os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
