"""The system calls that durability and the single writer depend on; every function here blocks.

**Durability.** What has returned survives a crash of the process and a loss of power, as far as the
disk honours a flush: data is synced before it is acknowledged, and so is every folder in which a
name appeared or changed. No file is opened through a link, which may lead to another user's.

**One writer.** A folder has a lock file, held with `flock`. The kernel drops the lock when its
holder dies, however it dies, so a lock can't go stale; the file's content (the holder's process id
and its name) is only for people. The file is removed on release, so a lock counts only if the file
that it is on is still in the folder. On network file systems `flock` may not hold between machines.
A process that forks shares the lock with its child, and the kernel would keep it until both have
ended. So a child releases its parent's locks at once, and whatever it still tries to write is
refused. That works for forks that Python knows of, such as those of `multiprocessing`.
"""

import contextlib
import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from os import kill  # which is about processes, and no part of a simulated disk

_NOT_OURS = {errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOTSUP, errno.EROFS}
_MAX_BYTES = 1 << 30  # bytes to a file: beyond any conversation, within what a machine can hold
_CHUNK = 1 << 24  # bytes to a read: a file is seldom longer


class SyncError(OSError):
    """The system could not flush to the disk. What was written since the last flush is uncertain.

    Trying again proves nothing: the kernel may have dropped the pages and would then report
    success.
    """


@contextmanager
def _open(path: str, flags: int) -> Iterator[int]:
    """Open a file or folder for the length of a `with` block; yields its descriptor."""
    fd = os.open(path, flags)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _as_sync_error() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SyncError(*error.args) from error


def append(fd: int, data: bytes, at: int, *, flush: bool = True) -> None:
    """Append to a file that ends at this offset, and sync it unless `flush` is false.

    A write that fails is rolled back, so that the file holds all of the data or none.

    Raises:
        SyncError: the data was written but not flushed, or could not be rolled back.
        OSError: nothing was written.
    """
    status = os.fstat(fd)
    if status.st_size != at or status.st_nlink == 0:
        raise OSError("the file was changed or removed by another program")
    if at + len(data) > _MAX_BYTES:  # it could not be read again
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    try:
        _write_all(fd, data)
        if flush:
            sync(fd)
    except OSError:
        _roll_back(fd, at)
        raise


def replace(path: str, data: bytes) -> None:
    """Replace a file in a folder of ours with these bytes, all or nothing, and sync the folder.

    Only one program at a time may do so: it first writes to the path with `.tmp` appended.

    Raises:
        SyncError: a flush failed; the old file or the new one is in place.
        OSError: the old file is in place.
    """
    _rename_over(path, f"{path}.tmp", data)
    sync_folder(os.path.dirname(path) or ".")


def write_file(path: str, data: bytes) -> None:
    """Write a file in any folder, whole or not at all, accessible to this user only.

    No other file is touched, and several programs may do so at once. A folder that can't be
    flushed, as on some network file systems, is left to the system.

    Raises:
        SyncError: the content could not be flushed; what was there is in place.
        OSError: what was there is in place.
    """
    folder = os.path.dirname(path)
    _rename_over(path, os.path.join(folder, f".greenroom-{secrets.token_hex(8)}.tmp"), data)
    try:
        sync_folder(folder or ".")
    except OSError as error:
        if error.errno not in _NOT_OURS:
            raise


def _rename_over(path: str, temporary: str, data: bytes) -> None:
    try:
        fd = _open_new(temporary)
        try:
            _write_all(fd, data)
            sync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):  # nobody knows the temporary one
            error.filename, error.filename2 = path, None
        raise


def rewrite(path: str, start: int, stop: int) -> None:
    """Write part of a file and its size again, so that the disk has what readers see.

    A sync alone proves nothing: after one that failed, the kernel may show data that the disk lacks
    and treat it as clean. The same goes for the size, where a truncation could not be synced.

    Raises:
        SyncError: the system could not flush.
        OSError: the file can't be read or written; it shows what it did before.
    """
    with _open(path, os.O_RDWR | os.O_NOFOLLOW) as fd:
        while start < stop:
            piece = os.pread(fd, min(stop - start, _CHUNK), start)
            if not piece:
                raise OSError("the file was changed by another program")
            start += os.pwrite(fd, piece, start)
        os.ftruncate(fd, os.fstat(fd).st_size)
        sync(fd)


def sync(fd: int) -> None:
    """Flush a file's content to the disk.

    Raises:
        SyncError: the system could not.
    """
    try:
        if hasattr(fcntl, "F_FULLFSYNC"):  # macOS, where fsync leaves data in the disk's cache
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(fd)
    except OSError as error:
        raise SyncError(*error.args) from error


def sync_folder(path: str) -> None:
    """Flush a folder, so that names made or changed in it are on the disk.

    Raises:
        SyncError: the system could not.
    """
    with _open(path, os.O_RDONLY | os.O_DIRECTORY) as fd, _as_sync_error():
        os.fsync(fd)


