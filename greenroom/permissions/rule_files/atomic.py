"""Writing a small file all or nothing, readable by its owner alone."""

import os
import tempfile
from pathlib import Path

from greenroom.core import RuleFileError

__all__ = ["write_atomically"]


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file anew: to a file beside it first, synced, then renamed over it.

    Raises:
        RuleFileError: the disk refuses; what was there stays.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A temporary file is made with mode 0600.
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise RuleFileError(f"can't be written: {error}", path=str(path)) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise RuleFileError(f"can't be written: {error}", path=str(path)) from error
        raise
