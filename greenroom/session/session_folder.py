"""A session's folder: reading its two files, and writing them as the only writer."""

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

import msgspec
import trio

from greenroom.core import SessionError, SessionNotFoundError, SessionStorageError, utc_now
from greenroom.core._internal import InvalidJSONError, is_system_clock, serde
from greenroom.fs._internal import (
    FolderLockedError,
    LoopWrites,
    check_lock,
    durable,
    is_locked,
    unlock,
)
from greenroom.session.description import SessionMetadata, read_line_count, with_line_count
from greenroom.session.entries import Entry
from greenroom.session.errors import SessionCorruptError
from greenroom.session.history import (
    START,
    Page,
    Position,
    RepairReport,
    read_backwards,
    read_history,
    read_page,
    report_on,
)
from greenroom.session.holders import record_epoch
from greenroom.session.store import StoredPage, StoredSession
from greenroom.session.store_errors import fenced_error, unknown_error
from greenroom.threads._internal import SharedThreads

T = TypeVar("T")
Stored = TypeVar("Stored", StoredSession, StoredPage)

_LATEST = 1 << 37  # in the year 6325; a file's time may be in no calendar
_MAX_READS = 20  # of a history that is being written
_KEPT = "what is unsaved is kept in memory"
_HINT = f"check the disk and the folder; {_KEPT}"
_FULL = f"free space there, or raise the quota; {_KEPT}"
_CLOSED = f"check the permissions there; {_KEPT}"
_HINTS = {
    None: f"find out what else writes there, and load the session again; {_KEPT}",
    errno.ENOENT: f"it was moved or removed: put it back, or name another folder; {_KEPT}",
    errno.ENOTDIR: "there is a file where a folder should be: move it away, or name another folder",
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EACCES: _CLOSED,
    errno.EPERM: _CLOSED,
    errno.EROFS: f"it is mounted read-only: mount it for writing; {_KEPT}",
    errno.EIO: f"the disk fails: copy the folder elsewhere; {_KEPT}",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n), or close some",
    errno.ENFILE: "too many files are open on this machine: close some programs",
    errno.ELOOP: "links are not followed here: replace the link by the file, or remove it",
    errno.EFBIG: "the limit is 1 GiB: continue in a new session; cut off and repair a damaged one",
    errno.EINVAL: "it is not a regular file: move it away",
}


def metadata_path(folder: str) -> str:
    """Return the path of a session's description."""
    return os.path.join(folder, "metadata.json")


def history_path(folder: str) -> str:
    """Return the path of a session's history."""
    return os.path.join(folder, "history.jsonl")


def last_change(folder: str) -> datetime:
    """Return when the history last grew, in UTC; the beginning of 1970 if there is none.

    The description is not rewritten at every save, so this tells which session is newest.

    Raises:
        OSError: the folder can't be read.
    """
    try:
        changed = os.stat(history_path(folder)).st_mtime
    except FileNotFoundError:
        changed = 0
    return datetime.fromtimestamp(int(min(max(changed, 0), _LATEST)), UTC)


def read_session(folder: str, session_id: str, since: Position) -> StoredSession:
    """Read a session from its folder, its history from the place `since` on.

    Raises:
        SessionCorruptError: it is damaged, or what came before `since` is not there.
        SessionNotFoundError: there was a history before `since`, and it is gone.
        OSError: a file can't be read.
    """
    path = history_path(folder)
    metadata, lines = _read_description(folder, session_id)
    found = durable.read_bytes(path, since.size - len(since.last))
    if found is None and not os.path.exists(metadata_path(folder)):
        metadata, lines = None, 0  # the session was deleted between the two reads
    if found is None and since.lines:
        raise SessionNotFoundError(f"{path} was removed", session_id=session_id)
    history = read_history(found or b"", session_id=session_id, path=path, since=since)
    missing = max(lines - history.end.lines - bool(history.torn), 0)
    return StoredSession(metadata, msgspec.structs.replace(history, missing=missing), path)


def read_last(folder: str, session_id: str, limit: int) -> StoredPage:
    """Read the last messages of a session from its folder, without reading what precedes them.

    Raises:
        SessionCorruptError: it is damaged there.
        OSError: a file can't be read.
    """
    path = history_path(folder)
    metadata, _ = _read_description(folder, session_id)
    try:
        with durable.open_to_read(path) as (fd, size):
            blocks = read_backwards(lambda start, stop: durable.read_between(fd, start, stop), size)
            return StoredPage(
                metadata, read_page(blocks, size, limit, session_id=session_id, path=path)
            )
    except FileNotFoundError:
        # Read again: the session may have been deleted between the two reads.
        metadata, lines = _read_description(folder, session_id)
        report = report_on(START, 0, path, missing=lines) if lines else None
        return StoredPage(metadata, Page(repair=report))