def sync_folders_above(path: str) -> None:
    """Flush all folders above this one, so that its name and theirs are on the disk.

    The process that made one of them may have crashed or failed before its name was safe. A folder
    that can't be read or flushed at all belongs to another user or file system, so we did not make
    it.

    Raises:
        SyncError: the system could not.
    """
    above = os.path.dirname(path)
    if above == path:
        return
    try:
        sync_folder(above)
    except OSError as error:
        if error.errno not in _NOT_OURS:
            raise
    sync_folders_above(above)


def make_folder(path: str) -> None:
    """Make a folder and its parents, accessible to this user only, unless it exists.

    Raises:
        OSError: it can't be made.
    """
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_folder(os.path.dirname(path))
        with contextlib.suppress(FileExistsError):  # another process was faster
            os.mkdir(path, 0o700)
    sync_folder(os.path.dirname(path))


def truncate(path: str, size: int) -> None:
    """Truncate a file to this size, and sync it.

    Raises:
        SyncError: a flush failed.
        OSError: the file is as it was.
    """
    with _open(path, os.O_WRONLY | os.O_NOFOLLOW) as fd:
        os.ftruncate(fd, size)
        sync(fd)


def read_bytes(path: str, start: int = 0) -> bytes | None:
    """Read a file from an offset on; return None if the file does not exist.

    Raises:
        OSError: it can't be read, is not a regular file, or is longer than 1 GiB.
    """
    try:
        with open_to_read(path, start) as (fd, _):
            return _read_to_end(fd, start)
    except FileNotFoundError:
        return None


@contextmanager
def open_to_read(path: str, start: int = 0) -> Iterator[tuple[int, int]]:
    """Open a file for reading from an offset on; yields its descriptor and its size.

    Raises:
        FileNotFoundError: the file does not exist.
        OSError: it can't be read, is not a regular file, or is longer than 1 GiB.
    """
    # A pipe would wait for a writer.
    with _open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW) as fd:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        if status.st_size - start > _MAX_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        yield fd, status.st_size


def read_between(fd: int, start: int, stop: int) -> bytes:
    """Read a part of an open file.

    Raises:
        OSError: it can't be read, or the file ends before that.
    """
    parts = []
    while start < stop:
        part = os.pread(fd, stop - start, start)
        if not part:
            raise OSError("the file was changed by another program")
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _open_new(path: str) -> int:
    """Make a new file, and remove whatever a crash or another program left in its place."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return os.open(path, flags, 0o600)
    except FileExistsError:
        os.unlink(path)  # it may be a pipe, or a link to another user's file
    return os.open(path, flags, 0o600)


def _read_to_end(fd: int, start: int) -> bytes:
    parts = []
    while part := os.pread(fd, _CHUNK, start):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _write_all(fd: int, data: bytes) -> None:
    """Write everything; one call may write less than it was given, as on a disk almost full."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _roll_back(fd: int, size: int) -> None:
    with _as_sync_error():
        if os.fstat(fd).st_size != size:  # a file system that turned read-only has written nothing
            os.ftruncate(fd, size)


_HIDDEN = ".deleted-"


def remove_folder(folder: str) -> None:
    """Remove a folder; durable when it returns.

    The folder is renamed first, and its content is removed only when that is on the disk: so a
    crash leaves the folder whole or gone. What a crash leaves of a removed folder has a name that
    begins with a dot, and is removed with the next folder. Several may be removed at the same time.

    Raises:
        SyncError: a flush failed; the folder is whole or gone.
        OSError: it is whole; or it is gone, and the error names what of it can't be removed.
    """
    root, name = os.path.split(folder)
    # Listed before the sync: what is renamed after it may come back whole with a loss of power.
    left_over = [each for each in os.listdir(root) if _is_leftover(each)]
    hidden = os.path.join(root, f"{_HIDDEN}{name}-{secrets.token_hex(8)}")
    os.rename(folder, hidden)
    sync_folder(root)
    _remove_tree(hidden)
    for each in left_over:
        with contextlib.suppress(OSError):  # it may be another user's, or damaged
            _remove_tree(os.path.join(root, each))


def _is_leftover(name: str) -> bool:
    """Return whether a crash left this behind when a folder was removed."""
    return name.startswith(_HIDDEN)


def _remove_tree(path: str) -> None:
    """Remove a folder and everything in it; a link is removed, never its target.

    What is missing was removed by another delete, which cleans up after crashes just like this one.
    """
    found, waiting = list[tuple[str, bool]](), [path]
    while waiting:
        each = waiting.pop()
        with contextlib.suppress(FileNotFoundError):
            is_folder = stat.S_ISDIR(os.lstat(each).st_mode)
            found.append((each, is_folder))
            if is_folder:
                waiting += [os.path.join(each, name) for name in os.listdir(each)]
    for each, is_folder in reversed(found):
        with contextlib.suppress(FileNotFoundError):
            if is_folder:
                os.rmdir(each)
            else:
                os.unlink(each)


