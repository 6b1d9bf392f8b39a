"""A session's folder, and how its two files are read."""

import errno
import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from greenroom.core import SessionCorruptError, SessionNotFoundError, SessionStorageError
from greenroom.session.files import durable
from greenroom.session.files.lock import is_held
from greenroom.session.history.lines import START, Position, read_on
from greenroom.session.history.page import Page, backwards, read_page
from greenroom.session.metadata import SessionMetadata, decode_metadata, described_lines
from greenroom.session.repair import report_on
from greenroom.session.store import StoredPage, StoredSession

T = TypeVar("T", StoredSession, StoredPage)

_LATEST = 1 << 37  # in the year 6325; a file may bear a time that is in no calendar
_LOOKS = 20  # at a history that somebody is writing
_HINT = "see to the disk and the folder; what is unsaved is kept in memory"
_FULL = "free space there, or raise the quota; what is unsaved is kept in memory"
_CLOSED = "see to the permissions there; what is unsaved is kept in memory"
_GONE = "it was moved or removed: put it back, or name another folder; what is unsaved is kept in memory"
_HINTS = {
    None: "see who else writes there, and load the session again; what is unsaved is kept in memory",
    errno.ENOENT: _GONE,
    errno.ENOTDIR: "there is a file where a folder should be: move it away, or name another folder",
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EACCES: _CLOSED,
    errno.EPERM: _CLOSED,
    errno.EROFS: "it is mounted read-only: mount it to be written; what is unsaved is kept in memory",
    errno.EIO: "the disk fails: copy the folder elsewhere; what is unsaved is kept in memory",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n), or close some",
    errno.ENFILE: "too many files are open on this machine: close some programs",
    errno.ELOOP: "a link in the place of a file is not followed: remove it, or put the file there",
    errno.EFBIG: "it may have 1 GiB: go on in a new session; a damaged one, cut it off and repair it",
    errno.EINVAL: "it is not a regular file: move away what is there",
}


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
        changed = os.stat(history_path(folder)).st_mtime
    except FileNotFoundError:
        changed = 0
    return datetime.fromtimestamp(min(max(changed, 0), _LATEST), UTC)


def read_session(folder: str, session_id: str, since: Position) -> StoredSession:
    """Read a session from its folder, its history from the place `since` on.

    Raises:
        SessionCorruptError: it is damaged, or what was before `since` is no longer there.
        SessionNotFoundError: the history was removed since then.
        OSError: a file can't be read.
    """
    path = history_path(folder)
    metadata, lines = _described(folder, session_id)
    found = durable.read_bytes(path, since.size - len(since.last))
    if found is None and not os.path.exists(metadata_path(folder)):
        metadata, lines = None, 0  # the session was deleted between the two
    if found is None and since.lines:
        raise SessionNotFoundError(f"{path} was removed", session_id=session_id)
    history = read_on(found or b"", session_id=session_id, path=path, since=since)
    missing = max(lines - history.end.lines - bool(history.torn), 0)
    return StoredSession(metadata, msgspec.structs.replace(history, missing=missing), path)


def read_last(folder: str, session_id: str, count: int) -> StoredPage:
    """Read the last messages of a session from its folder, and no more of its history than that takes.

    Raises:
        SessionCorruptError: it is damaged there.
        OSError: a file can't be read.
    """
    path = history_path(folder)
    metadata, lines = _described(folder, session_id)
    try:
        with durable.opened(path) as (fd, size):
            blocks = backwards(lambda start, stop: durable.read_between(fd, start, stop), size)
            return StoredPage(
                metadata, read_page(blocks, size, count, session_id=session_id, path=path)
            )
    except FileNotFoundError:
        # Look again: the session may have been deleted between the two.
        metadata, lines = _described(folder, session_id)
        report = report_on(START, 0, path, missing=lines) if lines else None
        return StoredPage(metadata, Page(repair=report))


def settled(look: Callable[[], T]) -> T:
    """Look at a session until it is whole, or twice in the same way damaged.

    For who reads without the lock: a line that is just being written looks torn, and where a torn
    end is cut off and written over between two reads, what was read of both looks damaged.

    Raises:
        SessionCorruptError: it is damaged.
        OSError: a file can't be read.
    """
    before = ""
    for _ in range(_LOOKS):
        try:
            found = look()
            damage = _torn(found)
            if damage in {"", before}:
                return found
        except SessionCorruptError as error:
            damage = str(error)
            if damage == before:
                raise
        before = damage
    return look()


def _torn(found: StoredSession | StoredPage) -> str:
    """Say what is torn, or nothing."""
    if isinstance(found, StoredPage):
        return str(found.page.repair or "")
    history = found.history
    if not (history.torn or history.missing):
        return ""
    return f"{len(history.torn)} bytes from {history.end.size} on, {history.missing} lines"


def describe(folder: str, session_id: str) -> SessionMetadata | None:
    """Read a session's description alone; None where there is none.

    Raises:
        SessionCorruptError: it is damaged.
        OSError: it can't be read.
    """
    return _described(folder, session_id)[0]


def is_undescribed(folder: str) -> bool:
    """Whether there is a history here without a description that is about to be written.

    Raises:
        OSError: the folder can't be read.
    """
    try:
        size = os.stat(history_path(folder)).st_size
    except FileNotFoundError:
        return False
    return size > 0 and not is_held(folder)


def _described(folder: str, session_id: str) -> tuple[SessionMetadata | None, int]:
    """Read the description, and how many lines it knows of."""
    path = metadata_path(folder)
    data = durable.read_bytes(path)
    if data is None:
        return None, 0
    found = decode_metadata(data, session_id=session_id, path=path).touched(last_change(folder))
    return found, described_lines(data)


def storage_error(error: OSError, session_id: str, path: str) -> SessionStorageError:
    """Turn what the system said into our error, with the place and what to do."""
    problem = error.strerror or str(error)
    return SessionStorageError(
        f"{error.filename or path}: {problem}",
        session_id=session_id,
        nothing_written=not isinstance(error, durable.SyncError),
        hint=hint_for(error),
    )


def hint_for(error: OSError) -> str:
    """Say what can be done about what the system said."""
    return _HINTS.get(error.errno, _HINT)
