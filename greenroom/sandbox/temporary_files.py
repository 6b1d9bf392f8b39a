"""Temporary files of one command, removed with it: its temporary folder, and placeholders."""

import errno
import fcntl
import os
import shutil
import stat
import tempfile
import threading
import time
from contextlib import suppress
from typing import Self

from greenroom.core._internal import CONFIGURATION_FOLDERS, compile_later

_PREFIX = "greenroom-sandbox-"
_NAME = compile_later(_PREFIX + "[a-z0-9_]{8}")
"""The names that `mkdtemp` makes from it."""
_MODE = 0o700
_YOUNG_SECONDS = 60.0
"""A younger folder may have just been made, and not be locked yet."""


class TemporaryFolder:
    """The temporary folder of one command, from `make` to `remove`.

    As long as we live, a lock on it marks it as in use.

    Attributes:
        path: its real path.
    """

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    @classmethod
    def make(cls) -> Self:
        """Make an empty folder.

        Raises:
            OSError: it can't be made.
        """
        path = os.path.realpath(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            os.rmdir(path)
            raise
        with suppress(OSError):  # if nothing can be locked, nothing is removed as stale either
            fcntl.flock(fd, fcntl.LOCK_EX)
        return cls(path, fd)

    def give(self, uid: int, gid: int) -> None:
        """Give the folder to another user, even if its path leads elsewhere by now.

        Raises:
            OSError: it can't be given away.
        """
        os.fchown(self._fd, uid, gid)

    def remove(self) -> None:
        """Remove the folder, even if folders in it lack permissions; its processes are gone."""
        _remove(self.path)
        os.close(self._fd)


def remove_stale() -> None:
    """Remove our folders that were left by processes that were killed before they could do so."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as found:
        for each in found:
            if _NAME.fullmatch(each.name):
                with suppress(OSError):  # another process has removed it, or uses it
                    _remove_if_stale(each.path)


def _remove_if_stale(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        is_old = time.time() - status.st_mtime > _YOUNG_SECONDS
        # Anyone may make a folder with such a name here, so owner and mode have to be ours as well.
        is_ours = status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == _MODE
        if is_old and is_ours:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)
    finally:
        os.close(fd)


def _remove(folder: str) -> None:
    """Remove as much of a folder as can be removed."""
    # A command can make folders too deep for Python; they stay, like what the disk refuses to drop.
    with suppress(OSError, RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
        if os.geteuid() == 0:
            return  # root needs no permissions, and must not follow a link that the owner has made
        for parent, names, _ in os.walk(folder):
            for path in (os.path.join(parent, name) for name in names):
                if not os.path.islink(path):
                    os.chmod(path, 0o700)
        shutil.rmtree(folder, ignore_errors=True)


# Only an existing path can be mounted over. So protected files and folders that don't exist yet are
# made as placeholders, empty and with an unusual mode, and removed when the last command that needs
# them has ended.

# The sticky bit marks a placeholder; one that another program has put to use stays.
_FOLDER_MODE, _FILE_MODE = 0o1755, 0o1644

_ROUNDS = 50
_ROUND_SECONDS = 0.02
_never = threading.Event()


class Placeholders:
    """Keeps placeholders in place, from `hold` to `release`; several holders may share them.

    Each holder has a shared lock on the folder of its placeholders, and only the last one can
    remove them. So none is removed while a command needs it, in whatever process. The placeholders
    of a killed process are recognized by their mode, and removed with those of the next holder.
    """

    def __init__(self) -> None:
        self._folders: dict[str, int] = {}
        self._names: list[str] = []

    @classmethod
    def hold(cls, names: tuple[str, ...]) -> Self:
        """Make a placeholder for each missing path. Blocks for at most a second.

        None is made in a folder that can't be written, since the command can't write there either.

        Raises:
            OSError: one can't be made for another reason, such as a full disk, or another program
                keeps the folder locked.
        """
        held = cls()
        try:
            for name in names:
                held._make(name)
        except BaseException:
            held.release()
            raise
        return held

    def _make(self, name: str) -> None:
        folder = os.path.dirname(name)
        if folder not in self._folders:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            self._folders[folder] = fd
            _lock_shared(fd, folder)
        try:
            if os.path.basename(name) in CONFIGURATION_FOLDERS:
                os.mkdir(name, _FOLDER_MODE)
            else:
                os.close(os.open(name, os.O_CREAT | os.O_EXCL, _FILE_MODE))
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS):
                raise
        if os.path.lexists(name) and _is_placeholder(name):
            self._names.append(name)

    def release(self) -> None:
        """Release all placeholders, and remove those that no other holder needs."""
        for folder, fd in self._folders.items():
            with suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._remove(folder)
            os.close(fd)
        self._folders.clear()

    def _remove(self, folder: str) -> None:
        for name in self._names:
            with suppress(OSError):  # another program uses it or has removed it
                if os.path.dirname(name) == folder and _is_placeholder(name):
                    (os.rmdir if os.path.isdir(name) else os.unlink)(name)


def _lock_shared(fd: int, folder: str) -> None:
    """Take a shared lock; another process may hold it exclusively while it removes placeholders."""
    for _ in range(_ROUNDS):
        with suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return
        # `flock` has no time-out, and another program may never give the lock up.
        _never.wait(_ROUND_SECONDS)
    raise BlockingIOError(errno.EWOULDBLOCK, f"another program keeps {folder} locked")


def _is_placeholder(name: str) -> bool:
    status = os.lstat(name)
    is_marked = bool(status.st_mode & stat.S_ISVTX)
    is_empty_file = stat.S_ISREG(status.st_mode) and status.st_size == 0
    return is_marked and (is_empty_file or stat.S_ISDIR(status.st_mode))
