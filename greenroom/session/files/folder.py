"""A session's folder, and how its two files are read."""

import os
from datetime import UTC, datetime

from greenroom.core import SessionNotFoundError, SessionStorageError
from greenroom.session.files import durable
from greenroom.session.history.lines import Position, read_on
from greenroom.session.metadata import decode_metadata
from greenroom.session.store import StoredSession

__all__ = ["history_path", "last_change", "metadata_path", "read_session", "storage_error"]


def metadata_path(folder: str) -> str:
    """Return the path of a session's description."""
    return os.path.join(folder, "metadata.json")


def history_path(folder: str) -> str:
    """Return the path of a session's history."""
    return os.path.join(folder, "history.jsonl")


def last_change(folder: str) -> datetime:
    """Return when the history was last added to, in UTC; long ago where there is none.

    The description is not rewritten at every save, so this is what tells which session is newest.

    Raises:
        OSError: the folder can't be read.
    """
    try:
        return datetime.fromtimestamp(os.stat(history_path(folder)).st_mtime, UTC)
    except FileNotFoundError:
        return datetime.fromtimestamp(0, UTC)


def read_session(folder: str, session_id: str, since: Position) -> StoredSession:
    """Read a session from its folder, its history from the place `since` on.

    Raises:
        SessionCorruptError: it is damaged, or what was before `since` is no longer there.
        SessionNotFoundError: the history was removed since then.
        OSError: a file can't be read.
    """
    path = history_path(folder)
    data = durable.read_bytes(metadata_path(folder))
    metadata = None
    if data is not None:
        metadata = decode_metadata(data, session_id=session_id, path=metadata_path(folder))
        metadata = metadata.touched(last_change(folder))
    found = durable.read_bytes(path, since.size - len(since.last))
    if found is None and since.lines:
        raise SessionNotFoundError(f"{path} was removed", session_id=session_id)
    history = read_on(found or b"", session_id=session_id, path=path, since=since)
    return StoredSession(metadata, history, path)


def storage_error(error: OSError, session_id: str, path: str) -> SessionStorageError:
    """Turn what the system said into our error, with the place and what to do."""
    problem = error.strerror or str(error)
    return SessionStorageError(
        f"{error.filename or path}: {problem}",
        session_id=session_id,
        hint="see to free space and permissions there; what is unsaved is kept in memory",
    )
