"""One writer to a session: a lock file in its folder, held with `flock`.

The kernel drops the lock when its holder dies, however it dies, so a lock can't go stale; the file's
content (the holder's process id) is only for people. The file is removed on release, so a lock counts
only if the file that it is on still stands in the folder. On network file systems `flock` may not
hold between machines.

A process that forks shares the lock with its child, and the kernel would keep it until both have ended.
So a child lets go of what its parent holds, at once: what it still tries to write is refused. That works
for forks that Python knows of, such as those of `multiprocessing`.
"""

import contextlib
import fcntl
import os
from os import kill  # which is about processes, and no part of a simulated disk

from greenroom.fs.durable import make_folder

_ATTEMPTS = 100

_held: dict[int, int] = {}
"""The descriptors of the locks that this process holds or tries to take, and the inode of each."""


class HeldError(Exception):
    """Somebody else holds the lock; `pid` says who, or is None where that can't be told."""

    def __init__(self, pid: int | None) -> None:
        """Keep the holder's process id."""
        super().__init__(pid)
        self.pid = pid


def lock(folder: str) -> int:
    """Lock a folder, making it where needed; return the file descriptor that holds the lock.

    Raises:
        HeldError: somebody else holds it.
        OSError: the lock file can't be made.
    """
    for _ in range(_ATTEMPTS):
        make_folder(os.path.dirname(folder))
        # Not synced: only the first save makes the folder worth keeping.
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        fd = _try_lock(os.path.join(folder, "lock"))
        if fd is not None:
            return fd
    raise HeldError(None)


def check_held(fd: int, folder: str) -> None:
    """See that the lock is still ours: that nobody removed its file, or put another in its place.

    Raises:
        HeldError: it is not, and who has it now where that is known.
        OSError: the folder can't be looked into.
    """
    if not _is_ours(fd, folder):
        raise HeldError(_successor(folder))


def unlock(fd: int, folder: str) -> None:
    """Remove the lock file if it is still ours, and let go of the lock even if that fails.

    Raises:
        OSError: the file can't be removed; the next holder will take it over.
    """
    try:
        if _is_ours(fd, folder):
            os.unlink(os.path.join(folder, "lock"))
    finally:
        _close(fd)


def _let_go_in_child() -> None:
    """Give up the share in the parent's locks that a fork has given to this process.

    Each descriptor leads to nothing from then on, but its number stays taken: whoever closes it later
    closes no other file.
    """
    for fd, inode in _held.items():
        with contextlib.suppress(OSError):
            if os.fstat(fd).st_ino == inode:
                nothing = os.open(os.devnull, os.O_RDONLY)
                os.dup2(nothing, fd, inheritable=False)
                os.close(nothing)
    _held.clear()


os.register_at_fork(after_in_child=_let_go_in_child)


def _close(fd: int) -> None:
    _held.pop(fd, None)
    os.close(fd)


def _try_lock(path: str) -> int | None:
    """Lock this file, or return None where the last holder has just removed it."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        return None
    try:
        _held[fd] = os.fstat(fd).st_ino
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), os.stat(path)):
            with contextlib.suppress(OSError):  # the lock holds on a full disk too
                os.ftruncate(fd, 0)
                os.pwrite(fd, b"%d\n" % os.getpid(), 0)
            return fd
    except BlockingIOError:
        pid = _holder(fd)
        _close(fd)
        raise HeldError(pid) from None
    except FileNotFoundError:
        pass
    except BaseException:
        _close(fd)
        raise
    _close(fd)
    return None


def _is_ours(fd: int, folder: str) -> bool:
    """Whether the file that this descriptor locks stands in the folder."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(os.path.join(folder, "lock")))
    except FileNotFoundError:
        return False


def is_held(folder: str) -> bool:
    """Whether the process that the lock file names is there: to try the lock would get in its way."""
    pid = _successor(folder)
    return pid is not None and is_alive(pid)


def is_alive(pid: int) -> bool:
    """Whether this machine has such a process; whoever owns it."""
    try:
        kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's, or the file holds what is not a process id
        return True
    return True


def _successor(folder: str) -> int | None:
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW
        fd = os.open(os.path.join(folder, "lock"), flags)
    except OSError:
        return None
    try:
        return _holder(fd)
    finally:
        os.close(fd)


def _holder(fd: int) -> int | None:
    try:
        text = os.pread(fd, 32, 0).strip()
    except OSError:  # it is no file
        return None
    return int(text) if text.isdigit() else None