_ATTEMPTS = 100

_holder: ContextVar[str] = ContextVar("holder", default="")

_lock_inodes: dict[int, tuple[int, int]] = {}
"""The device and inode of each lock that this process holds or tries to take, by its descriptor.

No other file has this inode as long as the descriptor is open, even if the lock is removed.
"""


class FolderLockedError(Exception):
    """Another writer holds the lock; `pid` is its process id, or None if unknown.

    `holder` is the name that it took the lock under, or empty.
    """

    def __init__(self, pid: int | None, holder: str = "") -> None:
        super().__init__(pid)
        self.pid = pid
        self.holder = holder


@contextmanager
def lock_as(holder: str) -> Iterator[None]:
    """Let each lock that is taken in this block tell the others this name, of one line."""
    token = _holder.set(holder)
    try:
        yield
    finally:
        _holder.reset(token)


def lock(folder: str) -> int:
    """Lock a folder, making it where needed; return the file descriptor that holds the lock.

    Raises:
        FolderLockedError: another writer holds it.
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
    raise FolderLockedError(None)


def check_lock(fd: int, folder: str) -> None:
    """Check that the lock is still ours: that its file was neither removed nor replaced.

    Raises:
        FolderLockedError: it is not ours; the error has the new holder's process id, if known.
        OSError: the folder can't be read.
    """
    if not _is_ours(fd, folder):
        raise FolderLockedError(*_find_holder(folder))


def unlock(fd: int, folder: str) -> None:
    """Remove the lock file if it is still ours, and release the lock even if that fails.

    Raises:
        OSError: the file can't be removed; the next holder will reuse it.
    """
    try:
        if _is_ours(fd, folder):
            os.unlink(os.path.join(folder, "lock"))
    finally:
        _close(fd)


def _release_in_child() -> None:
    """Release this process's share of the parent's locks after a fork.

    Each descriptor then refers to /dev/null, but its number stays in use: closing it later closes
    no other file.
    """
    for fd, inode in _lock_inodes.items():
        with contextlib.suppress(OSError):
            if _inode(os.fstat(fd)) == inode:
                disconnect(fd)
    _lock_inodes.clear()


os.register_at_fork(after_in_child=_release_in_child)


def disconnect(fd: int) -> None:
    """Let a file descriptor refer to /dev/null: what it shares with another process is let go of.

    Raises:
        OSError: the system refused.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, fd, inheritable=False)
    os.close(nothing)


def _inode(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _close(fd: int) -> None:
    _lock_inodes.pop(fd, None)
    os.close(fd)


def _try_lock(path: str) -> int | None:
    """Lock this file, or return None if its last holder has just removed it."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        return None
    try:
        _lock_inodes[fd] = inode = _inode(os.fstat(fd))
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if inode == _inode(os.stat(path)):
            with contextlib.suppress(OSError):  # the lock holds on a full disk too
                os.ftruncate(fd, 0)
                os.pwrite(fd, _describe_holder(), 0)
            return fd
    except BlockingIOError:
        pid, name = _read_holder(fd)
        _close(fd)
        raise FolderLockedError(pid, name) from None
    except FileNotFoundError:
        pass
    except BaseException:
        _close(fd)
        raise
    _close(fd)
    return None


def _describe_holder() -> bytes:
    name = _holder.get()
    return f"{os.getpid()}\n{name}\n".encode(errors="replace") if name else b"%d\n" % os.getpid()


def _is_ours(fd: int, folder: str) -> bool:
    """Return whether the file that this descriptor locks is still in the folder."""
    try:
        return _lock_inodes.get(fd) == _inode(os.stat(f"{folder}/lock"))
    except FileNotFoundError:
        return False


def is_locked(folder: str) -> bool:
    """Return whether the process that the lock file names is alive.

    Trying the lock would tell for sure, but could make that process fail to get it.
    """
    pid, _ = _find_holder(folder)
    return pid is not None and is_alive(pid)


def is_alive(pid: int) -> bool:
    """Return whether a process with this id exists, whoever its user is."""
    try:
        kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's, or the file holds what is not a process id
        return True
    return True


def _find_holder(folder: str) -> tuple[int | None, str]:
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW
    with contextlib.suppress(OSError), _open(os.path.join(folder, "lock"), flags) as fd:
        return _read_holder(fd)
    return None, ""


_NOTE = 1_000  # bytes of a lock file that are read; it holds a process id and a name


def _read_holder(fd: int) -> tuple[int | None, str]:
    with contextlib.suppress(OSError):  # it is not a file
        pid, _, name = os.pread(fd, _NOTE, 0).partition(b"\n")
        is_pid = pid.isdigit() and len(pid) < 20
        return (int(pid) if is_pid else None), name.decode(errors="replace").strip()
    return None, ""