def read_until_stable(read: Callable[[], Stored]) -> Stored:
    """Read a session until it is whole, or damaged twice in the same way.

    This is for readers without the lock. A line that is just being written looks torn, and if a
    torn end is cut off and overwritten between two reads, the two together look damaged.

    Raises:
        SessionCorruptError: it is damaged.
        OSError: a file can't be read.
    """
    before = ""
    for _ in range(_MAX_READS):
        try:
            found = read()
            damage = _torn(found)
            if damage in {"", before}:
                return found
        except SessionCorruptError as error:
            damage = str(error)
            if damage == before:
                raise
        before = damage
    return read()


def _torn(found: StoredSession | StoredPage) -> str:
    """Describe what is torn; empty if nothing is."""
    if isinstance(found, StoredPage):
        return str(found.page.repair or "")
    history = found.history
    if not (history.torn or history.missing):
        return ""
    return f"{len(history.torn)} bytes from {history.end.size} on, {history.missing} lines"


def read_metadata(folder: str, session_id: str) -> SessionMetadata | None:
    """Read only a session's description; None if it has none.

    Raises:
        SessionCorruptError: it is damaged.
        OSError: it can't be read.
    """
    return _read_description(folder, session_id)[0]


def read_described_id(folder: str) -> str | None:
    """Return the session id in a folder's description; None without one that can be read."""
    with contextlib.suppress(OSError, InvalidJSONError):
        return serde.decode(durable.read_bytes(metadata_path(folder)) or b"", _Described).session_id
    return None


class _Described(msgspec.Struct):
    session_id: str


def is_undescribed(folder: str) -> bool:
    """Whether there is a history without a description, and no writer about to write one.

    Raises:
        OSError: the folder can't be read.
    """
    try:
        size = os.stat(history_path(folder)).st_size
    except FileNotFoundError:
        return False
    return size > 0 and not is_locked(folder)


def _read_description(folder: str, session_id: str) -> tuple[SessionMetadata | None, int]:
    """Read the description, and how many lines it knows of."""
    path = metadata_path(folder)
    data = durable.read_bytes(path)
    if data is None:
        return None, 0
    found = SessionMetadata.decode(data, session_id=session_id, path=path).with_updated_at(
        last_change(folder)
    )
    return found, read_line_count(data)


def storage_error(error: OSError, session_id: str, path: str) -> SessionStorageError:
    """Turn a system error into ours, with the place and a hint."""
    problem = error.strerror or str(error)
    return SessionStorageError(
        f"{error.filename or path}: {problem}",
        session_id=session_id,
        nothing_written=not isinstance(error, durable.SyncError),
        hint=hint_for(error),
    )


def hint_for(error: OSError) -> str:
    """Return what can be done about a system error."""
    return _HINTS.get(error.errno, _HINT)


_NOTED_EVERY = 16  # lines, if each is a save without an open session

# Opening neither waits for the reader of a pipe, nor follows a link.
_HISTORY = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW


