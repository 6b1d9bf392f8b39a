"""Small files of ours: read whole if they are what they should be, written all or nothing."""

import os
import stat
import tempfile
from pathlib import Path

from greenroom.core import RuleFileError

__all__ = ["MAX_SIZE", "read_bytes", "read_text", "write_atomically"]

MAX_SIZE = 1 << 20
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def read_bytes(path: str | Path) -> bytes:
    """Read a regular file of at most 1 MiB; it never waits for a pipe or a device.

    Raises:
        RuleFileError: it can't be read, is something else, or is larger.
    """
    try:
        descriptor = os.open(path, _READ)
        try:
            # What was opened is looked at, not what may lie at the path by now.
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise RuleFileError("can't be read: not a regular file", path=str(path))
            data = b""
            while chunk := os.read(descriptor, MAX_SIZE + 1 - len(data)):
                data += chunk
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        raise RuleFileError(f"can't be read: {error}", path=str(path)) from error
    _check_size(data, path)
    return data


def read_text(path: str | Path) -> str:
    """Read a file as UTF-8, with or without a mark at its beginning.

    Raises:
        RuleFileError: as `read_bytes`, or it is no text.
    """
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RuleFileError(f"can't be read: {error}", path=str(path)) from error


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file anew, readable by its owner alone: to one beside it first, then renamed over it.

    Raises:
        RuleFileError: there is too much to write, or the disk refuses; what was there stays.
    """
    _check_size(data, path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A temporary file is made with mode 0600.
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise RuleFileError(f"can't be written: {error}", path=str(path)) from error


def _check_size(data: bytes, path: str | Path) -> None:
    if len(data) > MAX_SIZE:
        raise RuleFileError(
            f"larger than {MAX_SIZE >> 20} MiB", path=str(path), hint="remove what is not needed"
        )
