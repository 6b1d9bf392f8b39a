"""Reading and replacing whole files by their real paths.

Each folder on the way is opened through no symbolic link, so a link that took a folder's place
since the path was resolved leads nowhere. What is replaced is the old file or the new one at every
moment.
"""

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

# Where the system can, a folder is only passed through, which needs no right to list it.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LISTED_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class NotRegularError(OSError):
    """The path leads to a folder, pipe, socket or device; the message says which."""


def read_beginning(path: str | os.PathLike[str], most: int, *, follow: bool = True) -> bytes:
    """Read the beginning of a regular file; never wait for a pipe or a device.

    Raises:
        OSError: it can't be read, or is not a regular file.
        ValueError: the path is not valid.
    """
    flags = os.O_NONBLOCK | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    with open(path, "rb", opener=lambda name, mode: os.open(name, mode | flags)) as file:
        # What was opened is looked at, not what may lie at the path by now.
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{path} is not a regular file")
        return file.read(most)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; refuse what could block (a pipe) or never end (a device).

    Raises:
        NotRegularError: it is a folder or a special file.
        OSError: it can't be opened.
    """
    with open_parent(path) as folder:
        return open_regular_in(folder, path.name)


def open_regular_in(folder: int, name: str) -> BinaryIO:
    """Open a regular file in an open folder, as `open_regular` does."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(name, flags, dir_fd=folder)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(fd, "rb")
    os.close(fd)
    kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file (a pipe, socket or device)"
    raise NotRegularError(f"is {kind}")


def replace_file(path: Path, content: bytes, check: Callable[[BinaryIO], object]) -> os.stat_result:
    """Replace the file with `content`, or create it and its folders; all or nothing.

    The content is written to a new file in the same folder and synced, then takes the name. Mode
    and owner of an existing file are kept; other names of it (hard links) keep the old content. A
    crash leaves the old or the new content, and perhaps a file `.greenroom-….tmp` beside it.
    What root makes in a folder of another user, files and folders, belongs to that user.

    Args:
        path: the file.
        content: its whole content.
        check: called at the last moment with the existing file, if any; it raises to keep that
            file.

    Returns:
        The status of the new file.

    Raises:
        NotRegularError: what is there is not a regular file.
        OSError: the disk refused; the old file is as it was.
    """
    with open_parent(path, make=True) as folder:
        previous = _stat(folder, path.name)
        if previous and not os.access(path.name, os.W_OK, dir_fd=folder):
            raise PermissionError(13, "it is read-only", str(path))

        def finish(fd: int) -> None:
            if previous:
                _copy_attributes(fd, previous)
            else:
                _give_to_owner(folder, fd)

        with replace_in(folder, path.name) as temporary:
            # Without a previous file, the system applies the umask to this mode.
            mode = 0o600 if previous else 0o666
            status = write_new(folder, temporary, content, mode, finish)
            with suppress(FileNotFoundError), open_regular_in(folder, path.name) as present:
                check(present)
    return status


@contextmanager
def replace_in(folder: int, name: str) -> Iterator[str]:
    """Yield a temporary name in an open folder; what the block makes there then replaces `name`.

    If the block raises, the temporary file is removed and `name` stays as it is.
    """
    temporary = f".greenroom-{secrets.token_hex(8)}.tmp"
    try:
        yield temporary
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    sync_open_folder(folder)


def write_new(
    folder: int, name: str, content: bytes, mode: int, finish: Callable[[int], object]
) -> os.stat_result:
    """Make a file in an open folder, call `finish` with it, sync it, and return its status."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(name, flags, mode, dir_fd=folder), "wb") as file:
        file.write(content)
        file.flush()
        finish(file.fileno())
        os.fsync(file.fileno())
        return os.fstat(file.fileno())


def sync_open_folder(folder: int) -> None:
    """Sync a folder, also one whose descriptor was opened with `O_PATH`."""
    fd = os.open(".", _LISTED_FOLDER, dir_fd=folder)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def open_parent(path: Path, *, make: bool = False) -> Iterator[int]:
    """Open the parent folder of a real path, part by part; with `make`, create missing folders."""
    folder = os.open(path.anchor, _FOLDER)
    try:
        for name in path.parent.parts[1:]:
            below = _open_folder(folder, name, make=make)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


def _open_folder(folder: int, name: str, *, make: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
        _give_new_folder(folder, name)
    return os.open(name, _FOLDER, dir_fd=folder)


def _give_new_folder(folder: int, name: str) -> None:
    """Give a new folder to the owner of its parent, unless that user has already replaced it."""
    with suppress(OSError):  # it was moved away, or replaced by a link: nothing is to be given
        new = os.open(name, _LISTED_FOLDER, dir_fd=folder)
        try:
            if os.fstat(new).st_uid == 0 and not os.listdir(new):
                _give_to_owner(folder, new)
        finally:
            os.close(new)


def _give_to_owner(folder: int, new: int) -> None:
    """Give what root has made in another user's folder to that user."""
    owner = os.fstat(folder)
    if os.geteuid() == 0 and owner.st_uid:
        with suppress(OSError):  # a root without this right, or in a namespace that lacks the user
            os.fchown(new, owner.st_uid, owner.st_gid)


def _stat(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _copy_attributes(fd: int, previous: os.stat_result) -> None:
    created = os.fstat(fd)
    if (created.st_uid, created.st_gid) != (previous.st_uid, previous.st_gid):
        try:
            os.fchown(fd, previous.st_uid, previous.st_gid)
        except PermissionError:
            # Only root may give a file away; then it belongs to who wrote it, as in an editor.
            os.fchmod(fd, stat.S_IMODE(previous.st_mode) & 0o777)
            return
    os.fchmod(fd, stat.S_IMODE(previous.st_mode))
