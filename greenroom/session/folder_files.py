"""The files in a session's folder, below `files/`. Every function blocks."""

import contextlib
import os
import time
from datetime import UTC, datetime
from io import BytesIO

from greenroom.fs._internal import durable
from greenroom.session.files import SessionFile, no_file_error

_ABANDONED = 3_600  # seconds without a write, after which nobody is writing a file any more


def put_file(folder: str, name: str, data: bytes) -> None:
    """Keep a file, whole or not at all; durable when it returns.

    Raises:
        OSError: the disk refused; nothing was changed.
    """
    files = _folder(folder)
    durable.make_folder(files)
    _remove_abandoned(files)
    durable.write_file(os.path.join(files, name), data)


def open_file(folder: str, session_id: str, name: str) -> BytesIO:
    """Return a file's content.

    Raises:
        SessionNotFoundError: there is none.
        OSError: it can't be read.
    """
    data = durable.read_bytes(os.path.join(_folder(folder), name))
    if data is None:
        raise no_file_error(session_id, name)
    return BytesIO(data)


def list_files(folder: str) -> tuple[SessionFile, ...]:
    """Describe the files, by their names; what a crash left of others is no file.

    Raises:
        OSError: they can't be listed.
    """
    found = []
    with contextlib.suppress(FileNotFoundError), os.scandir(_folder(folder)) as entries:
        for entry in entries:
            with contextlib.suppress(ValueError, FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                changed = datetime.fromtimestamp(status.st_mtime, UTC)
                if entry.is_file(follow_symlinks=False):
                    name = SessionFile.check_name(entry.name)
                    found.append(SessionFile(name, status.st_size, changed))
    return tuple(sorted(found, key=lambda each: each.name))


def remove_file(folder: str, name: str) -> None:
    """Remove a file, if it is there.

    Raises:
        OSError: it can't be removed.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(_folder(folder), name))
        durable.sync_folder(_folder(folder))


def _remove_abandoned(files: str) -> None:
    """Remove what crashes have left of files, which may be large; nobody else knows their names."""
    since = time.time() - _ABANDONED
    with os.scandir(files) as entries:
        for entry in entries:
            is_unfinished = entry.name.startswith(".greenroom-") and entry.name.endswith(".tmp")
            with contextlib.suppress(OSError):
                if is_unfinished and entry.stat(follow_symlinks=False).st_mtime < since:
                    os.unlink(entry.path)


def _folder(folder: str) -> str:
    return os.path.join(folder, "files")