class FileWriter:
    """Writes one session's files while it holds their lock; made by `FileStore.acquire`.

    Before each write it checks that the lock is still its own. Files can't do both in one step: if
    the lock is removed between the two, that one write still happens.
    """

    def __init__(
        self,
        session_id: str,
        folder: str,
        lock: int,
        threads: SharedThreads,
        writes: LoopWrites,
        epoch: int = 0,
    ) -> None:
        self.epoch = epoch
        """The number of this right, see `SessionWriter.epoch`."""
        self._session_id = session_id
        self._folder = folder
        self._lock = lock
        self._threads = threads
        self._writes = writes
        self._history = -1  # its file descriptor, once something was appended
        self._is_named = True  # unless this writer made it, and its name may not be on the disk
        self._is_local = False  # whether it is known to be on a local disk
        self._appends = 0
        self._lines = 0  # how many are on the disk, once this writer has added one
        self._is_broken = False

    @property
    def is_broken(self) -> bool:
        """Whether a sync failed: it is uncertain what is stored, and nothing more is written."""
        return self._is_broken

    async def read(self, since: Position) -> StoredSession:
        """Read the session, its history from `since` on.

        Raises:
            SessionCorruptError: it is damaged, or what came before `since` is not there.
            SessionStorageError: a file can't be read.
        """
        return await self._run(lambda: read_session(self._folder, self._session_id, since))

    async def append(self, line: bytes, at: Position, *, flush: bool = True) -> None:
        """Add a line to the history, which must end at this place; durable with `flush`.

        Without it, a short line is written on the event loop if that is quick.

        Raises:
            SessionFencedError: the lock was removed or taken over; nothing was written.
            SessionStorageError: the disk refused; the history is as it was before.
        """
        work = partial(self._append, line, at, flush)
        if flush or not self._is_local or not self._writes.allow(len(line)):
            await self._write(work)
            return
        await trio.lowlevel.checkpoint_if_cancelled()
        with self._writes.measure():
            try:
                self._check_and_do(work)
            except (OSError, FolderLockedError) as error:
                raise self._explain(error) from error

    async def write_metadata(self, metadata: SessionMetadata) -> None:
        """Replace `metadata.json`, all or nothing; durable when it returns.

        Raises:
            SessionCorruptError: the old description is invalid, or another session's; it was not
                replaced.
            SessionFencedError: the lock was removed or taken over; nothing was written.
            SessionStorageError: the disk refused.
        """
        await self._write(lambda: self._write_metadata(metadata))

    async def set_aside(self, at: Position) -> str:
        """Move everything after this place into a file beside the history; return its path.

        Raises:
            SessionFencedError: the lock was removed or taken over; nothing was written.
            SessionStorageError: the disk refused; the history is as it was before.
        """
        return await self._write(lambda: self._set_aside(at))

    async def set_changed(self, moment: datetime) -> None:
        """Set when the history was changed; one that has no line yet has no time either.

        Raises:
            SessionFencedError: the lock was removed or taken over; nothing was changed.
            SessionStorageError: the disk refused.
        """

        def change() -> None:
            with contextlib.suppress(FileNotFoundError):
                os.utime(history_path(self._folder), (moment.timestamp(), moment.timestamp()))

        await self._write(change)

    async def delete(self) -> None:
        """Remove the session's folder with everything in it; durable when it returns.

        Raises:
            SessionFencedError: the lock was removed or taken over; nothing was removed.
            SessionStorageError: the disk refused; the session is whole, or it is gone and the error
                names what is left of it.
        """
        await self._write(lambda: durable.remove_folder(self._folder))

    async def salvage(self, relatives: Sequence[SessionMetadata]) -> RepairReport | None:
        """Set everything from the first damaged line on aside, and keep the lines that verify.

        The other sessions of the store help to reconstruct a damaged description. Returns None if
        nothing was damaged.

        Raises:
            SessionNotFoundError: the session is not stored.
            SessionFencedError: the lock was removed or taken over; nothing was written.
            SessionStorageError: the disk refused; the history is as it was before.
        """
        return await self._write(lambda: self._salvage(relatives))

    async def release(self) -> None:
        """Release the lock, and remove the folder if nothing was saved in it.

        Raises:
            SessionStorageError: the disk refused; the lock is released nevertheless.
        """
        await self._run(self._release)

    async def _write(self, work: Callable[[], T]) -> T:
        return await self._run(partial(self._check_and_do, work))

    def _check_and_do(self, work: Callable[[], T]) -> T:
        check_lock(self._lock, self._folder)
        return work()

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await self._threads.run(work)
        except (OSError, FolderLockedError) as error:
            raise self._explain(error) from error

    def _explain(self, error: OSError | FolderLockedError) -> SessionError:
        """Return what the system says as an error of ours."""
        if isinstance(error, FolderLockedError):
            return fenced_error(self._session_id, error.pid, error.holder)
        self._is_broken = self._is_broken or isinstance(error, durable.SyncError)
        return storage_error(error, self._session_id, self._folder)

    def _append(self, line: bytes, at: Position, flush: bool) -> None:
        if self._history < 0:
            self._history = self._open_history(at)
        if flush and not self._is_named:
            durable.sync_folder(self._folder)
            self._is_named = True
        durable.append(self._history, line, at.size, flush=flush)
        self._appends += 1
        if flush:
            self._lines = at.lines + bool(line)
        if not is_system_clock():  # whose time the file has by now
            moment = utc_now().timestamp()
            with contextlib.suppress(OSError):  # the line is durable even if its time is not set
                os.utime(self._history, (moment, moment))

    def _open_history(self, at: Position) -> int:
        path = history_path(self._folder)
        try:
            # Of a file that is new, nothing can be on the disk that was to be gone.
            fd, is_new = os.open(path, _HISTORY | os.O_EXCL, 0o600), True
        except FileExistsError:
            fd, is_new = os.open(path, _HISTORY, 0o600), False
        try:
            status = os.fstat(fd)
            # A writer that crashed before a sync, or whose sync failed, may have left the name,
            # the size and the loose part of the file unsynced.
            if not is_new and (at.loose or status.st_size == 0):
                durable.sync_folder(self._folder)
                durable.rewrite(path, at.size - at.loose, at.size)
            self._is_local = self._writes.is_local(status.st_dev)
        except OSError:
            os.close(fd)
            raise
        self._is_named = not is_new
        return fd

    def _write_metadata(self, metadata: SessionMetadata) -> None:
        path = metadata_path(self._folder)
        previous = durable.read_bytes(path)
        if previous is None:
            durable.sync_folder(os.path.dirname(self._folder))
            history = history_path(self._folder)
            if self._history < 0 and os.path.exists(history):
                durable.rewrite(history, 0, 0)  # a writer emptied it and crashed before the sync
        else:
            # That it is ours.
            SessionMetadata.decode(previous, session_id=self._session_id, path=path)
        self._describe(metadata.encode(previous or b"", lines=self._lines or None))

    def _describe(self, data: bytes) -> None:
        path = metadata_path(self._folder)
        durable.replace(path, data)
        self._is_named = True  # with the folder's other names
        record_epoch(path, self.epoch)

    def _set_aside(self, at: Position) -> str:
        path = history_path(self._folder)
        side = _unused_path(f"{path}.torn.{at.size}")
        durable.replace(side, durable.read_bytes(path, at.size) or b"")
        self._limit_lines(at.lines)  # first, or missing lines would be reported after a crash
        durable.truncate(path, at.size)
        return side

    def _salvage(self, relatives: Sequence[SessionMetadata]) -> RepairReport | None:
        path, id_ = history_path(self._folder), self._session_id
        about = durable.read_bytes(metadata_path(self._folder))
        data = durable.read_bytes(path)
        if about is None and not data:
            raise unknown_error(id_, self._folder)
        from greenroom.session.salvage import salvage_history  # once a history is damaged

        found = salvage_history(data or b"", session_id=id_, path=path)
        restored = self._restore_description(about, found.entries, relatives)
        lines = found.end.lines + bool(found.line)
        missing = 0 if found.damaged else max(read_line_count(about or b"") - lines, 0)
        side = ""
        if found.damaged:
            side = _unused_path(f"{path}.torn.{found.end.size}")
            durable.replace(side, found.damaged)
        self._limit_lines(found.end.lines)
        if found.line:
            durable.replace(path, (data or b"")[: found.end.size] + found.line)
        elif found.damaged:
            durable.truncate(path, found.end.size)
        return found.report(path, side, missing=missing, restored=restored)

    def _restore_description(
        self, data: bytes | None, entries: Sequence[Entry], relatives: Sequence[SessionMetadata]
    ) -> tuple[str, ...]:
        """Reconstruct the description if it is damaged; return the fields that were lost."""
        path, id_ = metadata_path(self._folder), self._session_id
        try:
            if data is not None:
                SessionMetadata.decode(data, session_id=id_, path=path)
                return ()
        except SessionCorruptError:
            durable.replace(_unused_path(f"{path}.damaged"), data or b"")
        from greenroom.session.salvage import restore_description

        moment = last_change(self._folder)
        metadata, lost = restore_description(id_, data or b"", entries, relatives, moment)
        self._describe(metadata.encode())
        return lost or ("session_id",)

    def _limit_lines(self, most: int) -> None:
        """Lower the number of lines in the description to at most this."""
        self._lines = min(self._lines, most)
        data = durable.read_bytes(metadata_path(self._folder)) or b""
        if read_line_count(data) > most:
            self._describe(with_line_count(data, most))

    def _note_lines(self) -> None:
        """Record the number of lines in the description, after more than one commit.

        A single commit is a save without an open session; only some of those should cost two more
        syncs.
        """
        is_due = self._appends > 1 or self._lines % _NOTED_EVERY == 0
        if self._is_broken or not self._lines or not is_due:
            return
        # If this fails, the recorded number stays lower.
        with contextlib.suppress(OSError, FolderLockedError, InvalidJSONError):
            check_lock(self._lock, self._folder)
            data = durable.read_bytes(metadata_path(self._folder))
            if data is not None and read_line_count(data) < self._lines:
                self._describe(with_line_count(data, self._lines))

    def _release(self) -> None:
        try:
            self._note_lines()
            if self._history >= 0:
                os.close(self._history)
        finally:
            unlock(self._lock, self._folder)
        if not os.path.exists(metadata_path(self._folder)):
            # Another writer may have locked it, or it holds files: then it stays.
            with contextlib.suppress(OSError):
                os.rmdir(self._folder)


def _unused_path(path: str) -> str:
    """Return this path, or the first of `path.2`, `path.3`, … if it exists."""
    candidate, number = path, 1
    while os.path.exists(candidate):
        number += 1
        candidate = f"{path}.{number}"
    return candidate
