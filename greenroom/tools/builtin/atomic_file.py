"""Reading and replacing whole files safely."""

import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO

from greenroom.core import ToolError
from greenroom.tools.builtin.file_stamps import Stamp

__all__ = ["open_regular", "replace_file"]


def open_regular(path: Path, label: str) -> BinaryIO:
    """Open a regular file to read, and nothing that could block (a pipe) or never end (a device).

    Raises:
        ToolError: it is a folder or a special file.
        OSError: it can't be opened.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path, flags)
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(fd, "rb")
    os.close(fd)
    kind = "a folder" if stat.S_ISDIR(mode) else "no regular file (a pipe, socket or device)"
    raise ToolError(f"{label} is {kind}")


def replace_file(path: Path, content: bytes) -> Stamp:
    """Put `content` in place of the file, or make it with its folders; all of it or nothing.

    The content is written to a new file in the same folder and synced, then takes the name. Mode
    and owner of an existing file are kept; other names of it (hard links) keep the old content. A
    crash leaves the old or the new content, at the worst with a file named `.NAME.….tmp` beside it.

    Returns:
        The stamp of the new file.

    Raises:
        OSError: the disk refused; the old file is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    previous = path.stat() if path.exists() else None
    if previous and not os.access(path, os.W_OK):
        raise PermissionError(13, "it is read-only", str(path))
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.tmp")
    # Without a previous file, the system applies the umask to this mode.
    mode = 0o600 if previous else 0o666
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, mode), "w+b") as file:
            file.write(content)
            file.flush()
            if previous:
                _keep_attributes(file.fileno(), previous)
            os.fsync(file.fileno())
            stamp = Stamp.of(file)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)
    return stamp


def _keep_attributes(fd: int, previous: os.stat_result) -> None:
    created = os.fstat(fd)
    if (created.st_uid, created.st_gid) != (previous.st_uid, previous.st_gid):
        try:
            os.fchown(fd, previous.st_uid, previous.st_gid)
        except PermissionError:
            # Only root may give a file away; then it belongs to whoever wrote it, as in an editor.
            os.fchmod(fd, stat.S_IMODE(previous.st_mode) & 0o777)
            return
    os.fchmod(fd, stat.S_IMODE(previous.st_mode))


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
